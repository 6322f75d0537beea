/** Whether alternatives exclude each other for certain, so that any of them is exactly one of them. */
import { JSON_TYPES, type JsonType, type Schema } from "./schema-keywords.js";

type Resolve = (pointer: string) => unknown;

export function areExclusive(schemas: readonly unknown[], resolve: Resolve): boolean {
  return schemas.every((a, i) =>
    schemas.slice(i + 1).every((b) => exclude(follow(a, resolve), follow(b, resolve), resolve)),
  );
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

function exclude(a: Schema | undefined, b: Schema | undefined, resolve: Resolve): boolean {
  if (a === undefined || b === undefined) return false;
  const [valuesA, valuesB] = [constantsOf(a), constantsOf(b)];
  if (valuesA !== undefined && valuesB !== undefined) return !valuesA.some((value) => valuesB.includes(value));
  const [typesA, typesB] = [typesOf(a), typesOf(b)];
  if (typesA !== undefined && typesB !== undefined && !typesA.some((type) => typesB.includes(type))) return true;
  return isObjectOnly(typesA) && isObjectOnly(typesB) && hasDiscriminator(a, b, resolve);
}

/** As JSON texts. */
function constantsOf(schema: Schema): readonly string[] | undefined {
  const values = schema.const !== undefined ? [schema.const] : schema.enum;
  // Equal objects may be written in more than one way.
  if (!Array.isArray(values) || values.some((value) => typeof value === "object" && value !== null)) return undefined;
  return values.map((value) => JSON.stringify(value));
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
    return valuesA !== undefined && valuesB !== undefined && !valuesA.some((value) => valuesB.includes(value));
  });
}

const namesOf = (required: unknown): readonly string[] => (Array.isArray(required) ? required : []);
