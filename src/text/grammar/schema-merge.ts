/** Merges schemas that must all hold into one schema, because their grammars cannot be intersected. */
import { isSchema, JSON_TYPES, type JsonType, type Schema } from "./schema-keywords.js";

/** Several values of one keyword that must all hold. A class marks them, because no JSON value is an instance of it. */
class All {
  constructor(readonly values: readonly unknown[]) {}
}

/** @example valuesOf(new All(["^a", "b$"])) // ["^a", "b$"] */
export function valuesOf(value: unknown): readonly unknown[] {
  return value instanceof All ? value.values : value === undefined ? [] : [value];
}

const LOWER_BOUNDS = ["minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"];
const UPPER_BOUNDS = ["maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"];
const COLLECTED = ["pattern", "format", "multipleOf", "propertyNames", "not", "anyOf", "oneOf"];
const OBJECT_PARTS = ["properties", "patternProperties", "additionalProperties"];
const ARRAY_PARTS = ["prefixItems", "items"];

/** Whether a property's name matches a pattern. */
export type Matches = (pattern: string, name: string) => boolean;

/**
 * The conjunction of both schemas; false: no value satisfies both. Malformed keywords stay malformed and are refused
 * later.
 */
export function merged(a: Schema, b: Schema, matches: Matches): Schema | false {
  const together: Record<string, unknown> = { ...a };
  for (const [name, value] of Object.entries(b)) {
    if (OBJECT_PARTS.includes(name) || ARRAY_PARTS.includes(name)) continue;
    together[name] = Object.hasOwn(a, name) ? both(name, a[name], value) : value;
  }
  if (OBJECT_PARTS.some((name) => name in a) && OBJECT_PARTS.some((name) => name in b))
    mergeObjects(together, a, b, matches);
  else for (const name of OBJECT_PARTS) if (name in b) together[name] = b[name];
  if (ARRAY_PARTS.some((name) => name in a) && ARRAY_PARTS.some((name) => name in b)) mergeArrays(together, a, b);
  else for (const name of ARRAY_PARTS) if (name in b) together[name] = b[name];
  const isEmpty = [together.type, together.enum].some((list) => Array.isArray(list) && list.length === 0);
  return isEmpty ? false : together;
}

function both(name: string, a: unknown, b: unknown): unknown {
  if (LOWER_BOUNDS.includes(name) && typeof a === "number" && typeof b === "number") return Math.max(a, b);
  if (UPPER_BOUNDS.includes(name) && typeof a === "number" && typeof b === "number") return Math.min(a, b);
  if (COLLECTED.includes(name)) return new All([...new Set([...valuesOf(a), ...valuesOf(b)])]);
  if (name === "type") return commonTypes(a, b);
  if (name === "required" && Array.isArray(a) && Array.isArray(b)) return [...new Set<unknown>([...a, ...b])];
  if (name === "uniqueItems") return a === true || b === true;
  if (name === "enum" && Array.isArray(a) && Array.isArray(b)) {
    const texts = new Set(b.map(canonicalText));
    return a.filter((value) => texts.has(canonicalText(value)));
  }
  return b;
}

/** A text that is equal for equal values, whatever the order of their properties. */
export function canonicalText(value: unknown): string {
  if (!isSchema(value)) {
    return Array.isArray(value) ? `[${value.map(canonicalText).join(",")}]` : JSON.stringify(value);
  }
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonicalText(value[name])}`).join(",")}}`;
}

function commonTypes(a: unknown, b: unknown): readonly JsonType[] {
  const [first, second] = [a, b].map(typesOf) as [Set<JsonType>, Set<JsonType>];
  return JSON_TYPES.filter((type) => {
    if (type !== "integer") return first.has(type) && second.has(type);
    const isInteger = [first, second].map((types) => types.has("integer") || types.has("number"));
    const isNumber = [first, second].every((types) => types.has("number"));
    return isInteger.every(Boolean) && !isNumber;
  });
}

const typesOf = (type: unknown): Set<JsonType> => new Set((Array.isArray(type) ? type : [type]) as JsonType[]);

/** The conjunction of schemas; `undefined` allows any value. */
export function allOf(...schemas: readonly unknown[]): unknown {
  const asking = schemas.filter((schema) => schema !== true && schema !== undefined);
  if (asking.includes(false)) return false;
  return asking.length <= 1 ? (asking[0] ?? true) : { allOf: asking };
}

const partsOf = (value: unknown): Schema => (isSchema(value) ? value : {});

/** Merges object keywords: a property that only one schema declares is an additional property of the other. */
function mergeObjects(together: Record<string, unknown>, a: Schema, b: Schema, matches: Matches): void {
  const names = new Set([...Object.keys(partsOf(a.properties)), ...Object.keys(partsOf(b.properties))]);
  const properties = [...names].map(
    (name) => [name, allOf(underName(a, name, matches), underName(b, name, matches))] as const,
  );
  together.properties = Object.fromEntries(properties);
  const [first, second] = [partsOf(a.patternProperties), partsOf(b.patternProperties)];
  const patterns = new Set([...Object.keys(first), ...Object.keys(second)]);
  if (patterns.size > 0) {
    together.patternProperties = Object.fromEntries(
      [...patterns].map((pattern) => [
        pattern,
        allOf(underPattern(a, first, pattern), underPattern(b, second, pattern)),
      ]),
    );
  }
  const additional = [a, b].filter((each) => each.additionalProperties !== undefined);
  if (additional.length > 0)
    together.additionalProperties = allOf(...additional.map((each) => each.additionalProperties));
}

/** The schema that applies to a property name, including its matching patterns. */
function underName(schema: Schema, name: string, matches: Matches): unknown {
  const { properties, patternProperties, additionalProperties } = schema;
  const own = partsOf(properties);
  if (Object.hasOwn(own, name)) return own[name];
  const isOfPattern = Object.keys(partsOf(patternProperties)).some((pattern) => matches(pattern, name));
  return isOfPattern ? true : additionalProperties;
}

/**
 * The schema that applies to names under a pattern; without patterns of its own, a schema applies its additional
 * properties.
 */
function underPattern({ additionalProperties }: Schema, patterns: Schema, pattern: string): unknown {
  if (Object.hasOwn(patterns, pattern)) return patterns[pattern];
  return Object.keys(patterns).length === 0 ? additionalProperties : true;
}

function mergeArrays(together: Record<string, unknown>, a: Schema, b: Schema): void {
  const [first, second] = [a, b].map(({ prefixItems }) => (Array.isArray(prefixItems) ? prefixItems : []));
  const length = Math.max(first!.length, second!.length);
  const at = (prefix: readonly unknown[], rest: unknown, i: number) => (i < prefix.length ? prefix[i] : rest);
  together.prefixItems = Array.from({ length }, (_, i) => allOf(at(first!, a.items, i), at(second!, b.items, i)));
  if (length === 0) delete together.prefixItems;
  const items = [a.items, b.items].filter((each) => each !== undefined);
  if (items.length > 0) together.items = allOf(...items);
}
