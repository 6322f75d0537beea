import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import { writeRandomModel } from "../../../test/helpers/random-model.js";
import { kvEntryBytes } from "../../backend/program.js";
import type { ServableLayer, ServableModel } from "../../model/description/servable.js";
import { kvBytesPerToken } from "../../model/description/sizes.js";
import { openModel } from "../../model/open-model.js";
import { groupEntryBytes, type KvGroupSpec, kvGroups, planKvBudget } from "./groups.js";
import { blocksAtOnce } from "./windows.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-groups-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
writeRandomModel(join(folder, "model.gguf"), { architecture: "llama", seed: 1 });
const base = openModel(join(folder, "model.gguf")).config;

/** `windows`: one per layer. */
function configWith(windows: readonly number[]): ServableModel {
  const [{ mixer, feedForward }] = base.layers as [ServableLayer];
  return { ...base, layers: windows.map((window) => ({ mixer: { ...mixer, window, rope: 0 }, feedForward })) };
}
const tokenBytes = (config: ServableModel) => kvBytesPerToken(config, "f16");
const entryBytes = (config: ServableModel, groups: readonly KvGroupSpec[]) =>
  groupEntryBytes(config, groups, (width) => kvEntryBytes("f16", width));
const BLOCK_SIZE = 16;
const DEMAND = { maxNumSeqs: 64, maxModelLen: 8192, maxNumBatchedTokens: 512 };
/** The 1B Gemma 3: four of 26 layers attend to everything. */
const GEMMA3 = configWith(Array.from({ length: 26 }, (_, layer) => (layer % 6 === 5 ? 0 : 512)));

describe("KV groups", () => {
  test("a window as wide as the longest sequence is none", () => {
    expect(kvGroups(GEMMA3, 513).map(({ window }) => window)).toEqual([0, 512]);
    expect(kvGroups(GEMMA3, 512).map(({ window, layers }) => [window, layers.length])).toEqual([[0, 26]]);
  });

  test("the same memory holds at least 2.5 times as many long sequences of a model with windows", () => {
    const bytes = 4096 * BLOCK_SIZE * tokenBytes(GEMMA3);
    const groups = kvGroups(GEMMA3, DEMAND.maxModelLen);
    const { numBlocks } = planKvBudget(groups, entryBytes(GEMMA3, groups), BLOCK_SIZE, DEMAND, 0, bytes);
    const [main, windowed] = numBlocks as [number, number];
    const numSequences = Math.min(
      Math.floor(main / (4096 / BLOCK_SIZE)),
      Math.floor((windowed - DEMAND.maxNumBatchedTokens / BLOCK_SIZE) / blocksAtOnce(512, 4096, 1, BLOCK_SIZE)),
    );
    expect(numSequences).toBeGreaterThanOrEqual(2.5 * (4096 / (4096 / BLOCK_SIZE)));
  });

  test("weights that leave no memory are named as the reason", () => {
    const groups = kvGroups(GEMMA3, DEMAND.maxModelLen);
    for (const freeBytes of [-(2 ** 30), 0, 1]) {
      expect(() => planKvBudget(groups, entryBytes(GEMMA3, groups), BLOCK_SIZE, DEMAND, freeBytes, undefined)).toThrow(
        /got 0 bytes, a quarter of what is free beside the weights/,
      );
    }
  });

  test("the memory asked for is used but for a rest, and what fits the main group can be computed alone", () => {
    const models = fc.array(fc.constantFrom(0, 24, 512, 4096), { minLength: 1, maxLength: 12 });
    const demands = fc.record({
      maxNumSeqs: fc.integer({ min: 1, max: 128 }),
      maxModelLen: fc.integer({ min: 1, max: 20_000 }),
      maxNumBatchedTokens: fc.integer({ min: 128, max: 8192 }),
    });
    fc.assert(
      fc.property(models, demands, fc.integer({ min: 1, max: 5000 }), (windows, demand, numEven) => {
        const config = configWith(windows);
        const groups = kvGroups(config, demand.maxModelLen);
        const evenBytes = BLOCK_SIZE * tokenBytes(config);
        const budget = planKvBudget(groups, entryBytes(config, groups), BLOCK_SIZE, demand, 0, numEven * evenBytes);
        expect(budget.kvBytes).toBeLessThanOrEqual(numEven * evenBytes);
        // One more block of the main group may take one of every other.
        expect(budget.kvBytes).toBeGreaterThan((numEven - 1) * evenBytes);
        const numMain = Math.max(...budget.numBlocks);
        expect(numMain).toBeGreaterThanOrEqual(numEven);
        const longest = Math.min(numMain * BLOCK_SIZE, demand.maxModelLen);
        groups.forEach(({ window }, group) => {
          const needed = blocksAtOnce(window, longest, demand.maxNumBatchedTokens, BLOCK_SIZE);
          expect(budget.numBlocks[group]!).toBeGreaterThanOrEqual(needed);
        });
      }),
      { numRuns: 300, seed: 7 },
    );
  });
});
