/** Schemas of JSON objects, such as the arguments of a call. */
import { resolvePointer } from "./json-pointer.js";
import { isSchema, keywordsOf } from "./schema-keywords.js";

const COMBINATORS = ["anyOf", "oneOf", "allOf"] as const;

/**
 * The same schema restricted to objects; undefined if that cannot be expressed, for example for listed values.
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
  return isOfObjects(schema) ? schema : undefined;
}

function isOfObjects(root: unknown): boolean {
  const seen = new Set<string>();
  const open = [root];
  for (const schema of open) {
    if (!isSchema(schema)) return false;
    const { $ref } = schema;
    const combinator = COMBINATORS.find((name) => name in schema);
    if (typeof $ref === "string") {
      if (!seen.has($ref)) open.push(resolvePointer(root, $ref));
      seen.add($ref);
    } else if (combinator === undefined) {
      if (schema.type !== "object") return false;
    } else {
      const alternatives = schema[combinator];
      if (!Array.isArray(alternatives)) return false;
      for (const each of alternatives) open.push(each);
    }
  }
  return true;
}

const isCombinator = (name: string): boolean => COMBINATORS.some((each) => each === name);
