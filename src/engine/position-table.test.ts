/** Models with a table of positions, whose rows end where the context ends. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { request, runAlone } from "../../test/helpers/engine-requests.js";
import { writeRandomModel } from "../../test/helpers/random-model.js";
import { createCpuBackend } from "../backend/cpu/cpu-backend.js";
import { openModel } from "../model/open-model.js";
import { DEFAULT_ENGINE_OPTIONS } from "./api/options.js";
import { NO_SPECULATION, type SpeculativeConfig } from "./api/speculative-config.js";
import { EngineCore } from "./engine-core.js";

const root = mkdtempSync(join(tmpdir(), "millrace-position-table-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

test.each([
  "gpt2",
  "opt",
  "starcoder",
] as const)("%s fills its context to the last row, with drafts and without", async (architecture) => {
  const path = join(root, `${architecture}.gguf`);
  writeRandomModel(path, { architecture, seed: 5, contextLength: 48 });
  const prompt = Array.from({ length: 30 }, (_, i) => 7 + (i % 3));
  const answerOf = async (speculative: SpeculativeConfig) => {
    const backend = createCpuBackend({ numThreads: 1 });
    try {
      const options = {
        ...DEFAULT_ENGINE_OPTIONS,
        modelPath: path,
        numThreads: 1,
        kvCacheMemoryBytes: 1 << 22,
        speculative,
      };
      const core = await EngineCore.create(openModel(path), options, backend);
      const answer = await runAlone(core, request(prompt, { maxTokens: 18 }));
      await core.close();
      return answer;
    } finally {
      backend.destroy();
    }
  };
  const plain = await answerOf(NO_SPECULATION);
  expect([plain.tokenIds.length, plain.finishReason]).toEqual([18, "length"]);
  const drafted = await answerOf({ ...NO_SPECULATION, method: "ngram", isAdaptive: false });
  expect(drafted.tokenIds).toEqual(plain.tokenIds);
});
