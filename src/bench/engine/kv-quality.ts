/** Measures how a KV cache type, or eviction, changes a model's predictions for a text, and its memory. */

import { createBackend } from "../../backend/create/create-backend.js";
import type { KvType } from "../../backend/ops.js";
import { MillraceError } from "../../core/errors.js";
import type { StartStage } from "../../core/stages.js";
import type { EvictionOptions } from "../../engine/api/kv-eviction.js";
import { kvBytesPerToken } from "../../model/description/sizes.js";
import { openModel } from "../../model/open-model.js";
import { type Divergence, divergenceOf, openScorer } from "./divergence.js";

const REFERENCE_KV_TYPE = "f16";

export interface KvQualitySpec {
  readonly modelPath: string;
  readonly kvCacheDtype: KvType;
  readonly kvEviction?: EvictionOptions | undefined;
  /**
   * Tokens at the end of each window that are decoded one by one, after entries of the earlier ones are evicted; 0:
   * none.
   */
  readonly numDecoded: number;
  /** Tokens per window; each window is computed separately. */
  readonly window: number;
  readonly numThreads: number;
}

export interface KvQuality {
  readonly divergence: Divergence;
  /** KV memory per token. */
  readonly bytes: { readonly reference: number; readonly tested: number };
  /** Share of the entries that were stored until a window's end. */
  readonly keptShare: number;
}

/** @param ids tokens of the text; throws invalid_option for fewer than two */
export async function benchKvQuality(
  { modelPath, kvCacheDtype, kvEviction, numDecoded, window, numThreads }: KvQualitySpec,
  ids: readonly number[],
  startStage: StartStage,
  onWindow: (numTokens: number, meanKl: number) => void,
): Promise<KvQuality> {
  const windows = Array.from({ length: Math.ceil(ids.length / window) }, (_, i) =>
    ids.slice(i * window, (i + 1) * window),
  ).filter((each) => each.length > Math.max(1, numDecoded));
  if (windows.length === 0) {
    const least = Math.max(2, numDecoded + 1);
    throw new MillraceError("invalid_option", `expected a text of at least ${least} tokens, got ${ids.length}`);
  }
  const backend = createBackend({ numThreads });
  const stage = startStage("engine");
  const model = openModel(modelPath);
  const open = (kvType: KvType, eviction?: EvictionOptions) => {
    const options = { modelPath, numThreads, maxModelLen: window, kvCacheDtype: kvType, kvEviction: eviction };
    return openScorer(model, options, backend);
  };
  const reference = await open(REFERENCE_KV_TYPE);
  const tested = await open(kvCacheDtype, kvEviction);
  stage.done(`${reference.info.architecture}, ${reference.info.weightType}, ${reference.info.isa}`);
  const divergence = await divergenceOf(reference, tested, windows, onWindow, numDecoded);
  const numStored = windows.reduce((sum, { length }) => sum + length, 0);
  const keptShare = 1 - tested.stats().numEvictedTokens / numStored;
  await Promise.all([reference.close(), tested.close()]);
  backend.destroy();
  const bytes = {
    reference: kvBytesPerToken(model.config, REFERENCE_KV_TYPE),
    tested: kvBytesPerToken(model.config, kvCacheDtype),
  };
  return { divergence, bytes, keptShare };
}
