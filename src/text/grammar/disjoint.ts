/** Whether alternatives exclude each other for certain, so that any of them is exactly one of them. */
import { JSON_TYPES, type JsonType, type Schema } from "./schema-keywords.js";

type Resolve = (pointer: string) => unknown;

/** More of them together make a grammar too long to compile. */
const MAX_CONSTANTS = 1 << 16;

/** A schema, and the values that it lists as JSON texts; undefined where it lists none. */
interface Alternative {
  readonly schema: Schema;
  readonly constants: ReadonlySet<string> | undefined;
}

export function areExclusive(schemas: readonly unknown[], resolve: Resolve): boolean {
  const alternatives = schemas.flatMap((each): Alternative[] => {
    const schema = follow(each, resolve);
    return schema === undefined ? [] : [{ schema, constants: constantsOf(schema) }];
  });
  const numConstants = alternatives.reduce((sum, { constants }) => sum + (constants?.size ?? 0), 0);
  if (alternatives.length < schemas.length || numConstants > MAX_CONSTANTS) return false;
  return alternatives.every((a, i) => alternatives.slice(i + 1).every((b) => exclude(a, b, resolve)));
}

function follow(schema: unknown, resolve: Resolve): Schema | undefined {
  let target = schema;
  for (let hops = 0; hops < 8; hops++) {
    if (typeof target !== "object" || target === null) return undefined;
    const { $ref } = target as Schema;
    if (typeof $ref !== "string") return target as Schema;
    target = resolve($ref);
  }
  return undefined;
}

function exclude(
  { schema: a, constants: valuesA }: Alternative,
  { schema: b, constants: valuesB }: Alternative,
  resolve: Resolve,
): boolean {
  if (valuesA !== undefined && valuesB !== undefined) return haveNoneInCommon(valuesA, valuesB);
  const [typesA, typesB] = [typesOf(a), typesOf(b)];
  if (typesA !== undefined && typesB !== undefined && !typesA.some((type) => typesB.includes(type))) return true;
  return isObjectOnly(typesA) && isObjectOnly(typesB) && hasDiscriminator(a, b, resolve);
}

function constantsOf(schema: Schema): ReadonlySet<string> | undefined {
  const values = schema.const !== undefined ? [schema.const] : schema.enum;
  // Equal objects may be written in more than one way.
  if (!Array.isArray(values) || values.some((value) => typeof value === "object" && value !== null)) return undefined;
  return new Set(values.map((value) => JSON.stringify(value)));
}

/** A number may be an integer, so both count as numbers. */
function typesOf(schema: Schema): readonly JsonType[] | undefined {
  const { type } = schema;
  const types = Array.isArray(type) ? type : typeof type === "string" ? [type] : impliedTypes(schema);
  return types?.map((each) => (each === "integer" ? "number" : (each as JsonType)));
}

function impliedTypes(schema: Schema): readonly JsonType[] | undefined {
  const values = schema.const !== undefined ? [schema.const] : Array.isArray(schema.enum) ? schema.enum : undefined;
  return values?.map((value) => JSON_TYPES.find((type) => type === jsonTypeOf(value))!);
}

function jsonTypeOf(value: unknown): string {
  return value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
}

const isObjectOnly = (types: readonly JsonType[] | undefined): boolean =>
  types?.every((type) => type === "object") ?? false;

/** A property that both require and that has different constants in each. */
function hasDiscriminator(a: Schema, b: Schema, resolve: Resolve): boolean {
  const [requiredA, requiredB] = [namesOf(a.required), namesOf(b.required)];
  return requiredA.some((name) => {
    if (!requiredB.includes(name)) return false;
    const [inA, inB] = [a, b].map(({ properties }) => follow((properties as Schema | undefined)?.[name], resolve));
    const [valuesA, valuesB] = [inA && constantsOf(inA), inB && constantsOf(inB)];
    return valuesA !== undefined && valuesB !== undefined && haveNoneInCommon(valuesA, valuesB);
  });
}

const haveNoneInCommon = (a: ReadonlySet<string>, b: ReadonlySet<string>): boolean =>
  [...a].every((value) => !b.has(value));

const namesOf = (required: unknown): readonly string[] => (Array.isArray(required) ? required : []);
