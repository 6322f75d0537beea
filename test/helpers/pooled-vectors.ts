/** The vectors that a model gives texts of tokens, computed in process from activations that are not rounded. */
import type { Backend } from "../../src/backend/backend.js";
import { createCpuBackend } from "../../src/backend/cpu/cpu-backend.js";
import { DEFAULT_ENGINE_OPTIONS } from "../../src/engine/api/options.js";
import { EngineCore } from "../../src/engine/engine-core.js";
import { openModel } from "../../src/model/open-model.js";
import { poolingRequest, runAlone } from "./engine-requests.js";

export interface PooledText {
  readonly tokens: readonly number[];
  readonly secondTextStart?: number;
}

/** @param backend absent: two threads of the CPU's; destroyed at the end */
export async function vectorsOf(
  model: string,
  texts: readonly PooledText[],
  backend: Backend = createCpuBackend({ numThreads: 2, activationDtype: "f32" }),
): Promise<readonly Float64Array[]> {
  try {
    const options = { ...DEFAULT_ENGINE_OPTIONS, modelPath: model, numThreads: 2 };
    const core = await EngineCore.create(openModel(model), options, backend);
    const vectors: Float64Array[] = [];
    for (const { tokens, ...second } of texts) {
      vectors.push((await runAlone(core, { ...poolingRequest(tokens, core.info.pooling), ...second })).pooled!);
    }
    return vectors;
  } finally {
    backend.destroy();
  }
}
