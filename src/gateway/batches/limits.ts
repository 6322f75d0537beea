/** Bounds of files and batches: OpenAI's and Anthropic's if they state one, else ours. */

const MIB = 1024 * 1024;

/** OpenAI: the largest file, and the largest one that a batch may have as its input. */
export const MAX_FILE_BYTES = 512 * MIB;
export const MAX_BATCH_FILE_BYTES = 200 * MIB;
/** OpenAI: lines of a batch, and inputs of embeddings over all its lines. */
export const MAX_BATCH_LINES = 50_000;
export const MAX_EMBEDDING_INPUTS = 50_000;
/** Anthropic: the body of a request that makes a batch, and its requests. */
export const MAX_MESSAGE_BATCH_BYTES = 256 * MIB;
export const MAX_MESSAGE_BATCH_REQUESTS = 100_000;
/** Upper bound of a custom_id, in UTF-16 code units. */
export const MAX_CUSTOM_ID_CHARS = 512;
/** OpenAI: metadata of a batch. */
export const MAX_METADATA_PAIRS = 16;
export const MAX_METADATA_KEY_CHARS = 64;
export const MAX_METADATA_VALUE_CHARS = 512;
/** OpenAI: `seconds` of expires_after and output_expires_after. */
export const MIN_EXPIRY_SECONDS = 3600;
export const MAX_EXPIRY_SECONDS = 2_592_000;
/** OpenAI: files for batches expire after 30 days unless the upload says otherwise. */
export const BATCH_FILE_EXPIRY_SECONDS = 30 * 86_400;
/** Anthropic: results are kept for 29 days. */
export const MESSAGE_BATCH_KEPT_SECONDS = 29 * 86_400;
export const COMPLETION_WINDOW_SECONDS = 86_400;
/** Faults of a file that a batch lists; further faults are cut. */
export const MAX_LISTED_FAULTS = 100;
/** Time after which an Idempotency-Key may be used for something else. */
export const IDEMPOTENCY_KEPT_SECONDS = 86_400;
/** Longest Idempotency-Key. */
export const MAX_IDEMPOTENCY_KEY_CHARS = 255;

/** Endpoints that lines may be sent to. */
export const BATCH_ENDPOINTS: readonly string[] = [
  "/v1/chat/completions",
  "/v1/completions",
  "/v1/embeddings",
  "/v1/responses",
  "/v1/rerank",
  "/v1/score",
];
