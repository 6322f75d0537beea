/**
 * Uses the published JSON Schema to describe a key's possible values, and to find the key that a misspelt one means.
 */
import { z } from "zod";
import { configSchema } from "./schema.js";

export type KeyPath = readonly (string | number)[];

/** The parts of JSON Schema that our own schema uses. */
export interface JsonSchema {
  readonly type?: string;
  readonly title?: string;
  readonly description?: string;
  readonly examples?: readonly unknown[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly items?: JsonSchema;
  readonly additionalProperties?: JsonSchema | boolean;
  readonly anyOf?: readonly JsonSchema[];
  /** The value is a secret. */
  readonly writeOnly?: boolean;
}

let published: JsonSchema | undefined;

/** The schema as editors read it: the form of the file, before defaults and environment variables are filled in. */
export function configJsonSchema(): JsonSchema {
  published ??= z.toJSONSchema(configSchema({}), { io: "input" }) as JsonSchema;
  return published;
}

function child(schema: JsonSchema, key: string | number): JsonSchema | undefined {
  const { properties = {}, additionalProperties, items, anyOf = [] } = schema;
  if (typeof key === "number" && items !== undefined) return items;
  if (Object.hasOwn(properties, key)) return properties[key];
  if (typeof additionalProperties === "object") return additionalProperties;
  return anyOf.map((each) => child(each, key)).find((each) => each !== undefined);
}

export function schemaAt(path: KeyPath): JsonSchema | undefined {
  return path.reduce<JsonSchema | undefined>(
    (schema, key) => (schema === undefined ? undefined : child(schema, key)),
    configJsonSchema(),
  );
}

function kindOf({ title, type, enum: choices, const: only, minimum, maximum, anyOf }: JsonSchema): string {
  if (title !== undefined) return title;
  if (choices !== undefined) return `one of ${choices.join(", ")}`;
  if (only !== undefined) return String(only);
  if (anyOf !== undefined) return anyOf.map(kindOf).join(" or ");
  if (type === "integer" || type === "number") {
    return `${type === "integer" ? "an integer" : "a number"} in [${minimum}, ${maximum}]`;
  }
  const byType: Readonly<Record<string, string>> = { array: "a list", object: "a mapping", boolean: "true or false" };
  return byType[type ?? ""] ?? "text";
}

/** @example expectedAt(["timeouts", "idle"]) // "a duration of at most 24 days such as 250ms, 5s, 2m, 1h" */
export function expectedAt(path: KeyPath): string {
  const schema = schemaAt(path);
  if (schema === undefined) return "another value";
  const { examples } = schema;
  return examples === undefined ? kindOf(schema) : `${kindOf(schema)} such as ${examples.join(", ")}`;
}

export function keysAt(path: KeyPath): readonly string[] {
  const { properties, anyOf = [] } = schemaAt(path) ?? {};
  return Object.keys(properties ?? anyOf.find((each) => each.properties !== undefined)?.properties ?? {});
}

/** @example formatPath(["models", 0, "name"]) // "models[0].name" */
export function formatPath(path: KeyPath): string {
  const parts = path.map((key) => (typeof key === "number" ? `[${key}]` : `.${key}`));
  return parts.join("").replace(/^\./, "");
}

/**
 * Number of insertions, deletions, replacements and swaps of neighbours that turn one text into the other (optimal
 * string alignment).
 */
function editDistance(from: string, to: string): number {
  let before: number[] = [];
  let row = Array.from({ length: to.length + 1 }, (_, i) => i);
  for (let i = 0; i < from.length; i++) {
    const next = [i + 1];
    for (let j = 0; j < to.length; j++) {
      const replaced = row[j]! + (from[i] === to[j] ? 0 : 1);
      const isExchange = i > 0 && j > 0 && from[i] === to[j - 1] && from[i - 1] === to[j];
      const exchanged = isExchange ? before[j - 1]! + 1 : replaced;
      next.push(Math.min(row[j + 1]! + 1, next[j]! + 1, replaced, exchanged));
    }
    before = row;
    row = next;
  }
  return row.at(-1)!;
}

const LONGEST_KEY = 64;

/** The known key closest to the given one, which may use camelCase or underscores; undefined if none is close. */
export function nearestKey(given: string, known: readonly string[]): string | undefined {
  if (given.length > LONGEST_KEY) return undefined;
  const kebab = given
    .replace(/([a-z])([A-Z])/g, "$1-$2")
    .replaceAll("_", "-")
    .toLowerCase();
  const scored = known.map((key) => ({ key, distance: editDistance(kebab, key) }));
  const best = scored.sort((a, b) => a.distance - b.distance)[0];
  return best !== undefined && best.distance <= Math.max(1, Math.floor(best.key.length / 3)) ? best.key : undefined;
}

/** The section that has this key; undefined if none has it. */
export function sectionWith(key: string, schema = configJsonSchema(), at = ""): string | undefined {
  for (const [name, each] of Object.entries(schema.properties ?? {})) {
    const inner = each.items ?? each;
    const place = `${at === "" ? "" : `${at}.`}${name}${each.items === undefined ? "" : "[]"}`;
    if (Object.hasOwn(inner.properties ?? {}, key)) return place;
    const deeper = sectionWith(key, inner, place);
    if (deeper !== undefined) return deeper;
  }
  return undefined;
}
