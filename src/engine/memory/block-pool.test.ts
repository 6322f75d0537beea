import fc from "fast-check";
import { expect, test } from "vitest";
import { BlockPool } from "./block-pool.js";

test("blocks are reused in the order in which they were freed", () => {
  const reused: number[] = [];
  const pool = new BlockPool(3, (blockId) => reused.push(blockId));
  const [a, b, c] = [pool.allocate()!, pool.allocate()!, pool.allocate()!];
  expect(pool.allocate()).toBeUndefined();
  pool.release(b);
  pool.release(a);
  pool.retain(b);
  expect([pool.numFree, pool.allocate(), pool.numFree]).toEqual([1, a, 0]);
  pool.release(b);
  expect(pool.allocate()).toBe(b);
  expect(reused).toEqual([a, b, c, a, b]);
});

test("counts stay right under any sequence of calls", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.constantFrom("allocate", "retain", "release"), fc.nat({ max: 5 }))), (calls) => {
      const pool = new BlockPool(6, () => {});
      const counts = new Array<number>(6).fill(0);
      for (const [call, blockId] of calls) {
        if (call === "allocate") {
          const got = pool.allocate();
          if (got === undefined) expect(counts.every((count) => count > 0)).toBe(true);
          else expect(++counts[got]!).toBe(1);
        } else if (call === "retain") {
          pool.retain(blockId);
          counts[blockId]!++;
        } else if (counts[blockId]! > 0) {
          pool.release(blockId);
          counts[blockId]!--;
        } else expect(() => pool.release(blockId)).toThrow();
        expect(pool.numFree).toBe(counts.filter((count) => count === 0).length);
        expect(counts.map((_, id) => pool.refCount(id))).toEqual(counts);
      }
    }),
  );
});

test("a pool whose blocks have all been used and freed is used up again after as many", () => {
  const pool = new BlockPool(3, () => {});
  for (let round = 0; round < 3; round++) {
    const taken = [pool.allocate(), pool.allocate(), pool.allocate()];
    expect(taken.toSorted()).toEqual([0, 1, 2]);
    expect(pool.allocate()).toBeUndefined();
    for (const blockId of taken.reverse()) pool.release(blockId!);
  }
});
