/** Random JSON schemas of the kinds that can be kept: nested, with references, unions, bounds and constants. */
import type { TestRng } from "./rng.js";

type Schema = Readonly<Record<string, unknown>>;

const PATTERNS = [
  "^[A-Z]{2,3}-\\d{1,4}$",
  "^(yes|no|[^a-y]{2})$",
  '^["\\\\/]{1,3}$',
  "^\\w+\\s?\\S$",
  "^a|b$",
  "^.{3,20}$",
  "^[^a-m]{12,}$",
  "^é$",
];
const CONSTANTS: readonly unknown[] = [0, -3, 2.5, "", 'a"b\\c\n', "é日😀", null, true, { a: [1, { b: null }] }, []];
const NAMES = ["id", "name", "na", "tags", 'sa"y', "über", "a/b~c", ""];

/** @example const schema = randomSchema(new TestRng(1)); */
export function randomSchema(rng: TestRng): Schema {
  const node = {
    type: "object",
    properties: { value: leaf(rng), next: { $ref: "#/$defs/node" } },
    required: ["value"],
  };
  return { $defs: { node, leaf: leaf(rng) }, ...value(rng, 3) };
}

/** A function's parameters: an object whose properties may be anything. */
export function randomParameters(rng: TestRng): Schema {
  const { $defs, ...input } = randomSchema(rng);
  return { $defs, type: "object", properties: { input, flag: { type: "boolean" } }, required: ["input"] };
}

function value(rng: TestRng, depth: number): Schema {
  if (depth === 0) return leaf(rng);
  const kinds = [leaf, object, object, array, union, tagged, reference];
  return rng.pick(kinds)(rng, depth - 1);
}

function leaf(rng: TestRng): Schema {
  return rng.pick([boundedNumber, boundedString, constant, listed, nullable, plain])(rng);
}

const plain = (rng: TestRng): Schema => ({ type: rng.pick(["string", "integer", "number", "boolean", "null"]) });

const nullable = (rng: TestRng): Schema => ({ type: [rng.pick(["string", "integer", "boolean"]), "null"] });

const constant = (rng: TestRng): Schema => ({ const: rng.pick(CONSTANTS) });

function listed(rng: TestRng): Schema {
  return { enum: CONSTANTS.filter(() => rng.chance(0.4)).concat(["last"]), description: "one of these" };
}

function boundedNumber(rng: TestRng): Schema {
  const type = rng.pick(["integer", "number"]);
  const low = rng.int(-120, 120) / (type === "integer" ? 1 : rng.pick([1, 4, 10, 1000]));
  const above = low + rng.int(2, 400) / (type === "integer" ? 1 : rng.pick([1, 8, 100]));
  const high = Number(above.toFixed(4));
  return {
    type,
    ...(rng.chance(0.7) ? { [rng.pick(["minimum", "exclusiveMinimum"])]: low } : {}),
    ...(rng.chance(0.7) ? { [rng.pick(["maximum", "exclusiveMaximum"])]: high } : {}),
  };
}

function boundedString(rng: TestRng): Schema {
  if (rng.chance(0.3)) return { type: "string", pattern: rng.pick(PATTERNS) };
  const minLength = rng.pick([0, 0, 1, 3, 4, 5, 9, 17]);
  return {
    type: "string",
    ...(minLength > 0 || rng.chance(0.5) ? { minLength } : {}),
    ...(rng.chance(0.7) ? { maxLength: minLength + rng.pick([0, 1, 2, 6, 9, 25]) } : {}),
  };
}

function object(rng: TestRng, depth: number): Schema {
  const names = NAMES.filter(() => rng.chance(0.4));
  const properties = Object.fromEntries(names.map((name) => [name, value(rng, depth)]));
  const required = names.filter(() => rng.chance(0.6));
  const additional = rng.pick<Schema>([{}, { additionalProperties: false }, { additionalProperties: leaf(rng) }]);
  return { type: "object", properties, required, ...additional };
}

function array(rng: TestRng, depth: number): Schema {
  const minItems = rng.int(0, 3);
  const prefixItems = rng.chance(0.2) ? { prefixItems: [leaf(rng), leaf(rng)] } : {};
  return { type: "array", items: value(rng, depth), minItems, maxItems: minItems + rng.int(2, 3), ...prefixItems };
}

function union(rng: TestRng, depth: number): Schema {
  return { anyOf: Array.from({ length: rng.int(2, 3) }, () => value(rng, depth)) };
}

/** Alternatives that a constant tells apart. */
function tagged(rng: TestRng, depth: number): Schema {
  const alternative = (kind: string): Schema => ({
    type: "object",
    properties: { kind: { const: kind }, content: value(rng, depth) },
    required: ["kind", "content"],
  });
  return { oneOf: [alternative("one"), alternative("other"), { type: "string", maxLength: 3 }] };
}

const reference = (rng: TestRng): Schema => ({ $ref: rng.pick(["#/$defs/node", "#/$defs/leaf"]) });
