/** Checks that the engine's options fit each other and the model. */

import type { Backend } from "../backend/backend.js";
import { MillraceError } from "../core/errors.js";
import type { EngineOptions } from "./api/options.js";

/** Throws invalid_option. */
export function resolveMaxModelLen(asked: number | undefined, contextLength: number): number {
  if (asked === undefined) return contextLength;
  if (asked <= contextLength) return asked;
  throw new MillraceError(
    "invalid_option",
    `expected --max-model-len of at most the model's context of ${contextLength} tokens, got ${asked}`,
  );
}

/** Throws invalid_option. */
export function checkOptions(
  options: EngineOptions,
  { kvBlockMultiple }: Pick<Backend, "kvBlockMultiple">,
  maxModelLen: number,
  numKvBlocks: number,
): void {
  if (options.blockSize % kvBlockMultiple !== 0) {
    throw new MillraceError(
      "invalid_option",
      `expected --block-size to be a multiple of ${kvBlockMultiple}, got ${options.blockSize}`,
    );
  }
  if (!options.enableChunkedPrefill && options.maxNumBatchedTokens < maxModelLen) {
    throw new MillraceError(
      "invalid_option",
      `expected --max-num-batched-tokens of at least --max-model-len (${maxModelLen}) without chunked prefill, got ${options.maxNumBatchedTokens}`,
    );
  }
  if (options.maxNumBatchedTokens < options.maxNumSeqs) {
    throw new MillraceError(
      "invalid_option",
      `expected --max-num-batched-tokens of at least --max-num-seqs (${options.maxNumSeqs}), got ${options.maxNumBatchedTokens}`,
    );
  }
  if (options.prefixCacheDisk !== undefined && (!options.enablePrefixCaching || options.kvLayout !== "paged")) {
    throw new MillraceError(
      "invalid_option",
      "expected --kv-layout paged and --enable-prefix-caching for --prefix-cache-disk, got one at most",
    );
  }
  const reservedBlocks = Math.ceil(maxModelLen / options.blockSize);
  if (options.kvLayout === "contiguous" && numKvBlocks < reservedBlocks) {
    throw new MillraceError(
      "invalid_option",
      `expected KV memory for one sequence of ${maxModelLen} tokens (${reservedBlocks} blocks), got ${numKvBlocks} blocks`,
      { hint: "Raise --kv-cache-memory-bytes, lower --max-model-len, or use --kv-layout paged." },
    );
  }
}
