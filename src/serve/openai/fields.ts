/**
 * Converts a JSON body to a typed request. Null means absent, for unknown fields as well; inert fields are dropped,
 * unsupported and unknown fields are reported, and the schema checks the others.
 */
import { isDeepStrictEqual } from "node:util";
import type { z } from "zod";
import { describeValue } from "../../core/describe-value.js";
import { MillraceError } from "../../core/errors.js";
import { isPlainObject } from "../../core/is-plain-object.js";
import { expectedOf, pathText, shorten, valueAt } from "../../core/schema-problem.js";
import type { Asker, PromptContext } from "../http/context.js";
import type { Aliases } from "./aliases.js";

/** Whether the field's value has no effect, given the request's other fields. */
type IsNeutral = (value: unknown, body: Readonly<Record<string, unknown>>) => boolean;

export interface FieldRules<Shape extends z.ZodRawShape> {
  readonly schema: z.ZodObject<Shape, z.core.$strict>;
  /** Other names of fields. */
  readonly aliases?: Aliases;
  /** Accepted fields without effect. */
  readonly inert: ReadonlySet<string>;
  /** Unknown fields have no effect at this endpoint, regardless of --unknown-fields. */
  readonly ignoresUnknown?: boolean;
  /** Known fields without support, with a test for values without effect. */
  readonly unsupported: Readonly<Record<string, IsNeutral>>;
}

/** OpenAI fields for the provider's bookkeeping, which do not affect the answer. */
export const INERT_FIELDS: readonly string[] = [
  "user",
  "store",
  "metadata",
  "service_tier",
  "prompt_cache_key",
  "prompt_cache_options",
  "prompt_cache_retention",
  "safety_identifier",
  "spaces_between_special_tokens",
  // Mastra's switch for its own conversion of schemas.
  "strictJsonSchema",
  // Labels in requests of vLLM, earlier vLLM and Open WebUI.
  "request_id",
  "guided_decoding_backend",
  "chat_id",
  "session_id",
  // vLLM's chunk sizes, and its form of inputs that this server does not accept.
  "stream_interval",
  "mm_payload",
];

export const never = (): boolean => false;
export const isEmptyArray = (value: unknown): boolean => Array.isArray(value) && value.length === 0;
export const isEmptyObject = (value: unknown): boolean => isPlainObject(value) && Object.keys(value).length === 0;
export const isOneOf =
  (...neutral: readonly unknown[]) =>
  (value: unknown): boolean =>
    neutral.includes(value);

/** vLLM's searches for several answers, and its fields for features that this server lacks or does not show. */
export const SAMPLING_UNSUPPORTED: Readonly<Record<string, IsNeutral>> = {
  // Neutral if the request draws as many answers as it returns.
  best_of: (value, { n }) => value === 1 || value === n,
  use_beam_search: isOneOf(false),
  length_penalty: isOneOf(1),
  early_stopping: isOneOf(false),
  logprob_token_ids: isEmptyArray,
  kv_transfer_params: isEmptyObject,
  ec_transfer_params: isEmptyObject,
  media_io_kwargs: isEmptyObject,
  mm_processor_kwargs: isEmptyObject,
  vllm_xargs: isEmptyObject,
  repetition_detection: never,
  watermarking: isOneOf(false),
  return_token_offsets: isOneOf(false),
  return_prompt_text: isOneOf(false),
  return_mm_kwargs: isOneOf(false),
  routed_experts_prompt_start: isOneOf(0),
};

/** vLLM's fields for all endpoints of vectors and scores. */
export const POOLING_UNSUPPORTED: Readonly<Record<string, IsNeutral>> = {
  padding: isOneOf(false, "do_not_pad"),
  truncation_side: never,
  mm_processor_kwargs: isEmptyObject,
};

function unknownField(name: string): MillraceError {
  return new MillraceError("unknown_field", `expected only fields this endpoint knows, got "${name}"`, {
    param: name,
    hint: "remove it, or start the server with --unknown-fields warn",
  });
}

function toFieldError(issue: z.core.$ZodIssue, root: unknown, rootPath: readonly PropertyKey[]): MillraceError {
  const path = [...rootPath, ...issue.path];
  const param = pathText(path);
  if (issue.code === "unrecognized_keys") return unknownField(pathText([...path, issue.keys[0] ?? ""]));
  const value = valueAt(root, issue.path);
  if (issue.code === "custom") return new MillraceError("invalid_parameter", `${param}: ${issue.message}`, { param });
  const message = `${param}: expected ${expectedOf(issue)}, got ${describeValue(value)}`;
  return new MillraceError("invalid_parameter", message, { param });
}

/** Keeps known fields; reports or refuses others. */
function selectFields<Shape extends z.ZodRawShape>(
  c: Asker,
  context: PromptContext,
  rules: FieldRules<Shape>,
  body: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const selected: Record<string, unknown> = {};
  const renamed: (readonly [alias: string, name: string, value: unknown])[] = [];
  const shape: object = rules.schema.shape;
  for (const [name, value] of Object.entries(body)) {
    if (Object.hasOwn(shape, name)) {
      if (value !== null) selected[name] = value;
      continue;
    }
    if (rules.inert.has(name) || value === null) continue;
    if (Object.hasOwn(rules.aliases ?? {}, name)) {
      for (const field of rules.aliases![name]!(value)) renamed.push([name, ...field]);
      continue;
    }
    const isNeutral = Object.hasOwn(rules.unsupported, name) ? rules.unsupported[name] : undefined;
    if (isNeutral === undefined) {
      if (rules.ignoresUnknown === true) continue;
      if (context.unknownFields === "error") throw unknownField(shorten(name));
      const fields = { requestId: c.get("requestId"), code: "unknown_field" };
      context.logger.warn(fields, "ignored an unknown field");
      context.logger.debug({ ...fields, param: shorten(name) }, "the unknown field");
    } else if (!isNeutral(value, body)) {
      throw new MillraceError("unsupported_field", `expected no "${name}", got ${describeValue(value)}`, {
        param: name,
        hint: "this server does not support it",
      });
    }
  }
  for (const [alias, name, value] of renamed) selected[name] = joined(alias, name, selected[name], value);
  return selected;
}

/** The members of two objects. Throws invalid_parameter if the fields contradict each other. */
function joined(alias: string, name: string, given: unknown, value: unknown): unknown {
  // Clients for several versions of vLLM send the same grammar under each version's name.
  if (given === undefined || isDeepStrictEqual(given, value)) return value;
  const agrees = ([key, member]: [string, unknown], of: object) =>
    !Object.hasOwn(of, key) || isDeepStrictEqual(valueAt(of, [key]), member);
  const isJoint =
    isPlainObject(given) && isPlainObject(value) && Object.entries(value).every((entry) => agrees(entry, given));
  if (isJoint) return { ...given, ...value };
  const message = `${alias}: expected the same as ${name}, got another value`;
  throw new MillraceError("invalid_parameter", message, { param: alias });
}

/**
 * Removes unknown nested fields at the places where the schema found them.
 * @param isDropped whether a field with this value is dropped
 */
function dropNestedUnknown(
  issues: readonly z.core.$ZodIssue[],
  root: unknown,
  isDropped: (value: unknown) => boolean,
): boolean {
  let hasDropped = false;
  for (const issue of issues) {
    const holder = valueAt(root, issue.path);
    if (issue.code === "invalid_union") {
      // Paths inside an alternative are relative to the union.
      for (const alternative of issue.errors) {
        hasDropped = dropNestedUnknown(alternative, holder, isDropped) || hasDropped;
      }
    }
    if (issue.code !== "unrecognized_keys" || typeof holder !== "object" || holder === null) continue;
    for (const key of issue.keys) {
      if (isDropped(valueAt(holder, [key]))) hasDropped = Reflect.deleteProperty(holder, key) || hasDropped;
    }
  }
  return hasDropped;
}

/** @example const request = parseFields(c, context, CHAT_RULES, await readJsonObject(c, context.limits)); */
export function parseFields<Shape extends z.ZodRawShape>(
  c: Asker,
  context: PromptContext,
  rules: FieldRules<Shape>,
  body: Readonly<Record<string, unknown>>,
): z.output<z.ZodObject<Shape, z.core.$strict>> {
  const selected = selectFields(c, context, rules, body);
  checkInPieces(c, context, rules.schema, selected);
  return parseNested(c, context, rules.schema, selected, []);
}

/** Number of list elements to check at once. */
const PIECE = 256;

/**
 * The schema reports an issue for each wrong element, so a long list is checked in pieces, up to the first piece with
 * an issue.
 */
function checkInPieces<Shape extends z.ZodRawShape>(
  c: Asker,
  context: PromptContext,
  schema: z.ZodObject<Shape, z.core.$strict>,
  selected: Readonly<Record<string, unknown>>,
): void {
  const shape = schema.shape as unknown as Readonly<Record<string, z.ZodType>>;
  for (const [name, value] of Object.entries(selected)) {
    if (!Array.isArray(value) || value.length <= PIECE) continue;
    for (let start = 0; start < value.length; start += PIECE) {
      const end = start + PIECE;
      try {
        parseNested(c, context, shape[name]!, value.slice(start, end), [name]);
      } catch {
        // Checking the list from its start gives the error the right index.
        parseNested(c, context, schema, { ...selected, [name]: value.slice(0, end) }, []);
      }
    }
  }
}

/** Checks the part of a body at `path`. */
export function parseNested<Schema extends z.ZodType>(
  c: Asker,
  context: PromptContext,
  schema: Schema,
  value: unknown,
  path: readonly PropertyKey[],
): z.output<Schema> {
  let parsed = schema.safeParse(value);
  const again = (isDropped: (value: unknown) => boolean) => {
    if (parsed.success || !dropNestedUnknown(parsed.error.issues, value, isDropped)) return false;
    parsed = schema.safeParse(value);
    return true;
  };
  // Clients send null for absent fields.
  again((field) => field === null);
  if (context.unknownFields === "warn" && again(() => true)) {
    const fields = { requestId: c.get("requestId"), code: "unknown_field" };
    context.logger.warn(fields, "ignored unknown fields inside others");
  }
  if (parsed.success) return parsed.data;
  throw toFieldError(parsed.error.issues[0]!, value, path);
}
