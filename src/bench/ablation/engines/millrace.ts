/** The layers of our own engine. */
import { DRAFTS, flags, PREFIX_CACHE, unchunkedTokens } from "../variants.js";
import type { AblatedEngine } from "./ablated-engine.js";

export const millrace: AblatedEngine = {
  foundation: [
    { name: "continuous batching", on: flags(), off: flags("--batching", "static") },
    { name: "paged KV", on: flags(), off: flags("--kv-layout", "contiguous") },
  ],
  optimisations: (speculation) => [
    {
      name: "chunked prefill",
      on: flags(),
      off: (shape) => ["--no-enable-chunked-prefill", "--max-num-batched-tokens", unchunkedTokens(shape)],
    },
    { name: PREFIX_CACHE, on: flags(), off: flags("--no-enable-prefix-caching") },
    { name: "shared KV reads", on: flags(), off: flags("--no-share-kv-reads") },
    { name: "int8 KV", on: flags("--kv-cache-dtype", "int8"), off: flags("--kv-cache-dtype", "f16") },
    ...(speculation === undefined ? [] : [DRAFTS]),
  ],
  speculation: '{"method":"auto"}',
  startsSlowly: false,
};
