/**
 * Fields that show policies a request's possible cost, and whether it is a stream. Engines read them loosely: a number
 * in a text, 1 for true. A value that the gateway and an engine understand differently would be booked wrongly, so only
 * plain values pass.
 */
import { describeValue } from "../core/describe-value.js";
import { MillraceError } from "../core/errors.js";
import { withFields } from "./edit-json.js";
import type { RequestBody } from "./request.js";

/** Choices of an answer; `n_cmpl` is llama-server's name. */
const CHOICE_FIELDS = ["n", "best_of", "n_cmpl"] as const;

/** Bounds of an answer. A negative value is llama-server's form of none. */
const BOUND_FIELDS = ["max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict"] as const;

const isInteger = (value: unknown): value is number => typeof value === "number" && Number.isSafeInteger(value);

/** Throws invalid_parameter. */
export function assertPlainFields(body: RequestBody): void {
  const check = (name: string, isPlain: boolean, expected: string): void => {
    const value = body[name];
    if (isPlain || value === undefined || value === null) return;
    const message = `${name}: expected ${expected}, got ${describeValue(value)}`;
    throw new MillraceError("invalid_parameter", message, { param: name });
  };
  check("stream", typeof body.stream === "boolean", "true or false");
  for (const name of CHOICE_FIELDS) check(name, isInteger(body[name]) && body[name] >= 1, "an integer of at least 1");
  for (const name of BOUND_FIELDS) check(name, isInteger(body[name]), "an integer");
}

const TAKES_MAX_TOKENS: readonly string[] = ["/v1/chat/completions", "/v1/completions"];

/**
 * A request with plain fields, under their usual names. llama-server heeds its own `n_predict` and `n_cmpl` before
 * these, and other engines ignore them, so every policy would have to know the engine.
 * @returns the same bytes and body if it has neither
 */
export function withUsualNames(path: string, bytes: Buffer, body: RequestBody): { bytes: Buffer; body: RequestBody } {
  const { n, n_predict: most, n_cmpl: count } = body as Readonly<Record<string, number | null | undefined>>;
  if (most === undefined && count === undefined) return { bytes, body };
  const fields: Record<string, unknown> = { n_predict: undefined, n_cmpl: undefined };
  // -1 and -2 both ask for as many tokens as fit.
  if (most != null && TAKES_MAX_TOKENS.includes(path)) {
    fields.max_tokens = Math.max(-1, most);
    fields.max_completion_tokens = undefined;
  }
  if (count != null) fields.n = Math.max(n ?? 1, count);
  return { bytes: withFields(bytes, body, fields), body: { ...body, ...fields } };
}
