/**
 * The parts of an error that may be logged. Above `debug`, the log holds no text from clients: prompts, names of fields
 * and models, grammars. Messages quote such text, so only the code is logged there, unless all messages of that code
 * consist of our own words, numbers and file names.
 */
import type { ErrorCode, MillraceError } from "./errors.js";

const OWN_WORDS: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "empty_prompt",
  "token_out_of_range",
  "context_length_exceeded",
  "kv_capacity_exceeded",
  "invalid_api_key",
  "request_timeout",
  "body_too_large",
  "queue_full",
  "body_queue",
  "client_closed",
  "engine_failed",
  "model_file_changed",
  "pack_damaged",
  "out_of_memory",
  "kernels_argument",
  "not_a_number",
  "shutting_down",
  "deadline_exceeded",
  "upstream_failed",
  "upstream_timeout",
  "upstream_limited",
  "no_instance_ready",
  "memory_budget",
  "instance_failed",
]);

/** For any level: "refused", or "refused: expected …". */
export function loggedMessage(what: string, error: MillraceError): string {
  return OWN_WORDS.has(error.code) ? `${what}: ${error.message}` : what;
}

/** The parts that `loggedMessage` leaves out, for `debug`; undefined: none. */
export function messageLeftOut(error: MillraceError): string | undefined {
  return OWN_WORDS.has(error.code) ? undefined : error.message;
}

/** The stack of an unexpected error, without its message. */
export function originOf(thrown: unknown): { readonly type: string; readonly stack: string } {
  if (!(thrown instanceof Error)) return { type: typeof thrown, stack: "" };
  const { name, message, stack = "" } = thrown;
  const end = message === "" ? -1 : stack.indexOf(message);
  const frames = (end < 0 ? stack : stack.slice(end + message.length)).split("\n");
  return { type: name, stack: frames.filter((line) => /^ +at /.test(line)).join("\n") };
}
