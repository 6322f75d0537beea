import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { writeRandomModel } from "../../../test/helpers/random-model.js";
import { createCpuBackend } from "../../backend/cpu/cpu-backend.js";
import { DEFAULT_ENGINE_OPTIONS } from "../../engine/api/options.js";
import {
  DEFAULT_SPECULATIVE_CONFIG,
  NO_SPECULATION,
  type SpeculativeConfig,
} from "../../engine/api/speculative-config.js";
import { EngineCore } from "../../engine/engine-core.js";
import { openModel } from "../../model/open-model.js";
import { benchDrafts } from "./drafts-bench.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-drafts-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("each engine answers every prompt once, and too few prompts are refused", async () => {
  const modelPath = join(folder, "model.gguf");
  writeRandomModel(modelPath, { architecture: "llama", width: 64, ff: 96, seed: 5, contextLength: 128 });
  const backend = createCpuBackend({ numThreads: 2 });
  const open = (speculative: SpeculativeConfig) => {
    const shape = { modelPath, numThreads: 2, maxNumSeqs: 4, kvCacheMemoryBytes: 2 ** 22, speculative };
    return EngineCore.create(openModel(modelPath), { ...DEFAULT_ENGINE_OPTIONS, ...shape }, backend);
  };
  const plain = await open(NO_SPECULATION);
  const drafting = await open({ ...DEFAULT_SPECULATIVE_CONFIG, method: "ngram", isAdaptive: false });
  const prompts = Array.from({ length: 24 }, (_, p) => Array.from({ length: 20 }, (_, i) => (p * 31 + (i % 4)) % 300));
  const spec = { batches: [1, 3], rounds: 3, promptsPerRound: 2, maxTokens: 24, temperature: 0 };
  const results = await benchDrafts(plain, drafting, [{ name: "loops", prompts, stopTokenIds: [] }], spec);
  expect(results.map(({ batch, numTokens, rounds }) => [batch, numTokens, rounds.length])).toEqual([
    [1, 3 * 2 * 24, 3],
    [3, 3 * 3 * 24, 3],
  ]);
  for (const { decoding, wholeRun, acceptedShare } of results) {
    expect(decoding.low).toBeLessThanOrEqual(decoding.value);
    expect(wholeRun.numRuns).toBe(3);
    expect(acceptedShare).toBeGreaterThan(0);
  }
  const few = [{ name: "few", prompts: prompts.slice(0, 7), stopTokenIds: [] }];
  await expect(benchDrafts(plain, drafting, few, spec)).rejects.toThrow(/expected 20 prompts of "few", got 7/);
  await Promise.all([plain.close(), drafting.close()]);
  backend.destroy();
});
