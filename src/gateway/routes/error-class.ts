/** Sorts errors into the classes that routes have fallbacks for. */
import type { ErrorCode, MillraceError } from "../../core/errors.js";

/**
 * unavailable: no connection, or an answer of 5xx; timeout: no answer in time; overload: 429, or too many waiting
 * requests; context-length: the prompt is too long for the model; content-filter: the provider refused the content.
 */
export const ERROR_CLASSES = ["unavailable", "timeout", "overload", "context-length", "content-filter"] as const;
export type ErrorClass = (typeof ERROR_CLASSES)[number];

const CLASS_OF_CODE: Readonly<Partial<Record<ErrorCode, ErrorClass>>> = {
  upstream_failed: "unavailable",
  no_instance_ready: "unavailable",
  instance_failed: "unavailable",
  build_failed: "unavailable",
  memory_budget: "unavailable",
  engine_failed: "unavailable",
  upstream_timeout: "timeout",
  engine_stalled: "timeout",
  queue_full: "overload",
  context_length_exceeded: "context-length",
  kv_capacity_exceeded: "context-length",
};

/** @returns undefined for an error of the request itself, which every model would answer alike */
export function classOfError({ code }: MillraceError): ErrorClass | undefined {
  return CLASS_OF_CODE[code];
}

const CONTEXT_LENGTH =
  /context_length|kv_capacity_exceeded|context length|context window|context size|prompt is too long|too many (?:input |prompt )?tokens|maximum (?:input|prompt) length|exceeds? the (?:available|model|maximum)/i;
const CONTENT_FILTER =
  /content_filter|content_policy|content management policy|responsible ?ai ?policy|safety system|content policy/i;
/** Statuses with which APIs refuse a prompt for its content or size. */
const REFUSALS: readonly number[] = [400, 403, 413, 422];
/** Only this many characters of an error are searched. */
const MAX_SEARCHED = 16 * 1024;

/** @param body the answer's bytes, searched only if the status leaves the reason open */
export function classOfAnswer(status: number, body: Buffer): ErrorClass | undefined {
  // 529 is Anthropic's overload.
  if (status === 429 || status === 529) return "overload";
  if (status === 504 || status === 408) return "timeout";
  if (REFUSALS.includes(status)) {
    const text = body.subarray(0, MAX_SEARCHED).toString("utf8");
    if (CONTENT_FILTER.test(text)) return "content-filter";
    return CONTEXT_LENGTH.test(text) ? "context-length" : undefined;
  }
  return status >= 500 ? "unavailable" : undefined;
}
