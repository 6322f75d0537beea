/** Greedy answers of a model to fixed prompts, with log-probabilities, computed in process. */
import type { ActivationDtype } from "../../src/backend/backend.js";
import { createCpuBackend } from "../../src/backend/cpu/cpu-backend.js";
import { DEFAULT_ENGINE_OPTIONS } from "../../src/engine/api/options.js";
import { NO_SPECULATION } from "../../src/engine/api/speculative-config.js";
import { EngineCore } from "../../src/engine/engine-core.js";
import { openModel } from "../../src/model/open-model.js";
import { inTurn, request, runAlone } from "./engine-requests.js";

const PROMPTS = [[1, 5, 9, 2, 7, 40, 41], Array.from({ length: 40 }, (_, i) => (i * 37) % 200), [3]];

export async function completionsOf(path: string, activationDtype: ActivationDtype = "auto") {
  const backend = createCpuBackend({ numThreads: 1, activationDtype });
  const model = openModel(path);
  const options = {
    modelPath: path,
    numThreads: 1,
    maxModelLen: 128,
    kvCacheMemoryBytes: 1 << 25,
    speculative: NO_SPECULATION,
  };
  try {
    const core = await EngineCore.create(model, { ...DEFAULT_ENGINE_OPTIONS, ...options }, backend);
    const answers = await inTurn(PROMPTS, (prompt) =>
      runAlone(core, request(prompt, { numLogprobs: 2, maxTokens: 12 })),
    );
    await core.close();
    return answers.map(({ tokenIds, logprobs }) => ({ tokenIds, logprobs }));
  } finally {
    backend.destroy();
  }
}
