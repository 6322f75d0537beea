/** The keywords of JSON Schema that grammars are made of, and those that ask for nothing. Every other one is refused, never ignored. */

export type JsonType = "null" | "boolean" | "integer" | "number" | "string" | "array" | "object";

export const JSON_TYPES: readonly JsonType[] = ["null", "boolean", "integer", "number", "string", "array", "object"];

/** They say something about the schema, or to its reader. */
const ANNOTATIONS = new Set([
  ...["title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly"],
  ...["$schema", "$id", "$comment", "$defs", "definitions"],
]);

/** Keywords that speak of values of one type. */
export const TYPE_KEYWORDS: ReadonlyMap<string, JsonType> = new Map<string, JsonType>([
  ...["properties", "required", "additionalProperties"].map((name) => [name, "object"] as const),
  ...["items", "prefixItems", "minItems", "maxItems"].map((name) => [name, "array"] as const),
  ...["minLength", "maxLength", "pattern", "format"].map((name) => [name, "string"] as const),
  ...["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"].map((name) => [name, "number"] as const),
]);

const GENERAL = new Set(["type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"]);

/** Keywords that ask for nothing with this value. */
const NEUTRAL: ReadonlyMap<string, unknown> = new Map<string, unknown>([
  ["uniqueItems", false],
  ["minProperties", 0],
  ["nullable", false],
]);

export type Schema = Readonly<Record<string, unknown>>;

export function isSchema(value: unknown): value is Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The keywords that a schema is made of, without what asks for nothing. */
export function keywordsOf(schema: Schema): string[] {
  return Object.keys(schema).filter(
    (name) =>
      !ANNOTATIONS.has(name) && !name.startsWith("x-") && !(NEUTRAL.has(name) && NEUTRAL.get(name) === schema[name]),
  );
}

export function isKnownKeyword(name: string): boolean {
  return GENERAL.has(name) || TYPE_KEYWORDS.has(name);
}

export const KNOWN_KEYWORDS: readonly string[] = [...GENERAL, ...TYPE_KEYWORDS.keys()];
