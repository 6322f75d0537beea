/**
 * Schema pieces that the endpoints share. Every message has the form "expected …, got …"; the caller puts the field's
 * name before it.
 */

import { z } from "zod";
import { describeValue } from "../../core/describe-value.js";
import { isPlainObject } from "../../core/is-plain-object.js";
import { MAX_BAD_WORDS, MAX_DRY_BREAKERS, MAX_LOGIT_BIASES, MAX_LOGPROBS } from "../../engine/api/request.js";
import { checked } from "./checked.js";
import { constraintShape } from "./constraint.js";

/** A limit, since words are tokenized before the rest of the request is checked. */
const MAX_BAD_WORD_CHARACTERS = 256;

export { checked };

export function numberIn(min: number, max: number) {
  return checked<number>(
    `a number in [${min}, ${max}]`,
    (value) => typeof value === "number" && value >= min && value <= max,
    { type: "number", minimum: min, maximum: max },
  );
}

function numberAbove(min: number, max: number) {
  return checked<number>(
    `a number in (${min}, ${max}]`,
    (value) => typeof value === "number" && value > min && value <= max,
    { type: "number", exclusiveMinimum: min, maximum: max },
  );
}

export function integerIn(min: number, max: number) {
  return checked<number>(
    `an integer in [${min}, ${max}]`,
    (value) => typeof value === "number" && Number.isInteger(value) && value >= min && value <= max,
    { type: "integer", minimum: min, maximum: max },
  );
}

/** A long list in a large body arrives as an Int32Array; readers accept both. */
export function isTokenIdArray(value: unknown): value is number[] {
  if (value instanceof Int32Array) return true;
  return Array.isArray(value) && value.every((id) => typeof id === "number" && Number.isInteger(id));
}

/** An object without changes: zod's copies of objects lack a member named __proto__. */
export const objectField = checked<Readonly<Record<string, unknown>>>("an object", (value) => isPlainObject(value), {
  type: "object",
});

const MAX_STOP_STRINGS = 64;
const MAX_STOP_LENGTH = 4096;
/** A limit, since each choice of a request has a matcher with a table as long as all stop strings. */
const MAX_STOPS_LENGTH = 16 * MAX_STOP_LENGTH;
const STOP_LENGTHS = `(each at most ${MAX_STOP_LENGTH} characters, all ${MAX_STOPS_LENGTH})`;

function isStopString(value: unknown): value is string {
  return typeof value === "string" && value !== "" && value.length <= MAX_STOP_LENGTH;
}

function isStopList(value: unknown): boolean {
  if (!Array.isArray(value) || value.length > MAX_STOP_STRINGS || !value.every(isStopString)) return false;
  return value.reduce((length, stop) => length + stop.length, 0) <= MAX_STOPS_LENGTH;
}

/** A list of stop strings. */
export const stopStringsField = checked<string[]>(
  `up to ${MAX_STOP_STRINGS} non-empty strings ${STOP_LENGTHS}`,
  isStopList,
);

const stopField = checked<string | string[]>(
  `a non-empty string or up to ${MAX_STOP_STRINGS} of them ${STOP_LENGTHS}`,
  (value) => isStopString(value) || isStopList(value),
);

const isBias = ([id, bias]: readonly [string, unknown]): boolean =>
  /^\d{1,9}$/.test(id) && typeof bias === "number" && bias >= -100 && bias <= 100;

function isLogitBias(value: unknown): boolean {
  if (!isPlainObject(value)) return false;
  const entries = Object.entries(value);
  return entries.length <= MAX_LOGIT_BIASES && entries.every(isBias);
}

function describeBiases(value: unknown): string {
  const wrong = isPlainObject(value) ? Object.entries(value).find((entry) => !isBias(entry)) : undefined;
  return wrong === undefined ? describeValue(value) : wrong.map(describeValue).join(": ");
}

/** A double cannot represent 2^63 − 1, so the text below states the limit in full. */
const int64Limit = 2 ** 63;
const seedField = checked<number>(
  `an integer in [${-(2n ** 63n)}, ${2n ** 63n - 1n}]`,
  (value) => typeof value === "number" && Number.isInteger(value) && Math.abs(value) <= int64Limit,
  { type: "integer", minimum: -int64Limit, maximum: int64Limit },
);

/** Limits, since each beginning of a breaker is searched for in the tokens of the complete vocabulary. */
const MAX_BREAKERS = 32;
const MAX_BREAKER_LENGTH = 40;

const breakersField = checked<readonly string[]>(
  `up to ${MAX_BREAKERS} strings of 1 to ${MAX_BREAKER_LENGTH} characters (all ${MAX_DRY_BREAKERS})`,
  (value) =>
    Array.isArray(value) &&
    value.length <= MAX_BREAKERS &&
    value.every((each) => typeof each === "string" && each !== "" && each.length <= MAX_BREAKER_LENGTH) &&
    value.reduce((length, each) => length + each.length, 0) <= MAX_DRY_BREAKERS,
);

/** llama-server's samplers, which OpenAI's API lacks. */
export const llamaSamplersShape = {
  repeat_last_n: integerIn(-1, 2 ** 31 - 1).optional(),
  dry_multiplier: numberIn(0, 100).optional(),
  dry_base: numberIn(1, 100).optional(),
  dry_allowed_length: integerIn(0, 2 ** 31 - 1).optional(),
  dry_penalty_last_n: integerIn(-1, 2 ** 31 - 1).optional(),
  dry_sequence_breakers: breakersField.optional(),
  top_n_sigma: numberIn(-1, 100).optional(),
  typical_p: numberIn(0, 1).optional(),
  xtc_probability: numberIn(0, 1).optional(),
  xtc_threshold: numberIn(0, 1).optional(),
  dynatemp_range: numberIn(0, 2).optional(),
  dynatemp_exponent: numberIn(0, 100).optional(),
} as const;

/** OpenAI's sampling fields, vLLM's and llama-server's additions, the same on every endpoint that generates. */
export const samplingShape = {
  temperature: numberIn(0, 2).optional(),
  top_p: numberIn(0, 1).optional(),
  top_k: integerIn(-1, 2 ** 31 - 1).optional(),
  min_p: numberIn(0, 1).optional(),
  presence_penalty: numberIn(-2, 2).optional(),
  frequency_penalty: numberIn(-2, 2).optional(),
  repetition_penalty: numberAbove(0, 100).optional(),
  ...llamaSamplersShape,
  seed: seedField.optional(),
  stop: stopField.optional(),
  stop_token_ids: checked<number[]>(
    "up to 128 token ids",
    (value) => isTokenIdArray(value) && value.length <= 128,
  ).optional(),
  min_tokens: integerIn(0, 2 ** 31 - 1).optional(),
  ignore_eos: z.boolean().optional(),
  include_stop_str_in_output: z.boolean().optional(),
  skip_special_tokens: z.boolean().optional(),
  logit_bias: checked<Record<string, number>>(
    `an object of up to ${MAX_LOGIT_BIASES} token ids, each with a bias in [-100, 100]`,
    isLogitBias,
    {},
    describeBiases,
  ).optional(),
  allowed_token_ids: checked<number[]>("a list of token ids", (value) => isTokenIdArray(value)).optional(),
  bad_words: checked<string[]>(
    `up to ${MAX_BAD_WORDS / 2} strings of 1 to ${MAX_BAD_WORD_CHARACTERS} characters`,
    (value) =>
      Array.isArray(value) &&
      value.length <= MAX_BAD_WORDS / 2 &&
      value.every((each) => typeof each === "string" && each !== "" && each.length <= MAX_BAD_WORD_CHARACTERS),
  ).optional(),
  truncate_prompt_tokens: checked<number>(
    "-1 or an integer of at least 1",
    (value) => typeof value === "number" && Number.isInteger(value) && (value === -1 || value >= 1),
  ).optional(),
  truncation_side: z.enum(["left", "right"]).optional(),
  return_token_ids: z.boolean().optional(),
  prompt_logprobs: integerIn(0, MAX_LOGPROBS).optional(),
  return_tokens_as_token_ids: z.boolean().optional(),
  ...constraintShape,
} as const;

/**
 * Isolation of a request's prefixes, its priority and its time limit: the same on every endpoint that uses the engine.
 */
export const termsShape = {
  cache_salt: checked<string>(
    "a string of 1 to 1024 characters",
    (value) => typeof value === "string" && value !== "" && value.length <= 1024,
  ).optional(),
  priority: integerIn(-(2 ** 31), 2 ** 31 - 1).optional(),
  timeout: numberAbove(0, 86_400).optional(),
} as const;

export type SamplingFields = z.output<z.ZodObject<typeof samplingShape>>;

/** -1, from llama-server and LM Studio: as many as fit. */
export const maxTokensField = integerIn(-1, 2 ** 31 - 1);

/** undefined: as many as fit. */
export const maxTokensOf = (given: number | undefined): number | undefined => (given === -1 ? undefined : given);

/** The upper limit of `n` is a server setting, checked later. */
export const numChoicesField = integerIn(1, 2 ** 31 - 1);

export const streamOptionsField = z.strictObject({
  include_usage: z.boolean().nullish(),
  // vLLM's field: together with include_usage, every chunk has the usage so far.
  continuous_usage_stats: z.boolean().nullish(),
  // Padding against traffic analysis; the server adds none.
  include_obfuscation: z.boolean().nullish(),
});

/** The chunks of a stream that have a `usage`: none, the last (null in the others), or every one. */
export type StreamUsage = "none" | "last" | "every";

export function streamUsageOf(options: z.output<typeof streamOptionsField> | undefined): StreamUsage {
  if (options?.include_usage !== true) return "none";
  return options.continuous_usage_stats === true ? "every" : "last";
}

export const modelField = checked<string>("a model's name", (value) => typeof value === "string", {
  type: "string",
});
