import { expect, test } from "vitest";
import { type EngineRequest, GREEDY_SAMPLING } from "../api/request.js";
import { DEFAULT_SPECULATIVE_CONFIG } from "../api/speculative-config.js";
import { Sequence } from "../step/sequence.js";
import { TextLookup } from "./lookup.js";

const config = DEFAULT_SPECULATIVE_CONFIG;

function sequenceOf(
  prompt: readonly number[],
  output: readonly number[] = [],
  more: Partial<EngineRequest> = {},
): Sequence {
  const sampling = { ...GREEDY_SAMPLING, maxTokens: 1000 };
  const sequence = new Sequence(1, { promptIds: Int32Array.from(prompt), sampling, ...more }, 1, 0);
  for (const token of output) sequence.append(token);
  return sequence;
}

const propose = (prompt: readonly number[], output: readonly number[], maxTokens: number, options = {}) =>
  new TextLookup({ ...config, ...options }).propose(sequenceOf(prompt, output), maxTokens)?.tokens;

test("proposes what followed the last tokens before", () => {
  expect(propose([1, 2, 3, 4, 5, 6, 7, 8], [9, 3, 4], 3)).toEqual([5, 6, 7]);
  expect(propose([1, 2, 3, 4, 5, 6, 7, 8], [9, 4], 1)).toEqual([5]);
});

test("the longest context wins, and none shorter than asked for counts", () => {
  expect(propose([7, 1, 2, 50, 8, 1, 2, 60, 9, 1, 2, 60], [7, 1, 2], 1)).toEqual([60]);
  expect(propose([5, 6, 7, 1, 2, 50, 8, 1, 2, 60, 9, 1, 2, 60], [5, 6, 7, 1, 2], 1)).toEqual([50]);
  expect(propose([1, 2, 3, 4, 5, 6, 7, 8], [9, 4], 1, { promptLookupMin: 2 })).toBeUndefined();
});

test("a text that repeats itself is continued beyond its end, as far as that seems likely", () => {
  const tokens = Array.from({ length: 60 }, (_, i) => i % 3);
  expect(propose(tokens, [0, 1], 7)).toEqual([2, 0, 1, 2, 0, 1, 2]);
  const sure = propose(tokens, [0, 1], 15, { suffixMinTokenProb: 0.8 })!;
  expect(sure.length).toBeLessThan(15);
});

test("nothing is proposed for tokens that never stood together", () => {
  expect(propose([1, 2, 3, 4, 5], [], 4)).toBeUndefined();
});

test("a prompt too long to read at once is read before anything is guessed", () => {
  const lookup = new TextLookup(config);
  const sequence = sequenceOf(Array.from({ length: 40_000 }, (_, i) => i % 30_000));
  lookup.begin(sequence);
  expect(lookup.propose(sequence, 1)).toBeUndefined();
  expect(lookup.propose(sequence, 3)?.tokens).toEqual([10_000, 10_001, 10_002]);
});

test("outputs are remembered for the same salt only, from their first token on, and the oldest are forgotten", () => {
  const lookup = new TextLookup({ ...config, suffixMaxCachedRequests: 4, suffixMinTokenProb: 0 });
  const answer = (prompt: readonly number[], output: readonly number[], salt: string) => {
    const sequence = sequenceOf(prompt, [], { cacheSalt: salt });
    lookup.begin(sequence);
    for (const token of output) {
      sequence.append(token);
      lookup.propose(sequence, 1);
    }
    lookup.forget(sequence);
  };
  answer([1, 9], [10, 11, 12, 13], "a");
  expect(lookup.propose(sequenceOf([5, 9], [], { cacheSalt: "a" }), 3)?.tokens).toEqual([10, 11, 12]);
  expect(lookup.propose(sequenceOf([5], [10, 11], { cacheSalt: "a" }), 2)?.tokens).toEqual([12, 13]);
  expect(lookup.propose(sequenceOf([5], [10, 11], { cacheSalt: "b" }), 2)).toBeUndefined();
  for (let i = 0; i < 4; i++) answer([2], [20 + i, 30 + i], "a");
  expect(lookup.propose(sequenceOf([5], [10, 11], { cacheSalt: "a" }), 2)).toBeUndefined();
  expect(
    new TextLookup({ ...config, method: "ngram" }).propose(sequenceOf([5], [10, 11], { cacheSalt: "a" }), 2),
  ).toBeUndefined();
});

test("what becomes of guesses for background sequences says nothing about others'", () => {
  const lookup = new TextLookup({ ...config, method: "ngram" });
  const chanceOf = (more: Partial<EngineRequest>) => lookup.propose(sequenceOf([1, 2, 3, 1], [], more), 1)?.chances[0];
  const early = chanceOf({});
  const sequence = sequenceOf([0, 100], [], { isBackground: true });
  for (let i = 0; i < 200; i++) {
    sequence.append(i % 2 === 0 ? 0 : 100 + i);
    lookup.propose(sequence, 1);
  }
  expect(chanceOf({})).toBe(early);
  expect(chanceOf({ isBackground: true }) ?? 0).toBeLessThan(early! / 2);
});

test("learns how often which sort of guess comes true, drafted or not", () => {
  const lookup = new TextLookup({ ...config, method: "ngram" });
  const chanceOf = (sequence: Sequence) => lookup.propose(sequence, 1)?.chances[0];
  const early = chanceOf(sequenceOf([1, 2, 3, 1]))!;
  // What followed once never follows again.
  const sequence = sequenceOf([0, 100]);
  for (let i = 0; i < 200; i++) {
    sequence.append(i % 2 === 0 ? 0 : 100 + i);
    lookup.propose(sequence, 1);
  }
  lookup.forget(sequence);
  expect(chanceOf(sequenceOf([1, 2, 3, 1])) ?? 0).toBeLessThan(early / 2);
});
