/** The layers of SGLang. */
import type { ServerShape } from "../../workload/scenarios.js";
import { DRAFTS, flags, PREFIX_CACHE } from "../variants.js";
import { type AblatedEngine, hasAccelerator } from "./ablated-engine.js";

export const sglang: AblatedEngine = {
  foundation: [{ name: "continuous batching", on: flags(), off: flags("--max-running-requests", "1") }],
  optimisations: (speculation) => [
    { name: "chunked prefill", on: flags(), off: flags("--chunked-prefill-size", "-1") },
    { name: PREFIX_CACHE, on: flags(), off: flags("--disable-radix-cache") },
    { name: "asynchronous scheduling", on: flags(), off: flags("--disable-overlap-schedule") },
    ...(hasAccelerator()
      ? [
          { name: "compiled graphs", on: flags(), off: flags("--disable-cuda-graph") },
          {
            name: "FP8 KV",
            // Half as wide entries double the number of tokens in the same memory; the last of two flags wins.
            on: ({ kvTokens }: ServerShape) => [
              "--kv-cache-dtype",
              "fp8_e4m3",
              "--max-total-tokens",
              String(2 * kvTokens),
            ],
            off: flags("--kv-cache-dtype", "auto"),
          },
        ]
      : []),
    ...(speculation === undefined ? [] : [DRAFTS]),
  ],
  speculation: '{"method":"ngram"}',
  sizeFlags: ({ kvTokens }) => ["--max-total-tokens", String(kvTokens)],
  startsSlowly: true,
};
