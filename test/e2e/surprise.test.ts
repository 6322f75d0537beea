/** How surprising texts are to the bundled model in the real engine. */
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { silentStages } from "../../src/core/stages.js";
import { DEFAULT_ENGINE_OPTIONS } from "../../src/engine/api/options.js";
import { repositoryRoot } from "../helpers/fixtures.js";

/** The compiled one: the engine starts a thread from a file. */
const COMPILED = join(repositoryRoot(), "dist/src/lab/shorten/surprise.js");
const { openSurpriseModel } = (await import(COMPILED)) as typeof import("../../src/lab/shorten/surprise.js");

const signal = new AbortController().signal;
const opening = openSurpriseModel(
  join(repositoryRoot(), "models/mill-base.gguf"),
  { ...DEFAULT_ENGINE_OPTIONS, numThreads: 1, kvCacheMemoryBytes: 1 << 26 },
  silentStages,
  signal,
);
afterAll(async () => (await opening).close());

const meanOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

test("a sentence that is said again surprises less", async () => {
  const { surprise } = await opening;
  const sentence = "The carved basket of Walter is in the cellar. ";
  const [tokens] = await surprise([sentence + sentence]);
  const isFirst = tokens!.ends.map((end) => end <= sentence.length);
  const [first, again] = [true, false].map((each) => meanOf(tokens!.nats.filter((_, at) => isFirst[at] === each)));
  expect(again!).toBeLessThan(first! / 3);
});

test("the tokens end where the text's characters do, in any script", async () => {
  const { surprise } = await opening;
  const texts = ["Grüße, 😀 und 你好!", "", "a", "\n\n x\t"];
  const results = await surprise(texts);
  expect(results[1]).toBeUndefined();
  for (const at of [0, 2, 3]) {
    const { ends, nats } = results[at]!;
    expect(ends.at(-1)).toBe(texts[at]!.length);
    expect(nats.length).toBe(ends.length);
    expect([...ends].sort((a, b) => a - b)).toEqual(ends);
    for (const value of nats) expect(value).toBeGreaterThanOrEqual(0);
  }
});

test("a text longer than the context is read in windows", async () => {
  const { surprise, count } = await opening;
  const text = "Once there was a mill by the river, and it was old. ".repeat(400);
  expect(count(text)).toBeGreaterThan(2048);
  const [tokens] = await surprise([text]);
  expect(tokens!.ends.at(-1)).toBe(text.length);
  expect(tokens!.nats.every(Number.isFinite)).toBe(true);
});
