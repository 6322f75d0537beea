/** A model without a scheduler: it computes texts one by one, at every position. */
import type { Backend } from "../backend/backend.js";
import { createBackend } from "../backend/create/create-backend.js";
import { type OpenModel, openModel } from "../model/open-model.js";
import type { EngineOptions } from "./api/options.js";
import { type EngineRequest, GREEDY_SAMPLING } from "./api/request.js";
import { NO_SPECULATION } from "./api/speculative-config.js";
import { optionsFor } from "./check-options.js";
import { buildParts, type EngineParts } from "./engine-parts.js";

interface LoneModel {
  readonly model: OpenModel;
  readonly parts: EngineParts;
  readonly backend: Backend;
}

/** Rejects with the errors of opening a model. */
export async function openAlone(options: EngineOptions): Promise<LoneModel> {
  const model = openModel(options.modelPath);
  const alone = { maxNumSeqs: 1, enablePrefixCaching: false, speculative: NO_SPECULATION, maxStepMs: 0 } as const;
  const asked = optionsFor(model.config, { ...options, ...alone });
  const backend = createBackend(asked);
  try {
    const parts = await buildParts(model, asked, backend, { progress: () => {}, note: () => {} });
    return { model, parts, backend };
  } catch (thrown) {
    backend.destroy();
    throw thrown;
  }
}

/** A request for which every layer computes every position. */
export const wholeText = (ids: readonly number[]): EngineRequest => ({
  promptIds: Int32Array.from(ids),
  sampling: { ...GREEDY_SAMPLING, maxTokens: 0 },
  pooling: "mean",
});
