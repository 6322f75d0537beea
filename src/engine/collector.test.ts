/** What the engine's statistics count, step by step. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { request } from "../../test/helpers/engine-requests.js";
import { writeRandomModel } from "../../test/helpers/random-model.js";
import { createCpuBackend } from "../backend/cpu/cpu-backend.js";
import { openModel } from "../model/open-model.js";
import { DEFAULT_ENGINE_OPTIONS, type EngineOptions } from "./api/options.js";
import { EngineCore } from "./engine-core.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-collector-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function withCore(own: Partial<EngineOptions>, use: (core: EngineCore) => Promise<void>): Promise<void> {
  const modelPath = join(folder, "model.gguf");
  writeRandomModel(modelPath, { architecture: "llama", width: 64, ff: 96, seed: 3, contextLength: 1200 });
  const backend = createCpuBackend({ numThreads: 2 });
  try {
    const options = { ...DEFAULT_ENGINE_OPTIONS, modelPath, numThreads: 2, kvCacheMemoryBytes: 2 ** 25, ...own };
    const core = await EngineCore.create(openModel(modelPath), options, backend);
    await use(core);
    await core.close();
  } finally {
    backend.destroy();
  }
}

const promptOf = (length: number): number[] => Array.from({ length }, (_, i) => (i * 97 + length) % 300);

test("a prompt is counted chunk by chunk, and with what was cached", async () => {
  await withCore({ maxNumBatchedTokens: 256 }, async (core) => {
    const countsOf = async (id: number) => {
      core.add(id, request(promptOf(1000), { maxTokens: 2 }));
      const counts: number[] = [];
      const before = core.stats().numPromptTokens;
      while (core.hasWork) {
        await core.step();
        counts.push(core.stats().numPromptTokens - before);
      }
      return counts;
    };
    expect(await countsOf(1)).toEqual([256, 512, 768, 1000, 1000]);
    const again = await countsOf(2);
    expect([again.length, again.at(-1)]).toEqual([2, 1000]);
  });
});

test("a prompt that is computed again after pre-emption is counted once", async () => {
  await withCore({ kvCacheMemoryBytes: 2 ** 18 }, async (core) => {
    const lengths = [200, 201, 202, 203];
    for (const length of lengths) core.add(length, request(promptOf(length), { maxTokens: 150 }));
    while (core.hasWork) await core.step();
    expect(core.stats().numPreemptions).toBeGreaterThan(0);
    expect(core.stats().numPromptTokens).toBe(lengths.reduce((sum, each) => sum + each));
  });
});
