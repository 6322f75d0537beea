/**
 * Values of parameters that models write one after another as text: by the schema some are strings, the others JSON.
 */
import { isPlainObject } from "../../core/is-plain-object.js";
import { resolvePointer } from "../grammar/json-pointer.js";
import { isJson, jsonOfPython } from "./python-literal.js";

/** JSON's types; "number" includes integers. */
export type ValueType = "string" | "number" | "boolean" | "null" | "array" | "object";

/** Most schemas that are examined for one parameter, because a client's schema may refer to itself. */
const MAX_SCHEMAS = 64;

/** The schema of a parameter; undefined if the function's schema lacks it. */
export function schemaOfParameter(parameters: unknown, name: string): unknown {
  if (!isPlainObject(parameters)) return undefined;
  const { properties, additionalProperties } = parameters;
  if (isPlainObject(properties) && Object.hasOwn(properties, name)) return properties[name];
  return isPlainObject(additionalProperties) ? additionalProperties : undefined;
}

/** The schemas of a function's parameters by their names; undefined: the function accepts further names. */
export function namedParameters(parameters: unknown): Readonly<Record<string, unknown>> | undefined {
  if (!isPlainObject(parameters)) return undefined;
  const { properties, additionalProperties } = parameters;
  return isPlainObject(properties) && !isPlainObject(additionalProperties) ? properties : undefined;
}

/**
 * The schema, and all alternatives and references within it, at any depth.
 * @param root the schema to which references point
 */
export function schemasWithin(root: unknown, schema: unknown): readonly Readonly<Record<string, unknown>>[] {
  const seen = new Set<unknown>([schema]);
  for (const each of seen) {
    if (!isPlainObject(each) || seen.size > MAX_SCHEMAS) continue;
    if (typeof each.$ref === "string") seen.add(resolvePointer(root, each.$ref));
    for (const list of [each.anyOf, each.oneOf, each.allOf]) {
      if (Array.isArray(list)) for (const inner of list.slice(0, MAX_SCHEMAS)) seen.add(inner);
    }
  }
  return [...seen].filter(isPlainObject);
}

/** The types that the schema states for a parameter; undefined: it states none. */
export function typesOfSchema(root: unknown, schema: unknown): ReadonlySet<ValueType> | undefined {
  const types = new Set<ValueType>();
  for (const each of schemasWithin(root, schema)) {
    for (const type of [each.type].flat()) if (typeof type === "string") types.add(typeNamed(type));
    const listed = Array.isArray(each.enum) ? each.enum : Object.hasOwn(each, "const") ? [each.const] : [];
    if (each.type === undefined) for (const value of listed) types.add(typeOf(value));
  }
  return types.size === 0 ? undefined : types;
}

const typeNamed = (name: string): ValueType => (name === "integer" ? "number" : (name as ValueType));

function typeOf(value: unknown): ValueType {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : (typeof value as ValueType);
}

/** The type of a JSON text, by its first character. */
function typeOfJson(json: string): ValueType {
  const byFirst: Readonly<Record<string, ValueType>> = {
    '"': "string",
    "{": "object",
    "[": "array",
    t: "boolean",
    f: "boolean",
    n: "null",
  };
  return byFirst[json[0]!] ?? "number";
}

/** Whether every value of these types is text, which models write verbatim. */
export const isText = (types: ReadonlySet<ValueType> | undefined): boolean =>
  types !== undefined && types.size === 1 && types.has("string");

/**
 * The JSON of a value that the model wrote as text: a JSON value or Python literal, else a string. Where the schema
 * permits strings, quoted strings and tuples stay text, and another literal counts only if the schema states its type
 * or no type at all.
 */
export function jsonOfText(text: string, types: ReadonlySet<ValueType> | undefined): string {
  const asText = JSON.stringify(text);
  if (isText(types)) return asText;
  const trimmed = text.trim();
  const json = isJson(trimmed) ? trimmed : jsonOfPython(trimmed);
  if (json === undefined) return asText;
  if (types?.has("string") === false) return json;
  const type = typeOfJson(json);
  return type === "string" || trimmed.startsWith("(") || types?.has(type) === false ? asText : json;
}
