/** The places of millrace.yaml that hold secrets, as its schema marks them (`secret` in src/core/config-values.ts). */
import { configJsonSchema, type JsonSchema, type KeyPath } from "./key-paths.js";

interface SecretPlace {
  readonly path: KeyPath;
  /** The secret itself, or env:NAME. */
  readonly value: string;
}

/** The schema and, where values may have several forms, those of each form. */
const formsOf = (schema: JsonSchema): readonly JsonSchema[] => [schema, ...(schema.anyOf ?? []).flatMap(formsOf)];

const isSecret = (schemas: readonly JsonSchema[]): boolean => schemas.some(({ writeOnly }) => writeOnly === true);

/** The schemas of one key of a mapping, or of one item of a list. */
function schemasOf(schemas: readonly JsonSchema[], key: string | number): readonly JsonSchema[] {
  return schemas.flatMap(({ properties = {}, additionalProperties, items }) => {
    if (typeof key === "number") return items === undefined ? [] : formsOf(items);
    if (Object.hasOwn(properties, key)) return formsOf(properties[key]!);
    return typeof additionalProperties === "object" ? formsOf(additionalProperties) : [];
  });
}

/**
 * Every secret of a file that its schema accepts.
 * @example secretPlacesIn({ "admin-key": "env:KEY" }) // [{ path: ["admin-key"], value: "env:KEY" }]
 */
export function secretPlacesIn(
  value: unknown,
  schemas: readonly JsonSchema[] = formsOf(configJsonSchema()),
  path: KeyPath = [],
): readonly SecretPlace[] {
  if (typeof value === "string") return isSecret(schemas) ? [{ path, value }] : [];
  if (typeof value !== "object" || value === null) return [];
  const entries: Iterable<[string | number, unknown]> = Array.isArray(value) ? value.entries() : Object.entries(value);
  return [...entries].flatMap(([key, each]) => secretPlacesIn(each, schemasOf(schemas, key), [...path, key]));
}

function holdsSecret({ properties = {}, additionalProperties, items, anyOf = [], writeOnly }: JsonSchema): boolean {
  const inner = typeof additionalProperties === "object" ? [additionalProperties] : [];
  const parts = [...Object.values(properties), ...inner, ...(items === undefined ? [] : [items]), ...anyOf];
  return writeOnly === true || parts.some(holdsSecret);
}

/** Whether a secret's place is at the path, above it, or below it. */
export function mayHoldSecret(path: KeyPath): boolean {
  let schemas = formsOf(configJsonSchema());
  for (const key of path) {
    if (isSecret(schemas)) return true;
    schemas = schemasOf(schemas, key);
  }
  return schemas.some(holdsSecret);
}
