/** llama-server's request fields that this server ignores, or takes only with the values that turn them off. */
import { isEmptyArray, isOneOf } from "./fields.js";

/** Settings of llama-server's slots, samplers and batches, none of which this server has. */
export const LLAMA_INERT_FIELDS: ReadonlySet<string> = new Set(
  (
    "cache_prompt id_slot n_keep n_discard n_indent t_max_predict_ms t_max_prompt_ms n_cache_reuse samplers " +
    "min_keep return_progress backend_sampling sse_ping_interval verbose adaptive_decay " +
    "speculative.type speculative.n_min speculative.n_max speculative.p_min"
  ).split(" "),
);

/**
 * Features that this server does not have, with the values that turn them off. Mirostat carries a state from each token
 * to the next, which depends on the probability of the chosen token: no position would have a choice of its own that a
 * draft could be checked against, and a pre-empted answer could not be gone on with from its tokens alone.
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
