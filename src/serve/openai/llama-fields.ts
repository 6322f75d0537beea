/** llama-server's request fields that this server ignores, or takes only with the values that turn them off. */
import { isEmptyArray, isOneOf } from "./fields.js";

/** Settings of llama-server's slots, samplers and batches, none of which this server has. */
export const LLAMA_INERT_FIELDS: ReadonlySet<string> = new Set(
  (
    "cache_prompt id_slot n_keep n_discard n_indent t_max_predict_ms t_max_prompt_ms n_cache_reuse repeat_last_n samplers " +
    "min_keep return_progress"
  ).split(" "),
);

/** Features that this server does not have, with the values that turn them off. */
export const LLAMA_UNSUPPORTED: Readonly<Record<string, (value: unknown) => boolean>> = {
  mirostat: isOneOf(0),
  mirostat_tau: () => true,
  mirostat_eta: () => true,
  typical_p: isOneOf(1),
  tfs_z: isOneOf(1),
  dynatemp_range: isOneOf(0),
  dynatemp_exponent: () => true,
  xtc_probability: isOneOf(0),
  xtc_threshold: () => true,
  dry_multiplier: isOneOf(0),
  dry_base: () => true,
  dry_allowed_length: () => true,
  dry_penalty_last_n: () => true,
  dry_sequence_breakers: () => true,
  top_n_sigma: isOneOf(-1),
  post_sampling_probs: isOneOf(false),
  multimodal_data: isEmptyArray,
  lora: isEmptyArray,
};
