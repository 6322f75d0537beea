/** Converts schemas of older drafts and OpenAPI to the keywords of JSON Schema 2020-12. */
import { isSchema, type Schema } from "./schema-keywords.js";

/** Returns the same object if the schema has no older keywords. */
export function inCurrentWords(schema: Schema): Schema {
  let current = schema;
  if (Array.isArray(current.items)) current = withTuple(current);
  if (current.dependencies !== undefined) current = withDependencies(current);
  for (const [exclusive, bound] of EXCLUSIVE) {
    if (typeof current[exclusive] === "boolean") current = withExclusive(current, exclusive, bound);
  }
  if (current.nullable === true) current = withNull(current);
  return current;
}

const EXCLUSIVE = [
  ["exclusiveMinimum", "minimum"],
  ["exclusiveMaximum", "maximum"],
] as const;

const COMBINING = ["$ref", "allOf", "anyOf", "oneOf"];

function without(schema: Schema, ...names: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(Object.entries(schema).filter(([name]) => !names.includes(name)));
}

/** Draft 7: `items` as a list of schemas, and `additionalItems` for the items after it. */
function withTuple(schema: Schema): Schema {
  const rest = without(schema, "items", "additionalItems");
  rest.prefixItems = schema.items;
  if (schema.additionalItems !== undefined) rest.items = schema.additionalItems;
  return rest;
}

/** Draft 7: property names or a schema that a property's presence requires. */
function withDependencies(schema: Schema): Schema {
  const { dependencies } = schema;
  const rest = without(schema, "dependencies");
  if (!isSchema(dependencies)) return rest;
  const entries = Object.entries(dependencies);
  rest.dependentRequired = Object.fromEntries(entries.filter(([, value]) => Array.isArray(value)));
  rest.dependentSchemas = Object.fromEntries(entries.filter(([, value]) => !Array.isArray(value)));
  return rest;
}

/** Draft 4 and OpenAPI 3.0: a boolean that excludes the bound itself. */
function withExclusive(schema: Schema, exclusive: string, bound: string): Schema {
  if (schema[exclusive] === false || schema[bound] === undefined) return without(schema, exclusive);
  const rest = without(schema, exclusive, bound);
  rest[exclusive] = schema[bound];
  return rest;
}

/** OpenAPI 3.0: `nullable` adds null to the type. */
function withNull(schema: Schema): Schema {
  const rest = without(schema, "nullable");
  const { type } = rest;
  const isListed = Array.isArray(rest.enum) && !rest.enum.includes(null);
  if (isListed || "const" in rest || COMBINING.some((name) => name in rest)) return { anyOf: [rest, { type: "null" }] };
  if (type !== undefined) rest.type = [...new Set([...(Array.isArray(type) ? type : [type]), "null"])];
  return rest;
}
