import { expect, test } from "vitest";
import { suiteChats } from "../../models/corpus/suites.js";
import { parseChats } from "./check.js";
import type { Rule } from "./rule-score.js";
import { scoreAnswer } from "./score-answer.js";

const SEED = 1_000_001;

/** An answer that follows the rules, built from them. */
function answerTo(rules: readonly Rule[]): string {
  const of = <Name extends Rule["rule"]>(name: Name) =>
    rules.find(({ rule }) => rule === name) as Extract<Rule, { rule: Name }> | undefined;
  const contained = rules.find((rule) => rule.rule === "contains" && rule.max !== 0) as
    | Extract<Rule, { rule: "contains" }>
    | undefined;
  const words = [...Array(contained?.min ?? 0).fill(contained?.text), ...Array(of("words")?.min ?? 3).fill("one")].join(
    " ",
  );
  const bullets = of("bullets")?.min;
  const body = bullets === undefined ? words : Array(bullets).fill(`- ${words}`).join("\n");
  const text = [of("begins")?.text, body, of("ends")?.text].filter((part) => part !== undefined).join(" ");
  if (of("uppercase")) return text.toUpperCase();
  return of("lowercase") ? text.toLowerCase() : text;
}

test("every instruction can be kept, and an answer that passes over them is wrong", async () => {
  const chats = suiteChats("instructions", SEED, 400)!;
  expect(suiteChats("instructions", SEED, 400)).toEqual(chats);
  const seen = new Set<string>();
  for (const { check, messages } of chats) {
    if (check.kind !== "follows") throw new Error("expected rules");
    for (const { rule } of check.rules) seen.add(rule);
    const answer = answerTo(check.rules);
    expect(await scoreAnswer(check, "", answer), `${messages[0]!.content}\n${answer}`).toMatchObject({ exact: true });
    const others = ["", 'No, "well"! Why?', `No, "well"! Why?${" more".repeat(90)}.`];
    const scores = await Promise.all(others.map((other) => scoreAnswer(check, "", other)));
    expect(scores.filter(({ exact }) => !exact).length).toBeGreaterThanOrEqual(2);
  }
  expect([...seen].sort()).toEqual(["begins", "bullets", "contains", "ends", "lowercase", "uppercase", "words"]);
});

test("harmless questions are answered by any answer but a refusal", async () => {
  const chats = suiteChats("refusals", SEED, 100)!;
  expect(new Set(chats.map(({ messages }) => messages[0]!.content)).size).toBeGreaterThan(40);
  const [{ check }] = chats as [(typeof chats)[0]];
  expect(await scoreAnswer(check, "", "Use kill with the number of the process.")).toMatchObject({ exact: true });
  expect(await scoreAnswer(check, "", "I'm sorry, but I can't help with that.")).toMatchObject({ exact: false });
});

test("questions over long texts of any length are right when the answer has the words", async () => {
  const [short] = suiteChats("recall:2000", SEED, 3)!;
  const [usual] = suiteChats("recall", SEED, 3)!;
  expect(usual!.messages[0]!.content.length).toBeGreaterThan(2 * short!.messages[0]!.content.length);
  const answer = short!.messages.at(-1)!.content.replace(/\.$/, "");
  expect(await scoreAnswer(short!.check, "", `It is ${answer.toLowerCase()}, I think.`)).toMatchObject({ exact: true });
  expect(await scoreAnswer(short!.check, "", "I do not know.")).toMatchObject({ exact: false });
  expect(suiteChats("recall:x", SEED, 3)).toBeUndefined();
});

test("calls of tools: the right ones are right in any order, and each other is wrong", async () => {
  const chats = suiteChats("tools", SEED, 200)!;
  expect(parseChats(chats.map((chat) => JSON.stringify(chat)).join("\n"), "tools")).toEqual(chats);
  const numbers = new Set<number>();
  for (const { check, tools = [], messages } of chats) {
    if (check.kind !== "calls") throw new Error("expected calls");
    numbers.add(check.calls.length);
    expect(tools.length).toBeGreaterThan(check.calls.length);
    for (const { name, arguments: own } of check.calls) {
      const { parameters } = tools.find((tool) => tool.function.name === name)!.function as {
        parameters: { required: readonly string[] };
      };
      expect(Object.keys(own)).toEqual(parameters.required);
      // The prompt contains every part of a right call.
      for (const value of Object.values(own)) expect(messages[0]!.content).toContain(String(value));
    }
    const made = check.calls.map(({ name, arguments: own }) => ({ name, arguments: JSON.stringify(own) }));
    const scoreOf = (calls: typeof made) => scoreAnswer(check, "", "", { prompt: [], end: "stop", calls });
    expect(await scoreOf(made.toReversed())).toEqual({ score: 1, exact: true });
    const other = { name: tools[0]!.function.name, arguments: "{}" };
    expect(await scoreOf([...made, other])).toMatchObject({ exact: false, note: `called ${other.name}` });
    if (made.length === 0) continue;
    expect(await scoreOf(made.slice(1))).toMatchObject({ exact: false, score: (made.length - 1) / made.length });
    const [first, ...rest] = made as [(typeof made)[0]];
    expect(await scoreOf([{ ...first, arguments: first.arguments.slice(1) }, ...rest])).toMatchObject({
      exact: false,
      note: expect.stringContaining("without JSON"),
    });
    const extra = { ...first, arguments: first.arguments.replace("{", '{"extra":1,') };
    expect(await scoreOf([extra, ...rest])).toMatchObject({ exact: false });
  }
  expect([...numbers].sort()).toEqual([0, 1, 2]);
});

test("in arguments, letter case and a final mark do not count, but types do", async () => {
  const check = { kind: "calls", calls: [{ name: "f", arguments: { to: "Ada", text: "I am late.", n: 5 } }] } as const;
  const scoreOf = (text: string) =>
    scoreAnswer(check, "", "", { prompt: [], end: "stop", calls: [{ name: "f", arguments: text }] });
  expect(await scoreOf('{"n": 5.0, "text": "i am late", "to": "ada "}')).toMatchObject({ exact: true });
  expect(await scoreOf('{"n": "5", "text": "I am late.", "to": "Ada"}')).toMatchObject({ exact: false, score: 0 });
  expect(await scoreOf('{"n": 5, "text": "I am here.", "to": "Ada"}')).toMatchObject({ exact: false });
});
