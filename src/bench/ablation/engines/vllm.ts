/** The layers of vLLM. On CPUs it has no asynchronous scheduling and no 8-bit KV memory. */
import { DRAFTS, flags, PREFIX_CACHE, unchunkedTokens } from "../variants.js";
import { type AblatedEngine, hasAccelerator } from "./ablated-engine.js";

export const vllm: AblatedEngine = {
  foundation: [{ name: "continuous batching", on: flags(), off: flags("--max-num-seqs", "1") }],
  optimisations: (speculation) => [
    {
      name: "chunked prefill",
      on: flags("--enable-chunked-prefill"),
      off: (shape) => ["--no-enable-chunked-prefill", "--max-num-batched-tokens", unchunkedTokens(shape)],
    },
    { name: PREFIX_CACHE, on: flags("--enable-prefix-caching"), off: flags("--no-enable-prefix-caching") },
    { name: "compiled graphs", on: flags(), off: flags("--enforce-eager") },
    ...(hasAccelerator()
      ? [
          { name: "asynchronous scheduling", on: flags("--async-scheduling"), off: flags("--no-async-scheduling") },
          { name: "FP8 KV", on: flags("--kv-cache-dtype", "fp8"), off: flags("--kv-cache-dtype", "auto") },
        ]
      : []),
    ...(speculation === undefined ? [] : [DRAFTS]),
  ],
  speculation: '{"method":"ngram","num_speculative_tokens":4,"prompt_lookup_max":4}',
  startsSlowly: true,
};
