/** llama-server's request fields that this server ignores, or accepts only with values that turn them off. */
import { isEmptyArray, isOneOf } from "./fields.js";

/** Settings of llama-server's slots, samplers and batches; this server has none of them. */
export const LLAMA_INERT_FIELDS: ReadonlySet<string> = new Set(
  (
    "cache_prompt id_slot n_keep n_discard n_indent t_max_predict_ms t_max_prompt_ms n_cache_reuse samplers " +
    "min_keep return_progress backend_sampling sse_ping_interval verbose adaptive_decay " +
    "speculative.type speculative.n_min speculative.n_max speculative.p_min"
  ).split(" "),
);

/**
 * Features that this server lacks, with the values that turn them off. Mirostat carries a state from token to token
 * that
 * depends on the chosen token's probability: a draft could not be checked against a position's own choice, and a
 * pre-empted answer could not continue from its tokens alone.
 */
export const LLAMA_UNSUPPORTED: Readonly<Record<string, (value: unknown) => boolean>> = {
  mirostat: isOneOf(0),
  mirostat_tau: () => true,
  mirostat_eta: () => true,
  tfs_z: isOneOf(1),
  adaptive_target: (value) => typeof value === "number" && value < 0,
  n_cmpl: isOneOf(1),
  post_sampling_probs: isOneOf(false),
  multimodal_data: isEmptyArray,
  lora: isEmptyArray,
};
