/** The layers of llama.cpp's server. */
import type { ServerShape } from "../../workload/scenarios.js";
import { DRAFTS, flags, PREFIX_CACHE } from "../variants.js";
import type { AblatedEngine } from "./ablated-engine.js";

/** Bytes of a token's f16 keys and values per byte with keys in q8_0, whose blocks have 34 bytes for 32 numbers. */
const KEYS_GAIN = 64 / (32 + 17);

/**
 * As many slots as longest requests fit into the memory: llama-server fails requests when its memory is full. The last
 * of several flags wins.
 */
function slotFlags({ seats, maxModelLen }: ServerShape, kvTokens: number): string[] {
  const numSlots = Math.max(1, Math.min(seats, Math.floor(kvTokens / maxModelLen)));
  return ["-np", String(numSlots), "-c", String(numSlots * maxModelLen)];
}

export const llamaServer: AblatedEngine = {
  foundation: [
    { name: "continuous batching", on: flags(), off: flags("--no-cont-batching") },
    // One KV memory for all slots, instead of an equal part for each.
    { name: "unified KV", on: flags("--kv-unified"), off: flags() },
  ],
  optimisations: (speculation) => [
    { name: "flash attention", on: flags("-fa", "on"), off: flags("-fa", "off") },
    { name: PREFIX_CACHE, on: flags("--cache-prompt"), off: flags("--no-cache-prompt") },
    // A quantised value cache needs flash attention, so the key cache alone is a layer.
    {
      name: "8-bit keys",
      on: (shape) => ["-ctk", "q8_0", ...slotFlags(shape, KEYS_GAIN * shape.kvTokens)],
      off: flags(),
    },
    ...(speculation === undefined ? [] : [DRAFTS]),
  ],
  speculation: '{"method":"ngram"}',
  sizeFlags: (shape) => slotFlags(shape, shape.kvTokens),
  startsSlowly: false,
};
