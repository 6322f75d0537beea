import { expect, test } from "vitest";
import { suiteChats } from "../../models/corpus/suites.js";
import type { Rule } from "./rule-score.js";
import { scoreAnswer } from "./score-answer.js";

const SEED = 1_000_001;

/** An answer that keeps the rules, built from them. */
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
