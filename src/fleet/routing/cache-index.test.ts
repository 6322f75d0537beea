/** Properties of every index, guessed or reported. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CachedBlocks } from "../../text/cached-blocks.js";
import type { CacheIndex } from "./cache-index.js";
import { ExactIndex } from "./exact-index.js";
import { GuessedIndex } from "./guessed-index.js";

const CAPACITY = 64;

/** An index, and a function that marks a prompt as computed. */
function guessed() {
  const index = new GuessedIndex(CAPACITY);
  return { index, compute: (keys: readonly number[]) => index.add(keys) };
}

/** An index that follows a simulated engine of the same capacity, which evicts the oldest blocks. */
function told() {
  const blocks = new CachedBlocks([0], 16);
  const held = new GuessedIndex(CAPACITY);
  const compute = (keys: readonly number[]) => {
    held.add(keys);
    const gone = blocks.snapshot().filter((key, i) => i % 2 === 0 && held.numMatched([key]) === 0);
    blocks.apply([...gone.flatMap((key) => [key, 0]), ...keys.flatMap((key) => [key, held.numMatched([key])])]);
  };
  return { index: new ExactIndex(() => blocks), compute };
}

/** Chains in a tree, so that chains share beginnings. */
const chainOf = (node: string): number[] => Array.from(node, (_, i) => Number(`1${node.slice(0, i + 1)}`));
const node = fc.string({ unit: fc.constantFrom("0", "1", "2"), minLength: 1, maxLength: 8 });

describe.each<[string, () => { index: CacheIndex; compute: (keys: readonly number[]) => void }]>([
  ["guessed", guessed],
  ["told", told],
])("%s", (_, create) => {
  test("is empty at first, and then matches computed blocks from the first on", () => {
    const { index, compute } = create();
    expect(index.numMatched([1, 2, 3])).toBe(0);
    compute([1, 2, 3]);
    expect([[1, 2, 3, 4], [1, 9, 3], [9, 1], []].map((keys) => index.numMatched(keys))).toEqual([3, 1, 0, 0]);
  });

  test("matches a prompt as soon as it is sent", () => {
    const { index, compute } = create();
    const end = index.credit([1, 2, 3]);
    expect(index.numMatched([1, 2, 3, 4])).toBe(3);
    compute([1, 2, 3]);
    end();
    expect(index.numMatched([1, 2, 3, 4])).toBe(3);
  });

  test("after any sequence of events, running prompts are matched and memory is bounded", () => {
    const step = fc.tuple(fc.constantFrom("compute", "credit", "end"), node, fc.nat(20));
    fc.assert(
      fc.property(fc.array(step, { maxLength: 150 }), (steps) => {
        const { index, compute } = create();
        const open: { keys: readonly number[]; end: () => void }[] = [];
        for (const [what, each, which] of steps) {
          const keys = chainOf(each);
          if (what === "compute") compute(keys);
          else if (what === "credit" && open.length < 8) open.push({ keys, end: index.credit(keys) });
          else open.splice(which % (open.length + 1), 1)[0]?.end();
          const matched = index.numMatched(keys);
          expect(matched).toBeLessThanOrEqual(keys.length);
          // Beginnings of a known prompt are known too.
          for (let i = 0; i <= keys.length; i++) {
            expect(index.numMatched(keys.slice(0, i))).toBe(Math.min(i, matched));
          }
          const last = open.at(-1);
          if (what === "credit" && last !== undefined) expect(index.numMatched(last.keys)).toBe(last.keys.length);
          expect(index.size).toBeLessThanOrEqual(CAPACITY * 1.125 + 8 * 8);
        }
      }),
    );
  });
});

test("an exact index forgets a prompt that was sent but never computed when its request ends", () => {
  const { index } = told();
  const [first, second] = [index.credit([1, 2]), index.credit([1, 2, 3])];
  second();
  expect(index.numMatched([1, 2, 3])).toBe(2);
  first();
  expect([index.numMatched([1, 2, 3]), index.size]).toEqual([0, 0]);
});

test("with a sliding window only the last blocks need to be cached", () => {
  const blocks = new CachedBlocks([0, 32], 16);
  const index = new ExactIndex(() => blocks);
  blocks.apply([1, 1, 2, 1, 3, 3, 4, 3, 5, 1]);
  expect(index.numMatched([1, 2, 3, 4, 5])).toBe(4);
  blocks.apply([3, 2]);
  expect(index.numMatched([1, 2, 3, 4, 5])).toBe(0);
});
