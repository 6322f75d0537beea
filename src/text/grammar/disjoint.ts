/** Whether alternatives are certainly disjoint, so that a value of any alternative satisfies exactly one. */
import { JSON_TYPES, type JsonType, type Schema } from "./schema-keywords.js";

type Resolve = (pointer: string) => unknown;

/** More constants in total make a grammar too long to compile. */
const MAX_CONSTANTS = 1 << 16;

/** The converter accepts no more alternatives in one place. */
const MAX_ALTERNATIVES = 256;

/** Budget of comparisons for one walk of a schema, so that no schema holds up the serving thread. */
export interface Comparisons {
  left: number;
}

interface Alternative {
  /** The values that the schema lists, as JSON texts; undefined: it lists none. */
  readonly constants: ReadonlySet<string> | undefined;
  readonly types: readonly JsonType[] | undefined;
  /** The constants of the required properties that list values. */
  readonly discriminators: ReadonlyMap<string, ReadonlySet<string>>;
}

/** Also false once the budget of comparisons is used up. */
export function areExclusive(schemas: readonly unknown[], resolve: Resolve, comparisons: Comparisons): boolean {
  if (schemas.length > MAX_ALTERNATIVES || comparisons.left <= 0) return false;
  const alternatives = schemas.flatMap((each): Alternative[] => {
    const schema = follow(each, resolve);
    if (schema === undefined) return [];
    const discriminators = discriminatorsOf(schema, resolve);
    return [{ constants: constantsOf(schema), types: typesOf(schema), discriminators }];
  });
  const numConstants = alternatives.reduce(
    (sum, { constants, discriminators }) =>
      [...discriminators.values()].reduce((more, { size }) => more + size, sum + (constants?.size ?? 0)),
    0,
  );
  if (alternatives.length < schemas.length || numConstants > MAX_CONSTANTS) return false;
  // Reading the lists costs time as well, so each listed constant counts.
  comparisons.left -= numConstants;
  const areApart = (a: Alternative, b: Alternative): boolean => {
    comparisons.left -= 1 + (a.constants?.size ?? 0) + a.discriminators.size;
    return comparisons.left > 0 && exclude(a, b);
  };
  return alternatives.every((a, i) => alternatives.slice(i + 1).every((b) => areApart(a, b)));
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

function exclude(a: Alternative, b: Alternative): boolean {
  if (a.constants !== undefined && b.constants !== undefined) return haveNoneInCommon(a.constants, b.constants);
  if (a.types !== undefined && b.types !== undefined && !a.types.some((type) => b.types?.includes(type))) return true;
  return isObjectOnly(a.types) && isObjectOnly(b.types) && hasDiscriminator(a, b);
}

function constantsOf(schema: Schema): ReadonlySet<string> | undefined {
  const values = schema.const !== undefined ? [schema.const] : schema.enum;
  // Equal objects can have different JSON texts.
  if (!Array.isArray(values) || values.some((value) => typeof value === "object" && value !== null)) return undefined;
  return new Set(values.map((value) => JSON.stringify(value)));
}

/** A number may also be an integer, so both types count as `number`. */
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

function discriminatorsOf({ required, properties }: Schema, resolve: Resolve): Alternative["discriminators"] {
  const names = new Set<unknown>(Array.isArray(required) ? required : []);
  const found = new Map<string, ReadonlySet<string>>();
  if (typeof properties !== "object" || properties === null) return found;
  for (const [name, property] of Object.entries(properties)) {
    const schema = names.has(name) ? follow(property, resolve) : undefined;
    const constants = schema === undefined ? undefined : constantsOf(schema);
    if (constants !== undefined) found.set(name, constants);
  }
  return found;
}

/** Whether both require a property whose constants differ. */
function hasDiscriminator(a: Alternative, b: Alternative): boolean {
  for (const [name, constants] of a.discriminators) {
    const others = b.discriminators.get(name);
    if (others !== undefined && haveNoneInCommon(constants, others)) return true;
  }
  return false;
}

const haveNoneInCommon = (a: ReadonlySet<string>, b: ReadonlySet<string>): boolean =>
  [...a].every((value) => !b.has(value));
