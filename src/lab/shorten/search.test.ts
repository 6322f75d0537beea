/** The search on simulated models, whose answers depend on the words left in a prompt. */
import { join } from "node:path";
import { expect, test } from "vitest";
import { isLongRun } from "../../../test/helpers/long.js";
import { TestRng } from "../../../test/helpers/rng.js";
import { tempTree } from "../../../test/scripts/temp-tree.js";
import { silentStages } from "../../core/stages.js";
import { plainRequest } from "../../prompts/requests.js";
import { contentCandidates, formCandidates } from "../../prompts/shorten/rules.js";
import type { ScoredChat } from "../../quality/check.js";
import { runTask } from "../../quality/run-task.js";
import type { EvalTask } from "../../quality/tasks.js";
import type { EvalTarget } from "../eval-target.js";
import { rememberedTarget } from "../remembered-target.js";
import { applied, shortenPrompts } from "./search.js";

const NEEDED = "Prices are in euros, and each answer names the currency of the shop.";
const USELESS = "The office was founded by two sisters in a small house near the river.";
const SETTINGS = { temperature: 0, maxTokens: 10, seed: 1 };

const chatsOf = (count: number): ScoredChat[] =>
  Array.from({ length: count }, (_, i) => ({
    family: "prices",
    messages: [
      { role: "system", content: `You are a clerk.\n${NEEDED}   \n\n\n\n\n${USELESS}\n${USELESS}` },
      { role: "user", content: `Price ${i}?` },
      { role: "assistant", content: `${i} euros` },
    ],
    check: { kind: "exact" },
  }));

/** @param rightShare the share of right answers, by the prompt */
function model(rightShare: (prompt: string) => number) {
  const asked: string[] = [];
  const target: EvalTarget = {
    name: "simulated",
    facts: {},
    identity: {},
    close: async () => {},
    run: (task, onProgress) =>
      runTask(
        {
          ask: async (messages) => {
            const prompt = messages.map(({ content }) => content).join("\n");
            asked.push(prompt);
            const number = /Price (\d+)/.exec(prompt)![1]!;
            // An item's difficulty is fixed, whatever the prompt says, as for a real model.
            const isRight = new TestRng(Number(number)).next() < rightShare(prompt);
            const text = isRight ? `${number} euros` : "?";
            return { text, end: "stop", numPromptTokens: prompt.length, numOutputTokens: 2 };
          },
        },
        task,
        4,
        onProgress,
      ),
  };
  return { target, asked };
}

const search = (target: EvalTarget, count = 600) =>
  shortenPrompts({
    target: rememberedTarget(target, SETTINGS, undefined),
    tasks: [{ name: "prices", chats: chatsOf(count) }],
    stages: [formCandidates, contentCandidates],
    maxDrop: 0.02,
    count: (text) => text.length,
    startStage: silentStages,
  });

test("a remembered model asks no item twice, and hands on each that it asks for now", async () => {
  const { target, asked } = model(() => 1);
  const remembered = rememberedTarget(target, SETTINGS, undefined);
  const handedOn = async (count: number) => {
    const progress: (readonly [number, string | undefined])[] = [];
    await remembered.run({ name: "prices", chats: chatsOf(count) }, (numDone, item) =>
      progress.push([numDone, item?.expected]),
    );
    return progress;
  };
  expect(await handedOn(1)).toEqual([[1, "0 euros"]]);
  expect(await handedOn(2)).toEqual([[2, "1 euros"]]);
  expect(asked).toHaveLength(2);
});

test("keeps what harms nothing, refuses what does, and confirms on the other half", async () => {
  const { target, asked } = model((prompt) => (prompt.includes(NEEDED) ? 0.9 : 0.6));
  const { decisions, kept, tasks, tokens, confirmation } = await search(target);
  expect(decisions.map(({ name, verdict }) => [name.slice(0, 18), verdict])).toEqual([
    ["repetitions", "passes"],
    ["white space", "passes"],
    ['passage "The offic', "passes"],
    ['passage "Prices ar', "fails"],
  ]);
  expect(tasks[0]!.chats[0]!.messages[0]!.content).toBe(`You are a clerk.\n${NEEDED}`);
  expect(confirmation!.comparison).toMatchObject({ verdict: "passes", overall: { numItems: 300, drop: 0 } });
  expect(confirmation!.tokens.after).toBeLessThan(confirmation!.tokens.before);
  expect(tokens.after).toBeLessThan(0.6 * tokens.before);
  // No prompt is asked twice, although several candidates are compared with it.
  expect(new Set(asked).size).toBe(asked.length);
  // Each half has its own items: the confirmation asks for 300 more original prompts.
  const originals = new Set(
    chatsOf(600).map(({ messages }) =>
      messages
        .slice(0, -1)
        .map(({ content }) => content)
        .join("\n"),
    ),
  );
  const numDeciding = Math.max(...decisions.map(({ comparison }) => comparison.overall.numItems));
  expect(asked.filter((prompt) => originals.has(prompt)).length).toBe(numDeciding + 300);
  const recorded = chatsOf(5).map(({ messages }) => plainRequest(messages.slice(0, -1), ""));
  for (const { messages } of await applied(kept, recorded))
    expect(messages[0]!.content).toBe(`You are a clerk.\n${NEEDED}`);
});

test("items that share their prompt are in one half, and one prompt alone is refused before it is asked", async () => {
  const { target, asked } = model((prompt) => (prompt.includes(NEEDED) ? 0.9 : 0.6));
  let numDeciding: number | undefined;
  const searchIn = (tasks: readonly EvalTask[]) =>
    shortenPrompts({
      target,
      tasks,
      stages: [formCandidates],
      maxDrop: 0.2,
      count: (text) => text.length,
      startStage: (name) => {
        if (name.startsWith("confirmation")) numDeciding ??= asked.length;
        return silentStages(name);
      },
    });
  const same = { name: "same", chats: Array.from({ length: 50 }, () => chatsOf(1)[0]!) };
  await expect(searchIn([same])).rejects.toMatchObject({ code: "invalid_option" });
  expect(asked).toEqual([]);
  const mixed = { name: "mixed", chats: chatsOf(60).flatMap((chat, i) => Array<ScoredChat>(1 + (i % 4)).fill(chat)) };
  await searchIn([same, mixed]);
  const deciding = new Set(asked.slice(0, numDeciding));
  const confirming = new Set(asked.slice(numDeciding));
  expect(Math.min(deciding.size, confirming.size)).toBeGreaterThan(10);
  expect([...confirming].filter((prompt) => deciding.has(prompt))).toEqual([]);
});

test("families of one item each are shared out, too", async () => {
  const { target, asked } = model(() => 1);
  const tasks = chatsOf(40).map((chat, i) => ({ name: `t${i}`, chats: [chat] }));
  const count = (text: string) => text.length;
  const { confirmation } = await shortenPrompts({
    target,
    tasks,
    stages: [formCandidates],
    maxDrop: 0.3,
    count,
    startStage: silentStages,
  });
  expect(confirmation!.comparison.overall.numItems).toBe(20);
  expect(asked.length).toBeGreaterThan(40);
});

test("what one change gains, the next may not lose", async () => {
  const { target } = model((prompt) => (prompt.includes(USELESS) ? 0.6 : prompt.includes(NEEDED) ? 0.95 : 0.8));
  const { decisions } = await search(target);
  expect(decisions.find(({ name }) => name.includes("Prices"))).toMatchObject({ verdict: "fails" });
});

test("few items keep nothing, and say how many it takes", async () => {
  const { target } = model(() => 0.9);
  const { decisions, confirmation } = await search(target, 40);
  expect(confirmation).toBeUndefined();
  for (const { verdict, comparison } of decisions) {
    expect(verdict).toBe("undecided");
    expect(comparison.numMoreItems).toBeGreaterThan(100);
  }
});

test("items that are never answered right show nothing, so that nothing is kept", async () => {
  const { target } = model(() => 0.01);
  const { decisions, kept } = await search(target);
  expect(new Set(decisions.map(({ verdict }) => verdict))).toEqual(new Set(["undecided"]));
  expect(kept).toEqual([]);
});

test.runIf(isLongRun)(
  "a prompt that is worse passes in few of many searches (needs npm run test:long)",
  async () => {
    let numWrong = 0;
    for (let seed = 0; seed < 20; seed++) {
      const hard = (prompt: string): number => {
        const number = Number(/Price (\d+)/.exec(prompt)![1]);
        return new TestRng(seed * 10_007 + number).next() < 0.04 && !prompt.includes(USELESS) ? 0 : 1;
      };
      const { target } = model(hard);
      const { confirmation } = await search(target, 400);
      if (confirmation?.comparison.verdict === "passes" && confirmation.comparison.overall.after < 1) numWrong++;
    }
    expect(numWrong).toBeLessThanOrEqual(3);
  },
  60_000,
);

test("a stopped run goes on from its journal", async () => {
  const path = join(tempTree({}), "journal.jsonl");
  const tasks = [{ name: "prices", chats: chatsOf(30) }];
  const first = model(() => 0.9);
  const before = await rememberedTarget(first.target, SETTINGS, path).run(tasks[0]!, () => {});
  const second = model(() => 0.9);
  const more = { name: "prices", chats: chatsOf(40) };
  const after = await rememberedTarget(second.target, SETTINGS, path).run(more, () => {});
  expect(second.asked.length).toBe(10);
  expect(after.items.slice(0, 30)).toEqual(before.items);
  // Other settings give other answers.
  const third = model(() => 0.9);
  await rememberedTarget(third.target, { ...SETTINGS, temperature: 1 }, path).run(tasks[0]!, () => {});
  expect(third.asked.length).toBe(30);
  // So does another model of the same name.
  const fourth = model(() => 0.9);
  await rememberedTarget({ ...fourth.target, identity: { files: ["other"] } }, SETTINGS, path).run(tasks[0]!, () => {});
  expect(fourth.asked.length).toBe(30);
});
