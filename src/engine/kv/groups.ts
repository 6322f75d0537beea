/** KV groups: layers that keep the same entries share one block pool and one table per sequence (full attention, each window width). */
import { MillraceError } from "../../core/errors.js";
import type { KvType } from "../../kernels/program.js";
import type { ModelConfig } from "../model/config.js";
import { kvBytesPerToken } from "../model/config.js";

export interface KvGroupSpec {
  /** 0 = everything is kept. */
  readonly window: number;
  /** Indices of the model's layers, ascending. */
  readonly layers: readonly number[];
}

export function kvGroups(config: ModelConfig): readonly KvGroupSpec[] {
  const windows = [...new Set(config.layers.map((layer) => layer.window))].sort((a, b) => a - b);
  return windows.map((window) => ({
    window,
    layers: config.layers.flatMap((layer, index) => (layer.window === window ? [index] : [])),
  }));
}

export interface KvBudget {
  /** Blocks in each group's pool. */
  readonly numBlocks: number;
  readonly kvBytes: number;
}

/**
 * How many blocks the KV memory holds. Without an explicit size: room for every seat at full length, at most a quarter of the free memory.
 * @param explicitBytes what the user asked for, or undefined
 */
export function planKvBudget(
  config: ModelConfig,
  kvType: KvType,
  blockSize: number,
  seats: { readonly maxNumSeqs: number; readonly maxModelLen: number },
  freeBytes: number,
  explicitBytes: number | undefined,
): KvBudget {
  const blockBytes = kvBytesPerToken(config, kvType) * blockSize;
  const wantedBlocks = Math.ceil(seats.maxModelLen / blockSize) * seats.maxNumSeqs;
  const bytes = explicitBytes ?? Math.min(wantedBlocks * blockBytes, Math.floor(freeBytes / 4));
  const numBlocks = Math.floor(bytes / blockBytes);
  if (numBlocks < 1) {
    throw new MillraceError(
      "invalid_option",
      `expected KV memory for at least one block of ${blockSize} tokens (${blockBytes} bytes), got ${bytes} bytes`,
      { hint: "Raise --kv-cache-memory-bytes, or lower --block-size." },
    );
  }
  return { numBlocks, kvBytes: numBlocks * blockBytes };
}
