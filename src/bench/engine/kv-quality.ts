/** Measures how a KV cache type changes a model's predictions for a text, and its memory. */

import { createBackend } from "../../backend/create/create-backend.js";
import type { KvType } from "../../backend/ops.js";
import { MillraceError } from "../../core/errors.js";
import type { StartStage } from "../../core/stages.js";
import { kvBytesPerToken } from "../../model/description/sizes.js";
import { openModel } from "../../model/open-model.js";
import { type Divergence, divergenceOf, openScorer } from "./divergence.js";

export const REFERENCE_KV_TYPE = "f16";

export interface KvQualitySpec {
  readonly modelPath: string;
  readonly kvCacheDtype: KvType;
  /** Tokens per window; each window is computed separately. */
  readonly window: number;
  readonly numThreads: number;
}

export interface KvQuality {
  readonly divergence: Divergence;
  /** KV memory per token. */
  readonly bytes: { readonly reference: number; readonly tested: number };
}

/** @param ids tokens of the text; throws invalid_option for fewer than two */
export async function benchKvQuality(
  { modelPath, kvCacheDtype, window, numThreads }: KvQualitySpec,
  ids: readonly number[],
  startStage: StartStage,
  onWindow: (numTokens: number, meanKl: number) => void,
): Promise<KvQuality> {
  const windows = Array.from({ length: Math.ceil(ids.length / window) }, (_, i) =>
    ids.slice(i * window, (i + 1) * window),
  ).filter((each) => each.length > 1);
  if (windows.length === 0) {
    throw new MillraceError("invalid_option", "expected a text of at least two tokens, got fewer");
  }
  const backend = createBackend({ numThreads });
  const stage = startStage("engine");
  const model = openModel(modelPath);
  const open = (kvType: KvType) =>
    openScorer(model, { modelPath, numThreads, maxModelLen: window, kvCacheDtype: kvType }, backend);
  const reference = await open(REFERENCE_KV_TYPE);
  const tested = await open(kvCacheDtype);
  stage.done(`${reference.info.architecture}, ${reference.info.weightType}, ${reference.info.isa}`);
  const divergence = await divergenceOf(reference, tested, windows, onWindow);
  await Promise.all([reference.close(), tested.close()]);
  backend.destroy();
  const bytes = {
    reference: kvBytesPerToken(model.config, REFERENCE_KV_TYPE),
    tested: kvBytesPerToken(model.config, kvCacheDtype),
  };
  return { divergence, bytes };
}
