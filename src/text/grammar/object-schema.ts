/** Schemas of what has to be a JSON object, such as a call's arguments. */
import { resolvePointer } from "./json-pointer.js";
import { isSchema, keywordsOf } from "./schema-keywords.js";

const COMBINATORS = ["anyOf", "oneOf", "allOf"] as const;

/**
 * The same schema for objects only; undefined where it cannot be said, as with values that are listed.
 * @example heldToObjects({ properties: { a: true } }) // { properties: { a: true }, type: "object" }
 */
export function heldToObjects(schema: unknown): unknown {
  if (schema === true) return { type: "object" };
  if (!isSchema(schema)) return undefined;
  const { type } = schema;
  if (type === "object") return schema;
  if (Array.isArray(type)) return type.includes("object") ? { ...schema, type: "object" } : undefined;
  if (type !== undefined) return undefined;
  const isCombined = keywordsOf(schema).some((name) => name === "$ref" || isCombinator(name));
  if (!isCombined) return "enum" in schema || "const" in schema ? undefined : { ...schema, type: "object" };
  return isOfObjects(schema, schema, new Set()) ? schema : undefined;
}

/** @param seen references that led here */
function isOfObjects(schema: unknown, root: unknown, seen: ReadonlySet<string>): boolean {
  if (!isSchema(schema)) return false;
  const { $ref } = schema;
  if (typeof $ref === "string") {
    return !seen.has($ref) && isOfObjects(resolvePointer(root, $ref), root, new Set([...seen, $ref]));
  }
  const combinator = COMBINATORS.find((name) => name in schema);
  if (combinator === undefined) return schema.type === "object";
  const alternatives = schema[combinator];
  return Array.isArray(alternatives) && alternatives.every((each) => isOfObjects(each, root, seen));
}

const isCombinator = (name: string): boolean => COMBINATORS.some((each) => each === name);
