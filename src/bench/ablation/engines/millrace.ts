/** The layers of our own engine. */
import { millraceServer } from "../../run/servers.js";
import { DRAFTS, flags, PREFIX_CACHE, SPECULATION, unchunkedTokens } from "../variants.js";
import type { AblatedEngine } from "./ablated-engine.js";

const INT8_KV = "int8 KV";
const NO_DRAFTS = '{"method":"none"}';

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
    { name: INT8_KV, on: flags("--kv-cache-dtype", "int8"), off: flags("--kv-cache-dtype", "f16") },
    ...(speculation === undefined ? [] : [DRAFTS]),
  ],
  speculation: '{"method":"auto"}',
  launch({ name, modelPath, numThreads, kvBytesPerToken, layers, speculation, flagsFor }) {
    const kvType = layers.includes(INT8_KV) ? "int8" : "f16";
    const drafts = layers.includes(SPECULATION) ? speculation : NO_DRAFTS;
    return millraceServer(name, { path: modelPath, numThreads, kvBytesPerToken, kvType }, (shape) => [
      ...flagsFor(shape),
      "--speculative-config",
      drafts,
    ]);
  },
  startsSlowly: false,
};
