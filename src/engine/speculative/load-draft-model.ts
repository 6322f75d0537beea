/** Opens the model that `--speculative-config` names. */

import type { Backend, LoadReport } from "../../backend/backend.js";
import { MillraceError } from "../../core/errors.js";
import type { ServableModel } from "../../model/description/servable.js";
import { isRecurrent } from "../../model/description/sizes.js";
import { openModel } from "../../model/open-model.js";
import type { EngineOptions } from "../api/options.js";
import { loadWeights } from "../blocks/load-weights.js";
import { DraftModel } from "./draft-model.js";

/**
 * Its KV memory holds as many tokens as the target's. Throws the errors of opening a model, and invalid_option if the
 * two do not fit.
 */
export async function loadDraftModel(
  path: string,
  target: ServableModel,
  options: EngineOptions,
  kv: { readonly maxModelLen: number; readonly numBlocks: number },
  backend: Backend,
  report: LoadReport,
): Promise<DraftModel> {
  const model = openModel(path);
  if (isRecurrent(model.config)) {
    throw new MillraceError("invalid_option", `expected a draft model without recurrent layers, got ${path}`, {
      hint: "A refused draft cannot be taken out of a recurrent state. Choose another draft model, or none.",
    });
  }
  const weights = await loadWeights(model, path, backend, report);
  const { maxNumSeqs, blockSize, kvCacheDtype: kvType } = options;
  return DraftModel.create(model.config, weights, target, { ...kv, maxNumSeqs, blockSize, kvType }, backend);
}
