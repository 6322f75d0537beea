import fc from "fast-check";
import { expect, test } from "vitest";
import { GuessedIndex, indexBlocks } from "./guessed-index.js";

/** Chains in a tree: node n hangs from its number without the last digit, so chains share beginnings. */
const chainOf = (node: string): number[] => Array.from(node, (_, i) => Number(`1${node.slice(0, i + 1)}`));
const node = fc.string({ unit: fc.constantFrom("0", "1", "2"), minLength: 1, maxLength: 8 });

test("matches added blocks from the first on", () => {
  const index = new GuessedIndex(100);
  index.add([1, 2, 3]);
  expect(index.numMatched([1, 2, 3, 4])).toBe(3);
  expect(index.numMatched([1, 9, 3])).toBe(1);
  expect(index.numMatched([9])).toBe(0);
  index.clear();
  expect(index.numMatched([1, 2, 3])).toBe(0);
});

test("the least recently used block is evicted first", () => {
  const index = new GuessedIndex(8);
  index.add([1, 2, 3, 4]);
  index.add([5, 6, 7, 8]);
  index.add([1, 2, 3, 4]);
  index.add([9, 10]);
  expect(index.numMatched([1, 2, 3, 4])).toBe(4);
  expect(index.numMatched([5, 6, 7, 8])).toBe(2);
  expect(index.numMatched([9, 10])).toBe(2);
});

test("the index keeps the beginning of a chain that is longer than itself", () => {
  const index = new GuessedIndex(4);
  index.add([1, 2, 3, 4, 5, 6]);
  expect(index.numMatched([1, 2, 3, 4, 5, 6])).toBe(4);
});

test("the index never exceeds its bound by more than an eighth and has no block without its parent", () => {
  fc.assert(
    fc.property(fc.array(node, { maxLength: 200 }), fc.integer({ min: 8, max: 64 }), (nodes, maxBlocks) => {
      const index = new GuessedIndex(maxBlocks);
      for (const each of nodes) {
        index.add(chainOf(each));
        expect(index.size).toBeLessThanOrEqual(maxBlocks * 1.125);
        expect(index.numMatched(chainOf(each))).toBe(each.length);
      }
      // Every known key is reachable from its first block.
      for (const each of nodes) {
        const chain = chainOf(each);
        const numMatched = index.numMatched(chain);
        for (let i = numMatched; i < chain.length; i++) expect(index.numMatched([chain[i]!])).toBe(0);
      }
    }),
  );
});

test("ten thousand distinct prefixes of a hundred blocks do not exceed the bound", () => {
  const index = new GuessedIndex(16_384);
  for (let prefix = 0; prefix < 10_000; prefix++) index.add(Array.from({ length: 100 }, (_, i) => prefix * 100 + i));
  expect(index.size).toBeLessThanOrEqual(16_384 * 1.125);
});

test("an index has as many blocks as the engine's KV memory holds, or 16,384 if that is unknown", () => {
  const capacity = { seats: undefined, blockSize: undefined };
  expect(indexBlocks({ ...capacity, kvTokens: undefined }, 32)).toBe(16_384);
  expect(indexBlocks({ ...capacity, kvTokens: 1000 }, 32)).toBe(31);
  expect(indexBlocks({ ...capacity, kvTokens: 8 }, 32)).toBe(1);
});

test("an engine that reports more than any machine has takes no more memory for it", () => {
  expect(indexBlocks({ seats: 1, kvTokens: Number.MAX_SAFE_INTEGER, blockSize: 16 }, 32)).toBe(1 << 21);
});
