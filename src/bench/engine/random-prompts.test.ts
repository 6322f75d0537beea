import { expect, test } from "vitest";
import { randomPrompts } from "./random-prompts.js";

const SHAPE = { batch: 3, promptTokens: 40, sharedPrefix: 0, vocabSize: 512 };

test("prompts depend only on the seed, and differ between sequences and seeds", () => {
  const prompts = randomPrompts(SHAPE, 7);
  expect(prompts.map((prompt) => prompt.length)).toEqual([40, 40, 40]);
  expect(randomPrompts(SHAPE, 7)).toEqual(prompts);
  const all = [...prompts, ...randomPrompts(SHAPE, 8)].map(String);
  expect(new Set(all).size).toBe(6);
});

test("ids stay in the vocabulary and cover all of it", () => {
  const ids = new Set(randomPrompts({ ...SHAPE, promptTokens: 4000, vocabSize: 5 }, 0).flatMap((ids) => [...ids]));
  expect([...ids].sort()).toEqual([0, 1, 2, 3, 4]);
});

test("a shared prefix is equal in all sequences of one seed and differs for another seed", () => {
  const head = (prompt: Int32Array) => String(prompt.subarray(0, 16));
  const tail = (prompt: Int32Array) => String(prompt.subarray(16));
  const prompts = randomPrompts({ ...SHAPE, sharedPrefix: 16 }, 1);
  expect(new Set(prompts.map(head)).size).toBe(1);
  expect(new Set(prompts.map(tail)).size).toBe(3);
  expect(head(randomPrompts({ ...SHAPE, sharedPrefix: 16 }, 2)[0]!)).not.toBe(head(prompts[0]!));
});
