/**
 * The keywords of JSON Schema that a grammar enforces, those without effect on values, and those that are accepted but
 * not enforced.
 */
import { isPlainObject } from "../../core/is-plain-object.js";

export type JsonType = "null" | "boolean" | "integer" | "number" | "string" | "array" | "object";

export const JSON_TYPES: readonly JsonType[] = ["null", "boolean", "integer", "number", "string", "array", "object"];

/** Keywords that describe the schema or inform its reader. */
const ANNOTATIONS = new Set([
  "title",
  "description",
  "default",
  "examples",
  "example",
  "deprecated",
  "readOnly",
  "writeOnly",
  "$schema",
  "$id",
  "$comment",
  "$anchor",
  "$vocabulary",
  "$defs",
  "definitions",
  "id",
  "contentEncoding",
  "contentMediaType",
  "contentSchema",
  "discriminator",
  "xml",
  "externalDocs",
  "additionalItems",
]);

/** Keywords that constrain values of one type. */
export const TYPE_KEYWORDS: ReadonlyMap<string, JsonType> = new Map<string, JsonType>([
  ...["properties", "required", "additionalProperties", "patternProperties", "propertyNames"].map(objectKeyword),
  ...["minProperties", "maxProperties", "unevaluatedProperties"].map(objectKeyword),
  ...["items", "prefixItems", "minItems", "maxItems", "uniqueItems", "unevaluatedItems"].map(arrayKeyword),
  ...["minLength", "maxLength", "pattern", "format"].map((name) => [name, "string"] as const),
  ...["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"].map(numberKeyword),
]);

function objectKeyword(name: string): readonly [string, JsonType] {
  return [name, "object"];
}

function arrayKeyword(name: string): readonly [string, JsonType] {
  return [name, "array"];
}

function numberKeyword(name: string): readonly [string, JsonType] {
  return [name, "number"];
}

/** Keywords that combine schemas. */
const GENERAL = new Set([
  "type",
  "enum",
  "const",
  "anyOf",
  "oneOf",
  "allOf",
  "not",
  "$ref",
  "dependentRequired",
  "dependentSchemas",
]);

/**
 * Keywords of JSON Schema that a grammar enforces only partly or not at all. Such a schema is accepted, and the answer
 * names these keywords. A keyword unknown to JSON Schema has no effect but may be a misspelling, so the answer names
 * it, too.
 */
export const UNENFORCED: ReadonlyMap<string, string> = new Map([
  ["uniqueItems", "kept where `items` lists at most 500 values (`enum`, `const`, boolean); else equal items may come"],
  ["minProperties", "from 2 on, names may come twice in objects that have additional properties; else kept"],
  ["not", "kept where it is `{}` or `true` (no value), or no more than `required`; else not looked at"],
  [
    "oneOf",
    "kept where types, constants or a required property with constants tell its alternatives apart; else as `anyOf`",
  ],
  ["contains", "not looked at, nor are `minContains` and `maxContains`"],
  ["minContains", "see `contains`"],
  ["maxContains", "see `contains`"],
  ["if", "not looked at, nor are `then` and `else`"],
  ["then", "see `if`"],
  ["else", "see `if`"],
]);

/** Keywords that have no effect with this value. */
const NEUTRAL: ReadonlyMap<string, unknown> = new Map<string, unknown>([
  ["uniqueItems", false],
  ["minProperties", 0],
  ["nullable", false],
  ["unevaluatedProperties", true],
  ["unevaluatedItems", true],
]);

export type Schema = Readonly<Record<string, unknown>>;

export function isSchema(value: unknown): value is Schema {
  return isPlainObject(value);
}

/** The keywords of a schema that constrain its values. */
export function keywordsOf(schema: Schema): string[] {
  return Object.keys(schema).filter(
    (name) => isKnownKeyword(name) && !(NEUTRAL.has(name) && NEUTRAL.get(name) === schema[name]),
  );
}

/** Whether neither JSON Schema nor this server knows the keyword. */
export function isUnknownKeyword(name: string): boolean {
  return !isKnownKeyword(name) && !ANNOTATIONS.has(name) && !UNENFORCED.has(name) && !name.startsWith("x-");
}

function isKnownKeyword(name: string): boolean {
  return GENERAL.has(name) || TYPE_KEYWORDS.has(name);
}

export function isOfType(value: unknown, type: JsonType): boolean {
  if (type === "integer") return Number.isInteger(value);
  if (type === "null") return value === null;
  if (type === "array") return Array.isArray(value);
  if (type === "object") return isSchema(value);
  return typeof value === type;
}
