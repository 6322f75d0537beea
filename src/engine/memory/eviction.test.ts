/** Which blocks stay: bounds, budgets, and what each policy looks at. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { EVICTION_POLICIES, type EvictionPolicy } from "../api/kv-eviction.js";
import { Eviction, type LayerAttention } from "./eviction.js";

const BLOCK = 16;
const NUM_RECENT = 32;

const plan = (policy: EvictionPolicy, share: number) => new Eviction({ policy, budget: { share } }, BLOCK);

/** Attention with these weights by entry, and none elsewhere. */
function attention(numEntries: number, heavy: Readonly<Record<number, number>>, entropy = 1000): LayerAttention {
  const counts = new Int32Array(numEntries);
  for (const [entry, count] of Object.entries(heavy)) counts[Number(entry)] = count;
  return { counts, entropy };
}

describe("any choice", () => {
  const budget = fc.oneof(
    fc.record({ share: fc.double({ min: 0.01, max: 0.99, noNaN: true }) }),
    fc.record({ tokens: fc.integer({ min: 1, max: 2000 }) }),
  );
  const layer = fc.record({ numEvicted: fc.integer({ min: 0, max: 40 }), seed: fc.integer({ min: 1, max: 1e6 }) });

  test("keeps the first block, the recent ones, and no more than the budget of all layers together", () => {
    const policies = fc.constantFrom(...EVICTION_POLICIES);
    const layers = fc.array(layer, { minLength: 1, maxLength: 6 });
    const blockSizes = fc.constantFrom(8, 16, 32);
    fc.assert(
      fc.property(policies, budget, layers, blockSizes, fc.integer({ min: 1, max: 1500 }), (policy, ...drawn) => {
        const [drawnBudget, all, blockSize, length] = drawn;
        const eviction = new Eviction({ policy, budget: drawnBudget }, blockSize);
        const numEvicted = all.map((each) => each.numEvicted);
        const entries = numEvicted.map(
          (evicted) => length - Math.min(evicted, Math.floor((length - 1) / blockSize)) * blockSize,
        );
        const observed = all.map(({ seed }, i) => ({
          counts: Int32Array.from({ length: entries[i]! }, (_, entry) => (seed * (entry + 1)) % 1009),
          entropy: seed,
        }));
        const kept = eviction.choose(length, entries, eviction.isObserving ? observed : []);
        kept.forEach((blocks, i) => {
          const numBlocks = Math.ceil(entries[i]! / blockSize);
          expect(blocks).toEqual([...new Set(blocks)].sort((a, b) => a - b));
          expect(blocks[0]).toBe(0);
          expect(blocks.at(-1)).toBe(numBlocks - 1);
          const firstRecent = Math.max(
            0,
            Math.floor((entries[i]! - (eviction.isObserving ? NUM_RECENT : 1)) / blockSize),
          );
          for (let block = firstRecent; block < numBlocks; block++) expect(blocks).toContain(block);
        });
        const total = kept.reduce((sum, blocks) => sum + blocks.length, 0);
        expect(total).toBeLessThanOrEqual(all.length * eviction.blocksKept(length));
      }),
      { numRuns: 300 },
    );
  });

  test("memory never holds more than what admission reserves", () => {
    const lengths = fc.tuple(fc.integer({ min: 1, max: 900 }), fc.integer({ min: 0, max: 1500 }));
    fc.assert(
      fc.property(
        fc.constantFrom(...EVICTION_POLICIES),
        budget,
        lengths,
        (policy, drawnBudget, [numPrompt, numMore]) => {
          const eviction = new Eviction({ policy, budget: drawnBudget }, BLOCK);
          let numEvicted = 0;
          let most = 0;
          for (let numTokens = 1; numTokens <= numPrompt + numMore; numTokens++) {
            most = Math.max(most, Math.ceil(numTokens / BLOCK) - numEvicted);
            if (!eviction.dropsAt(numPrompt, numTokens)) continue;
            numEvicted = Math.max(numEvicted, Math.ceil(numTokens / BLOCK) - eviction.blocksKept(numTokens));
          }
          expect(most).toBeLessThanOrEqual(eviction.mostBlocks(numPrompt, numPrompt + numMore));
        },
      ),
      { numRuns: 200 },
    );
  });
});

test("a step ends at the prompt's end, and every 256 tokens after it", () => {
  const eviction = plan("snapkv", 0.25);
  expect([0, 99, 100, 355, 356].map((position) => eviction.nextPoint(100, position))).toEqual([
    100, 100, 356, 356, 612,
  ]);
  expect([99, 100, 228, 356, 612].map((count) => eviction.dropsAt(100, count))).toEqual([
    false,
    true,
    false,
    true,
    true,
  ]);
});

test("attention is counted in the 32 positions before a point, where entries are dropped there", () => {
  expect(plan("snapkv", 0.25).firstObserved(1000, 0)).toBe(968);
  expect(plan("snapkv", 0.25).firstObserved(20, 0)).toBe(20);
  expect(plan("window", 0.25).firstObserved(1000, 0)).toBe(1000);
  const generous = new Eviction({ policy: "snapkv", budget: { tokens: 1100 } }, BLOCK);
  expect(generous.firstObserved(1000, 0)).toBe(1000);
  expect(generous.firstObserved(1000, 1000)).toBe(1000 + 256 - 32);
});

test("window keeps the first block and the last ones", () => {
  expect(plan("window", 0.25).choose(320, [320], [])).toEqual([[0, 16, 17, 18, 19]]);
});

test("snapkv keeps the block with the heaviest entry, chunkkv the one with the most attention", () => {
  const heavy = attention(320, { 40: 900, 80: 300, 84: 300, 88: 300, 92: 300 });
  const [snap, chunk] = (["snapkv", "chunkkv"] as const).map((policy) =>
    new Eviction({ policy, budget: { tokens: 4 * BLOCK } }, BLOCK).choose(320, [320], [heavy]),
  );
  expect(snap).toEqual([[0, 2, 18, 19]]);
  expect(chunk).toEqual([[0, 5, 18, 19]]);
});

test("pyramidkv gives early layers more, entropy those that look around", () => {
  const numEntries = Array.from({ length: 4 }, () => 1600);
  const observed = [100, 100, 400, 100].map((entropy) => attention(1600, {}, entropy));
  const sizes = (policy: EvictionPolicy) =>
    plan(policy, 0.25)
      .choose(1600, numEntries, observed)
      .map(({ length }) => length);
  expect(sizes("pyramidkv")).toEqual([48, 32, 17, 3]);
  expect(sizes("entropy")).toEqual([14, 14, 58, 14]);
});
