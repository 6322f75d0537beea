import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { writeRandomModel } from "../../../test/helpers/random-model.js";
import { createCpuBackend } from "../../backend/cpu/cpu-backend.js";
import type { KvType } from "../../backend/ops.js";
import { DEFAULT_ENGINE_OPTIONS } from "../../engine/api/options.js";
import { NO_SPECULATION } from "../../engine/api/speculative-config.js";
import { EngineCore } from "../../engine/engine-core.js";
import { klOf, logSoftmax } from "../../engine/log-softmax.js";
import { openModel } from "../../model/open-model.js";
import { divergenceOf } from "./divergence.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-divergence-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("divergence", () => {
  test("of two coins", () => {
    const p = logSoftmax(Float32Array.of(0, Math.log(3)));
    const q = logSoftmax(Float32Array.of(0, 0));
    expect(klOf(p, p)).toBe(0);
    expect(klOf(p, q)).toBeCloseTo(0.25 * Math.log(0.5) + 0.75 * Math.log(1.5), 6);
    expect(klOf(logSoftmax(Float32Array.of(0, Number.NEGATIVE_INFINITY)), q)).toBeCloseTo(Math.log(2), 6);
  });

  test("of an engine from itself is zero for any split of its prompts; with int8 KV it is small", async () => {
    const modelPath = join(folder, "model.gguf");
    writeRandomModel(modelPath, { architecture: "llama", width: 64, ff: 96, seed: 5, contextLength: 128 });
    const backend = createCpuBackend({ numThreads: 2 });
    const open = (kvCacheDtype: KvType, maxNumBatchedTokens: number) => {
      const shape = {
        modelPath,
        numThreads: 2,
        maxNumSeqs: 1,
        kvCacheMemoryBytes: 2 ** 22,
        speculative: NO_SPECULATION,
      };
      const options = { ...DEFAULT_ENGINE_OPTIONS, ...shape, kvCacheDtype, maxNumBatchedTokens };
      return EngineCore.create(openModel(modelPath), options, backend);
    };
    const engines = [await open("f16", 128), await open("f16", 7), await open("int8", 128)] as const;
    const windows = [0, 1].map((w) => Array.from({ length: 100 }, (_, i) => (i * 97 + w * 31 + 13) % 300));
    const same = await divergenceOf(engines[0], engines[1], windows);
    expect(same).toMatchObject({ numTokens: 200, meanKl: 0, maxKl: 0, sameTop: 1 });
    expect(same.testedPerplexity).toBe(same.referencePerplexity);
    const other = await divergenceOf(engines[0], engines[2], windows);
    expect(other.meanKl).toBeGreaterThan(0);
    expect(other.meanKl).toBeLessThan(0.01);
    expect(other.maxKl).toBeGreaterThan(other.meanKl);
    await Promise.all(engines.map((engine) => engine.close()));
    backend.destroy();
  });
});
