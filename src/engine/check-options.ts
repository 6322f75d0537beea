/** Checks that the engine's options fit each other and the model. */

import type { Backend } from "../backend/backend.js";
import { MillraceError } from "../core/errors.js";
import { type ServableModel, windowOf } from "../model/description/servable.js";
import { isRecurrent, keyWidth } from "../model/description/sizes.js";
import type { EngineOptions } from "./api/options.js";
import { NO_SPECULATION } from "./api/speculative-config.js";

/** Throws invalid_option. */
export function resolveMaxModelLen(asked: number | undefined, contextLength: number): number {
  if (asked === undefined) return contextLength;
  if (asked <= contextLength) return asked;
  throw new MillraceError(
    "invalid_option",
    `expected --max-model-len of at most the model's context of ${contextLength} tokens, got ${asked}`,
  );
}

/**
 * The options as a model takes them. An encoder computes whole texts, each in one step, and keeps nothing for the next
 * one: a step has room for the longest text, and there are neither cached prefixes nor drafts. Throws invalid_option
 * where an option asks for them by name, or for another pooling than the one that the layers behind it were trained on.
 */
export function optionsFor(config: ServableModel, asked: EngineOptions): EngineOptions {
  const { head, pooling = asked.pooling } = config;
  if (isRecurrent(config)) return recurrentOptions(asked);
  if (head !== undefined && asked.pooling !== "auto" && asked.pooling !== pooling) {
    throw new MillraceError(
      "invalid_option",
      `expected --pooling auto or ${pooling} for a model with layers behind its pooling, got ${asked.pooling}`,
    );
  }
  if (config.isCausal) {
    if (asked.kvEviction !== undefined) checkEviction(config, asked);
    return asked;
  }
  const { kvEviction, prefixCacheDisk, speculative, maxNumBatchedTokens, maxNumSeqs } = asked;
  if (prefixCacheDisk !== undefined) throw notForEncoders("--prefix-cache-disk");
  if (kvEviction !== undefined) throw notForEncoders("--kv-eviction");
  if (speculative.method !== "auto" && speculative.method !== "none") throw notForEncoders("--speculative-config");
  return {
    ...asked,
    maxNumBatchedTokens: Math.max(
      maxNumBatchedTokens,
      maxNumSeqs,
      resolveMaxModelLen(asked.maxModelLen, config.contextLength),
    ),
    enableChunkedPrefill: false,
    enablePrefixCaching: false,
    kvLayout: "paged",
    kvCacheDtype: "f32",
    maxStepMs: 0,
    speculative: NO_SPECULATION,
  };
}

/**
 * Blocks on disk have no states, and the few layers that attend keep their entries. A row continues the state of the
 * row before it, so drafts are chains. Throws invalid_option where an option asks for more by name.
 */
function recurrentOptions(asked: EngineOptions): EngineOptions {
  const { kvEviction, prefixCacheDisk, speculative } = asked;
  const refuse = (option: string): never => {
    throw new MillraceError(
      "invalid_option",
      `expected a model without recurrent layers for ${option}, got one with them`,
      {
        hint: `Start without ${option}.`,
      },
    );
  };
  if (prefixCacheDisk !== undefined) refuse("--prefix-cache-disk");
  if (kvEviction !== undefined) refuse("--kv-eviction");
  return { ...asked, speculative: { ...speculative, alternatives: 0 } };
}

/** Throws invalid_option where entries cannot be evicted, or a part of the engine would read those that are gone. */
function checkEviction(config: ServableModel, options: EngineOptions): void {
  const { kvLayout, speculative, maxModelLen } = options;
  const refuse = (expected: string, got: string): never => {
    throw new MillraceError("invalid_option", `expected ${expected} for --kv-eviction, got ${got}`);
  };
  if (kvLayout !== "paged") refuse("--kv-layout paged", kvLayout);
  if (speculative.draftModelPath !== undefined || speculative.method === "mtp") {
    refuse('--speculative-config {"method":"auto"} or another method without a model', speculative.method);
  }
  const length = resolveMaxModelLen(maxModelLen, config.contextLength);
  // As kvGroups has it: a window that no text leaves is full attention.
  const full = config.layers.filter(
    (layer) => keyWidth(layer) > 0 && (windowOf(layer) === 0 || windowOf(layer) >= length),
  );
  if (full.length === 0) refuse("a model with layers of full attention", "sliding windows in every layer");
  const shapes = new Set(
    full.map(({ mixer }) =>
      mixer.kind === "attention" ? `${mixer.numKvHeads} × ${mixer.headDim}` : `1 × ${keyWidth({ mixer })}`,
    ),
  );
  if (shapes.size > 1) refuse("layers with KV heads of one shape", [...shapes].join(" and "));
}

const notForEncoders = (option: string): MillraceError =>
  new MillraceError("invalid_option", `expected a model that generates text for ${option}, got an encoder`);

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
