/** DRY's penalties, by hand and against their definition. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { dryPenalties } from "../../../test/reference/dry.js";
import type { DryPenalty } from "../api/request.js";
import { DryPenalties } from "./dry.js";

const VOCAB_SIZE = 64;
const DRY: DryPenalty = { multiplier: 1, base: 2, allowedLength: 2, breakers: [] };

function penaltiesAt(tokens: readonly number[], dry: DryPenalty, of = new DryPenalties(VOCAB_SIZE)) {
  const found = new Map<number, number>();
  // Tokens behind the position do not count.
  of.at(Int32Array.from([...tokens, ...tokens]), tokens.length, dry, (id, penalty) => found.set(id, penalty));
  return found;
}
const listed = (tokens: readonly number[], fields: Partial<DryPenalty> = {}) => [
  ...penaltiesAt(tokens, { ...DRY, ...fields }),
];

test.each<[string, readonly number[], Partial<DryPenalty>, readonly (readonly [number, number])[]]>([
  ["nothing comes again", [1, 2, 3, 4], {}, []],
  ["one token comes again, and two may", [1, 2, 3, 1], {}, []],
  ["two tokens come again", [1, 2, 3, 1, 2], {}, [[3, 1]]],
  ["three tokens come again", [1, 2, 3, 4, 1, 2, 3], {}, [[4, 2]]],
  ["four tokens come again", [5, 1, 2, 3, 4, 5, 1, 2, 3], { multiplier: 0.5, base: 3 }, [[4, 4.5]]],
  ["fewer may come again", [1, 2, 3, 1], { allowedLength: 1 }, [[2, 1]]],
  // 1 2 has been followed by 3 and by 4, and 9 1 2 by 4.
  [
    "two tokens have followed",
    [1, 2, 3, 9, 1, 2, 4, 9, 1, 2],
    {},
    [
      [4, 2],
      [3, 1],
    ],
  ],
  ["the same token again and again", [7, 7, 7, 7], {}, [[7, 2]]],
  ["a period of two", [7, 8, 7, 8, 7], {}, [[8, 2]]],
  ["the earlier text is out of the window", [1, 2, 3, 1, 2], { window: 4 }, []],
  ["the earlier text is just within the window", [9, 1, 2, 3, 1, 2], { window: 5 }, [[3, 1]]],
  ["a window of nothing", [7, 7, 7, 7], { window: 0 }, []],
  ["no text before", [], {}, []],
  // The repetition starts anew behind 3: only 1 2 counts.
  ["a breaker within", [3, 1, 2, 4, 3, 1, 2], { breakers: [{ heads: [3], tail: [] }] }, [[4, 1]]],
  ["a breaker at the end", [1, 2, 3, 4, 1, 2, 3], { breakers: [{ heads: [3], tail: [] }] }, []],
  ["a breaker just before", [1, 2, 3, 4, 1, 2, 3], { breakers: [{ heads: [2], tail: [] }] }, []],
  ["a breaker is not made less likely", [1, 2, 3, 1, 2], { breakers: [{ heads: [3], tail: [] }] }, []],
  ["a breaker of two tokens", [3, 1, 2, 4, 3, 1, 2], { breakers: [{ heads: [8, 3], tail: [1] }] }, []],
  ["half a breaker", [3, 1, 2, 4, 3, 1, 2], { breakers: [{ heads: [3], tail: [5] }] }, [[4, 2]]],
  ["a breaker that the position cuts", [3, 1, 2, 4, 3, 1, 2], { breakers: [{ heads: [2], tail: [3] }] }, [[4, 2]]],
  [
    "the longest of two breakers",
    [3, 1, 2, 4, 3, 1, 2],
    {
      breakers: [
        { heads: [3], tail: [1] },
        { heads: [3], tail: [] },
      ],
    },
    [],
  ],
  ["a penalty beyond all numbers", new Array<number>(3000).fill(1), { base: 100 }, [[1, 1e30]]],
])("%s", (_, tokens, fields, penalties) => {
  expect(listed(tokens, fields)).toEqual(penalties);
});

test("are those of the definition, on texts of few tokens", () => {
  const id = fc.nat(4);
  const breaker = fc.record({
    heads: fc.array(id, { minLength: 1, maxLength: 2 }),
    tail: fc.array(id, { maxLength: 3 }),
  });
  const dry = fc.record({
    multiplier: fc.constantFrom(0.5, 1, 3),
    base: fc.constantFrom(1, 1.75, 40),
    allowedLength: fc.integer({ min: 0, max: 4 }),
    window: fc.option(fc.nat(40), { nil: undefined }),
    breakers: fc.array(breaker, { maxLength: 6 }),
  });
  // One object serves all requests, so nothing of one may show in the next.
  const of = new DryPenalties(VOCAB_SIZE);
  fc.assert(
    fc.property(fc.array(id, { maxLength: 50 }), dry, (tokens, fields) => {
      const [found, wanted] = [penaltiesAt(tokens, fields, of), dryPenalties(tokens, fields)];
      expect(Object.fromEntries(found)).toEqual(Object.fromEntries(wanted));
    }),
    { seed: 214, numRuns: 2000 },
  );
});

/** Counts the reads of its tokens. */
function countingTokens(tokens: readonly number[]) {
  const reads = { num: 0 };
  const counting = new Proxy(Int32Array.from(tokens), {
    get: (target, name) => {
      reads.num++;
      return Reflect.get(target, name) as unknown;
    },
  });
  return { counting, reads };
}

test("of a text that repeats itself all the time takes time linear in its length", () => {
  const { counting, reads } = countingTokens(new Array<number>(20_000).fill(1));
  new DryPenalties(VOCAB_SIZE).at(counting, 20_000, DRY, () => {});
  expect(reads.num).toBeLessThan(20_000 * 10);
});

/** A head with every tail of twenty tokens of ones and at most two other tokens, so that all begin alike. */
const MANY_TAILS: DryPenalty = {
  ...DRY,
  breakers: Array.from({ length: 400 }, (_, i) => {
    const tail = new Array<number>(20).fill(1);
    tail[19 - (i % 20)] = 2;
    tail[19 - (Math.floor(i / 20) % 20)] = 3;
    return { heads: [1], tail };
  }),
};

test("with many tails behind one head are those of the definition, at a bounded cost for each token", () => {
  const ones = new Array<number>(2000).fill(1);
  const withTail = [...ones.slice(0, 100), ...MANY_TAILS.breakers[137]!.tail, ...ones.slice(0, 30)];
  const texts = [ones.slice(0, 200), [...withTail, ...withTail], [...withTail, ...withTail.slice(0, 125)]];
  for (const text of texts) expect(penaltiesAt(text, MANY_TAILS)).toEqual(dryPenalties(text, MANY_TAILS));
  const { counting, reads } = countingTokens(ones);
  new DryPenalties(VOCAB_SIZE).at(counting, ones.length, MANY_TAILS, () => {});
  expect(reads.num).toBeLessThan(ones.length * 40);
});

test("look for a breaker no further back than a repetition reaches", () => {
  const different = Array.from({ length: 5000 }, (_, i) => 4 + (i % 60)).map((id, i) => (i < 4990 ? 4 : id));
  const dry = { ...MANY_TAILS, allowedLength: 0 };
  const { counting, reads } = countingTokens(different);
  new DryPenalties(VOCAB_SIZE).at(counting, different.length, dry, () => {});
  const bare = countingTokens(different);
  new DryPenalties(VOCAB_SIZE).at(bare.counting, different.length, { ...dry, breakers: [] }, () => {});
  expect(reads.num - bare.reads.num).toBeLessThan(200);
});

test("of a request's choices, each with a copy of the breakers, read these once", () => {
  let numReads = 0;
  const dryOf = (...ids: number[]): DryPenalty => {
    const heads = Int32Array.from(ids);
    const value = () => {
      numReads++;
      return ids.values();
    };
    Object.defineProperty(heads, Symbol.iterator, { value });
    return { ...DRY, breakers: [{ heads, tail: [] }] };
  };
  const of = new DryPenalties(VOCAB_SIZE);
  const text = [1, 2, 3, 1, 2];
  const [first, second, other] = [dryOf(3, 5), dryOf(3, 5), dryOf(4, 5)];
  const found = [first, second, first, other, second].map((dry) => [...penaltiesAt(text, dry, of)]);
  expect(found).toEqual([[], [], [], [[3, 1]], []]);
  expect(numReads).toBe(2);
});

test("heads of breakers are not read before a text has their tail", () => {
  let numRead = 0;
  class Heads extends Int32Array {
    override [Symbol.iterator]() {
      numRead++;
      return super[Symbol.iterator]();
    }
  }
  const breakers = [{ heads: new Heads([5, 6]), tail: [1, 40] }];
  const of = new DryPenalties(VOCAB_SIZE);
  const penalties = (tokens: readonly number[]) => [...penaltiesAt(tokens, { ...DRY, breakers }, of)];
  expect(penalties([1, 2, 1, 2, 1, 2])).toEqual([[1, 4]]);
  expect(numRead).toBe(0);
  expect(penalties([1, 2, 5, 1, 40])).toEqual([]);
  expect(numRead).toBe(1);
});
