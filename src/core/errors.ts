/**
 * Every error that millrace raises on purpose: one class, one table of codes. `docs/reference/errors.md` documents each
 * code; a test compares the two.
 */

/** Code → HTTP status for clients. */
const STATUS_BY_CODE = {
  // requests
  invalid_json: 400,
  invalid_request: 400,
  unknown_field: 400,
  unsupported_field: 400,
  // Anthropic's own code: its client then sends complete conversations.
  thread_unsupported_request: 400,
  invalid_parameter: 400,
  empty_prompt: 400,
  token_out_of_range: 400,
  context_length_exceeded: 400,
  kv_capacity_exceeded: 400,
  invalid_grammar: 400,
  template_failed: 400,
  template_missing: 400,
  wrong_task: 400,
  invalid_api_key: 401,
  forbidden: 403,
  model_not_found: 404,
  not_found: 404,
  previous_response_not_found: 400,
  method_not_allowed: 405,
  request_timeout: 408,
  body_too_large: 413,
  queue_full: 429,
  body_queue: 429,
  grammar_budget: 429,
  client_closed: 499,
  internal_error: 500,
  grammar_failed: 500,
  not_a_number: 500,
  engine_failed: 500,
  grammar_queue: 503,
  engine_stalled: 503,
  shutting_down: 503,
  deadline_exceeded: 504,
  // the gateway
  upstream_failed: 502,
  isolation_unsupported: 403,
  no_instance_ready: 503,
  upstream_timeout: 504,
  upstream_limited: 429,
  budget_exceeded: 429,
  rate_limit_exceeded: 429,
  price_missing: 403,
  budget_store_failed: 503,
  not_cached: 504,
  idempotency_conflict: 409,
  key_store_unavailable: 503,
  identity_provider_unavailable: 503,
  model_not_allowed: 403,
  already_exists: 409,
  conversation_changed: 409,
  guardrail_refused: 400,
  guardrail_failed: 503,
  // files and batches
  storage_quota: 413,
  storage_full: 507,
  storage_locked: 503,
  // model files
  file_unreadable: 400,
  gguf_not_gguf: 400,
  gguf_version: 400,
  gguf_truncated: 400,
  gguf_corrupt: 400,
  gguf_limit: 400,
  gguf_split: 400,
  gguf_metadata: 400,
  gguf_tensor: 400,
  safetensors_truncated: 400,
  safetensors_corrupt: 400,
  safetensors_index: 400,
  model_config: 400,
  model_tensor: 400,
  tensor_type_unsupported: 400,
  architecture_unsupported: 400,
  tokenizer_unsupported: 400,
  tokenizer_corrupt: 400,
  tokenizer_timeout: 500,
  // 503, since another instance can take the request.
  model_file_changed: 503,
  hub_spec: 400,
  hub_unreachable: 502,
  hub_not_found: 404,
  hub_checksum: 502,
  hub_cache: 500,
  pull_limit: 429,
  pull_ended: 503,
  model_in_use: 409,
  // start-up
  invalid_option: 400,
  certificate_invalid: 400,
  kernels_missing: 500,
  kernels_isa: 400,
  kernels_argument: 500,
  out_of_memory: 500,
  pack_unknown: 404,
  pack_damaged: 503,
  // the fleet
  config_syntax: 400,
  config_unknown_key: 400,
  config_value: 400,
  config_conflict: 400,
  config_secret: 400,
  memory_budget: 503,
  instance_failed: 503,
  build_failed: 503,
  // planning
  plan_does_not_fit: 400,
  plan_targets_missed: 400,
  // images
  image_program: 500,
  image_failed: 500,
  gpu_missing: 503,
  // measuring
  peer_failed: 500,
  // evaluating
  confinement_missing: 500,
  endpoint_failed: 502,
  // distilling
  scorer_failed: 500,
  python_missing: 500,
  training_failed: 500,
} as const satisfies Record<string, number>;

export type ErrorCode = keyof typeof STATUS_BY_CODE;

export const ERROR_CODES = Object.keys(STATUS_BY_CODE) as readonly ErrorCode[];

interface ErrorDetails {
  /** The remedy, addressed to the reader. */
  readonly hint?: string;
  /** Name of the request field at fault, as the client wrote it. */
  readonly param?: string;
  readonly cause?: unknown;
  /** Seconds after which a retry makes sense (sent as Retry-After). */
  readonly retryAfterSeconds?: number;
  /** Further headers of an HTTP answer. */
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * @example throw new MillraceError("invalid_parameter", "expected temperature in [0, 2], got 7", { param: "temperature"
 *   });
 */
export class MillraceError extends Error {
  override readonly name = "MillraceError";
  readonly code: ErrorCode;
  readonly status: number;
  readonly hint: string | undefined;
  readonly param: string | undefined;
  readonly retryAfterSeconds: number | undefined;
  readonly headers: Readonly<Record<string, string>> | undefined;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.status = STATUS_BY_CODE[code];
    this.hint = details.hint;
    this.param = details.param;
    this.retryAfterSeconds = details.retryAfterSeconds;
    this.headers = details.headers;
  }
}

/** Wraps any thrown value into a MillraceError, so that every boundary handles one type. */
export function toMillraceError(thrown: unknown, code: ErrorCode = "internal_error"): MillraceError {
  if (thrown instanceof MillraceError) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return new MillraceError(code, message, { cause: thrown });
}

/** Plain-object form that can cross a worker boundary. */
export interface ErrorRecord {
  readonly code: ErrorCode;
  readonly message: string;
  readonly hint?: string;
  readonly param?: string;
  readonly retryAfterSeconds?: number;
}

export function errorToRecord(error: MillraceError): ErrorRecord {
  return {
    code: error.code,
    message: error.message,
    ...(error.hint === undefined ? {} : { hint: error.hint }),
    ...(error.param === undefined ? {} : { param: error.param }),
    ...(error.retryAfterSeconds === undefined ? {} : { retryAfterSeconds: error.retryAfterSeconds }),
  };
}

export function errorFromRecord(record: ErrorRecord): MillraceError {
  return new MillraceError(record.code, record.message, {
    ...(record.hint === undefined ? {} : { hint: record.hint }),
    ...(record.param === undefined ? {} : { param: record.param }),
    ...(record.retryAfterSeconds === undefined ? {} : { retryAfterSeconds: record.retryAfterSeconds }),
  });
}
