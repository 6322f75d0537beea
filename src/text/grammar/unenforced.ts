/** Finds the keywords of a schema that its grammar does not enforce, from the schema alone. */
import { areExclusive, type Comparisons } from "./disjoint.js";
import { resolvePointer } from "./json-pointer.js";
import { inCurrentWords } from "./schema-dialect.js";
import { isSchema, isUnknownKeyword, type Schema, UNENFORCED } from "./schema-keywords.js";
import { listedTexts } from "./unique-items.js";

const MAX_SCHEMAS = 5000;
/** The limit for all `oneOf` of a schema together. */
const MAX_COMPARISONS = 1_000_000;
const MAX_NAMES = 16;
const MAX_NAME_LENGTH = 40;

/** Keywords that hold a schema, a list of schemas, and schemas by name. */
const ONE = ["items", "additionalProperties", "propertyNames", "unevaluatedProperties", "unevaluatedItems"];
const LISTS = ["allOf", "anyOf", "oneOf", "prefixItems"];
const MAPS = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/** @example unenforcedKeywords({ type: "array", items: { type: "string" }, uniqueItems: true }) // ["uniqueItems"] */
export function unenforcedKeywords(root: unknown): readonly string[] {
  const found = new Set<string>();
  const comparisons: Comparisons = { left: MAX_COMPARISONS };
  const open: unknown[] = [root];
  for (const each of open) {
    if (open.length > MAX_SCHEMAS || found.size >= MAX_NAMES) break;
    if (!isSchema(each)) continue;
    const schema = inCurrentWords(each);
    for (const name of Object.keys(schema))
      if (isLeftOut(name, schema, root, comparisons)) found.add(name.slice(0, MAX_NAME_LENGTH));
    for (const name of ONE) open.push(schema[name]);
    for (const name of LISTS) if (Array.isArray(schema[name])) open.push(...schema[name].slice(0, MAX_SCHEMAS));
    for (const name of MAPS)
      if (isSchema(schema[name])) open.push(...Object.values(schema[name]).slice(0, MAX_SCHEMAS));
  }
  return [...found];
}

function isLeftOut(name: string, schema: Schema, root: unknown, comparisons: Comparisons): boolean {
  const resolve = (pointer: string) => resolvePointer(root, pointer);
  switch (name) {
    case "uniqueItems":
      return schema.uniqueItems === true && !areItemsListed(schema, root);
    case "minProperties":
      return isMoreThanNames(schema);
    case "not":
      return isLookedPast(schema.not);
    case "oneOf":
      return Array.isArray(schema.oneOf) && !areExclusive(schema.oneOf, resolve, comparisons);
    default:
      return UNENFORCED.has(name) || isUnknownKeyword(name);
  }
}

function areItemsListed({ items, prefixItems, maxItems }: Schema, root: unknown): boolean {
  if (typeof maxItems === "number" && maxItems <= 1) return true;
  let target = items;
  for (let hops = 0; hops < 8 && isSchema(target) && typeof target.$ref === "string"; hops++) {
    target = resolvePointer(root, target.$ref);
  }
  return prefixItems === undefined && isSchema(target) && listedTexts(target) !== undefined;
}

/** Whether minProperties needs more than the required names: further properties could repeat a name. */
function isMoreThanNames({ minProperties, required, additionalProperties }: Schema): boolean {
  const numRequired = Array.isArray(required) ? required.length : 0;
  return Number(minProperties) > Math.max(1, numRequired) && additionalProperties !== false;
}

function isLookedPast(not: unknown): boolean {
  if (typeof not === "boolean" || !isSchema(not)) return false;
  const names = Object.keys(not);
  return names.length > 0 && !(names.length === 1 && Array.isArray(not.required));
}
