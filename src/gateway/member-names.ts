/**
 * Names of a request's JSON members. Servers written in Go, such as Ollama, ignore the case of names: a spelling that
 * the gateway does not see as `max_tokens` would reach them under that name. So a name that differs from a field's only
 * in case is refused, for every upstream.
 */
import { MillraceError } from "../core/errors.js";
import type { RequestBody } from "./request.js";

/** Every field that the gateway checks, and fields of the same APIs that an upstream may heed. */
const FIELDS: ReadonlySet<string> = new Set(
  `model messages prompt suffix input instructions system stream stream_options include_usage continuous_usage_stats
  max_tokens max_completion_tokens max_output_tokens max_tool_calls num_predict n_predict num_ctx n n_cmpl best_of temperature top_p top_k min_p seed
  stop stop_sequences stop_token_ids tools tool_choice functions function_call function response_format json_schema
  schema text verbosity reasoning reasoning_effort effort summary thinking budget_tokens think raw template context options
  keep_alive format logprobs top_logprobs prompt_logprobs logit_bias user metadata store previous_response_id conversation
  background include priority timeout cache_salt service_tier safety_identifier prompt_cache_key prompt_cache_retention
  prompt_cache_options presence_penalty frequency_penalty repetition_penalty repeat_penalty repeat_last_n typical_p top_n_sigma xtc_probability
  xtc_threshold dynatemp_range dynatemp_exponent dry_multiplier dry_base dry_allowed_length dry_penalty_last_n
  dry_sequence_breakers echo ignore_eos min_tokens chat_template chat_template_kwargs
  guided_json guided_regex guided_choice guided_grammar guided_decoding_backend structured_outputs grammar regex ebnf
  encoding_format dimensions query queries documents text_1 text_2 top_n tokens prediction modalities audio
  web_search_options parallel_tool_calls truncation container mcp_servers context_management output_config
  extra_body lora adapter role content type name tool_calls tool_call_id tool_use_id call_id id arguments description
  parameters input_schema strict output refusal reasoning_content data image_url images input_audio url detail source
  media_type file file_data file_id filename title citations cache_control ttl signature is_error summary status`.split(
    /\s+/,
  ),
);

/** Fields below which names are the client's own: schemas, arguments, labels. */
const FREE: ReadonlySet<string> = new Set([
  "parameters",
  "input_schema",
  "schema",
  // In a response_format of Hugging Face's clients.
  "value",
  "arguments",
  "metadata",
  "logit_bias",
  "chat_template_kwargs",
  "guided_json",
  "structured_outputs",
  "variables",
  "format",
]);

/** Go folds the long s and the Kelvin sign to letters of ASCII, too. */
const ODD = /[A-Z\u017f\u212a]/;
const MAX_SHOWN = 80;

/** Throws unknown_field. */
export function assertMemberNames(body: RequestBody): void {
  check(body, "");
}

function check(value: unknown, path: string): void {
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) return;
  if (Array.isArray(value)) {
    for (const each of value) if (typeof each === "object") check(each, path);
    return;
  }
  const { type } = value as RequestBody;
  for (const name of Object.keys(value)) {
    if (!FIELDS.has(name)) assertNoField(name, path);
    const isFree = FREE.has(name) || (name === "input" && typeof type === "string" && type.endsWith("tool_use"));
    if (!isFree) check((value as RequestBody)[name], path === "" ? name : `${path}.${name}`);
  }
}

function assertNoField(name: string, path: string): void {
  if (!ODD.test(name)) return;
  const field = name.toUpperCase().toLowerCase();
  if (!FIELDS.has(field)) return;
  const place = path === "" ? "" : ` in ${path.slice(0, MAX_SHOWN)}`;
  throw new MillraceError("unknown_field", `expected the field ${field}${place}, got ${JSON.stringify(name)}`, {
    param: name.slice(0, MAX_SHOWN),
    hint: "write the name of the field in lower case: some servers read other spellings as the same field",
  });
}
