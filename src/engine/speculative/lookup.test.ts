import { expect, test } from "vitest";
import { GREEDY_SAMPLING } from "../api.js";
import { Sequence } from "../sequence.js";
import { DEFAULT_SPECULATIVE_CONFIG } from "./config.js";
import { PromptLookup, SuffixLookup } from "./lookup.js";

const config = DEFAULT_SPECULATIVE_CONFIG;

function sequenceOf(prompt: readonly number[], output: readonly number[] = [], cacheSalt = ""): Sequence {
  const sampling = { ...GREEDY_SAMPLING, maxTokens: 100 };
  const sequence = new Sequence(1, { promptIds: Int32Array.from(prompt), sampling, cacheSalt }, 1, 0);
  for (const token of output) sequence.append(token);
  return sequence;
}

test("prompt lookup proposes what followed the last tokens before", () => {
  const sequence = sequenceOf([1, 2, 3, 4, 5, 6, 7, 8], [9, 3, 4]);
  expect(new PromptLookup(config).propose(sequence, 3)?.tokens).toEqual([5, 6, 7]);
});

test("the longest match wins, and among equals the majority", () => {
  const lookup = new PromptLookup(config);
  expect(lookup.propose(sequenceOf([7, 1, 2, 50, 8, 1, 2, 60, 9, 1, 2, 60, 7, 1, 2]), 1)?.tokens).toEqual([50]);
  const divided = lookup.propose(sequenceOf([1, 2, 60, 3, 1, 2, 50, 4, 1, 2, 60, 5, 1, 2]), 2);
  expect(divided?.tokens[0]).toBe(60);
  expect(divided?.confidences[0]).toBeCloseTo(2 / 3);
});

test("a text that repeats itself is continued beyond its end", () => {
  const sequence = sequenceOf([1, 2, 3, 1, 2, 3, 1, 2]);
  expect(new PromptLookup(config).propose(sequence, 7)?.tokens).toEqual([3, 1, 2, 3, 1, 2, 3]);
});

test("nothing is proposed for tokens that never stood together", () => {
  expect(new PromptLookup(config).propose(sequenceOf([1, 2, 3, 4, 5]), 4)).toBeUndefined();
});

test("suffix lookup remembers outputs of the same salt only, and forgets the oldest", () => {
  const lookup = new SuffixLookup({ ...config, suffixMaxCachedRequests: 2 });
  lookup.forget(sequenceOf([1], [10, 11, 12, 13], "a"));
  expect(lookup.propose(sequenceOf([5], [10, 11], "a"), 2)?.tokens).toEqual([12, 13]);
  expect(lookup.propose(sequenceOf([5], [10, 11], "b"), 2)).toBeUndefined();
  for (let i = 0; i < 3; i++) lookup.forget(sequenceOf([1], [20 + i, 30 + i], "a"));
  expect(lookup.propose(sequenceOf([5], [10, 11], "a"), 2)).toBeUndefined();
});
