import fc from "fast-check";
import { expect, test } from "vitest";
import { blockKey, rootKey } from "./block-hash.js";

const tokens = fc.array(fc.integer({ min: 0, max: 200_000 }), { minLength: 1, maxLength: 32 });

test("keys are safe integers and depend only on the parent and the tokens", () => {
  fc.assert(
    fc.property(fc.string(), tokens, (salt, ids) => {
      const key = blockKey(rootKey(salt), ids, 0, ids.length);
      expect(Number.isSafeInteger(key)).toBe(true);
      expect(blockKey(rootKey(salt), Int32Array.from([9, ...ids]), 1, ids.length)).toBe(key);
    }),
  );
});

test("different tokens, order, parent or salt give different keys, over a hundred thousand blocks", () => {
  const keys = new Set<number>();
  for (let i = 0; i < 50_000; i++) {
    keys.add(blockKey(rootKey(undefined), [i, i + 1, 3], 0, 3));
    keys.add(blockKey(rootKey(`tenant ${i}`), [1, 2, 3], 0, 3));
  }
  expect(keys.size).toBe(100_000);
  expect(blockKey(1, [1, 2], 0, 2)).not.toBe(blockKey(1, [2, 1], 0, 2));
  expect(blockKey(1, [1, 2], 0, 2)).not.toBe(blockKey(2 ** 33 + 1, [1, 2], 0, 2));
});
