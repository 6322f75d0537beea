/** The layers of llama.cpp's server. */
import { DRAFTS, flags, PREFIX_CACHE } from "../variants.js";
import type { AblatedEngine } from "./ablated-engine.js";

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
    { name: "8-bit keys", on: flags("-ctk", "q8_0"), off: flags() },
    ...(speculation === undefined ? [] : [DRAFTS]),
  ],
  speculation: '{"method":"ngram"}',
  startsSlowly: false,
};
