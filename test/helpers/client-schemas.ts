/**
 * JSON schemas as clients' libraries write them: zod's of every type and check it has, pydantic's, and those of
 * OpenAI's strict mode.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";

export interface ClientSchema {
  readonly name: string;
  readonly schema: Readonly<Record<string, unknown>>;
  /** A value that is under it. */
  readonly example: unknown;
  /** In OpenAPI's words, for which there is no validator here. */
  readonly isOpenApi: boolean;
  /** What the library itself says of a value; absent where only the schema does. */
  readonly isValid?: (value: unknown) => boolean;
}

const UUID = "12345678-1234-4234-8234-123456789abc";
const V7 = "12345678-1234-7234-8234-123456789abc";
const colour = z.enum(["red", "blue"]);

const TREE = z.object({
  value: z.string(),
  get next() {
    return TREE.optional();
  },
});

const cat = z.object({ kind: z.literal("cat"), lives: z.int().min(1).max(9) });
const dog = z.object({ kind: z.literal("dog"), name: z.string() });

/** By name: the type and a value of it. */
const ZOD: Readonly<Record<string, readonly [z.ZodType, unknown]>> = {
  email: [z.email(), "ann.b@example.org"],
  "email of few characters": [z.email().max(20), "ann@example.org"],
  uuid: [z.uuid(), UUID],
  "uuid of version 4": [z.uuidv4(), UUID],
  "uuid of version 7": [z.uuidv7(), V7],
  guid: [z.guid(), UUID],
  url: [z.url(), "https://example.org/a?b=c"],
  emoji: [z.emoji(), "😀"],
  nanoid: [z.nanoid(), "V1StGXR8_Z5jdHi6B-myT"],
  cuid: [z.cuid(), "cjld2cjxh0000qzrmn831i7rn"],
  cuid2: [z.cuid2(), "tz4a98xxat96iws9zmbrgj3a"],
  ulid: [z.ulid(), "01ARZ3NDEKTSV4RRFFQ69G5FAV"],
  xid: [z.xid(), "9m4e2mr0ui3e8a215n4g"],
  ksuid: [z.ksuid(), "0ujtsYcgvSTl8PAuAdqWYSMnLOv"],
  ipv4: [z.ipv4(), "10.0.0.255"],
  ipv6: [z.ipv6(), "2001:db8:1:2:3:4:5:6"],
  mac: [z.mac(), "00:1A:2B:3C:4D:5E"],
  "IPv4 range": [z.cidrv4(), "10.0.0.0/8"],
  "IPv6 range": [z.cidrv6(), "2001:db8::/32"],
  base64: [z.base64(), "YWJj"],
  base64url: [z.base64url(), "YWJj"],
  "telephone number": [z.e164(), "+15551234567"],
  hex: [z.hex(), "00ff"],
  hash: [z.hash("sha256"), "0".repeat(64)],
  date: [z.iso.date(), "2024-02-28"],
  time: [z.iso.time(), "12:30:15"],
  "date and time": [z.iso.datetime(), "2024-02-28T12:30:15Z"],
  "date, time and offset": [z.iso.datetime({ offset: true }), "2024-02-28T12:30:15+02:00"],
  "local date and time": [z.iso.datetime({ local: true }), "2024-02-28T12:30:15"],
  "date and exact time": [z.iso.datetime({ precision: 3 }), "2024-02-28T12:30:15.123Z"],
  duration: [z.iso.duration(), "P3D"],
  "patterns together": [z.string().regex(/a/).regex(/b$/).max(6), "cab"],
  "beginning, end and middle": [z.string().startsWith("ab").endsWith("yz").includes("m"), "abmyz"],
  "lower case": [z.string().lowercase().min(2), "ab c"],
  "upper case": [z.string().uppercase().max(12), "AB C"],
  "pattern and lengths": [
    z
      .string()
      .regex(/^[a-z]+(-[a-z]+)*$/)
      .min(3)
      .max(30),
    "ab-cd",
  ],
  "length alone": [z.string().length(5), "hallo"],
  template: [z.templateLiteral(["a", z.number(), "b", colour]), "a-1.5bred"],
  number: [z.number(), -1.5],
  integer: [z.int(), 42],
  "32 bits": [z.int32(), -7],
  "32 bits without sign": [z.uint32(), 7],
  "short float": [z.float32(), 0.25],
  "long float": [z.float64(), 0.25],
  positive: [z.number().positive(), 0.5],
  "not negative": [z.number().nonnegative(), 0],
  "multiple of five": [z.number().multipleOf(5), -15],
  cents: [z.number().multipleOf(0.01), 12.34],
  quarters: [z.number().multipleOf(0.25).min(-2).max(2), -1.75],
  "multiple within bounds": [z.int().multipleOf(3).min(5).max(100), 99],
  "multiple of two numbers": [z.int().multipleOf(4).multipleOf(6), 24],
  "large multiple": [z.int().multipleOf(4096), 8192],
  boolean: [z.boolean(), true],
  null: [z.null(), null],
  any: [z.any(), { a: [1] }],
  unknown: [z.unknown(), "x"],
  literal: [z.literal("a"), "a"],
  literals: [z.literal(["a", 1, null, true]), 1],
  enum: [colour, "blue"],
  object: [z.object({ a: z.string(), b: z.number().optional() }), { a: "x" }],
  "strict object": [z.strictObject({ a: z.string() }), { a: "x" }],
  "loose object": [z.looseObject({ a: z.string() }), { a: "x", other: 1 }],
  "object with a catch-all": [z.object({ a: z.string() }).catchall(z.int()), { a: "x", b: 1 }],
  "partial object": [z.object({ a: z.string(), b: z.int() }).partial(), { b: 1 }],
  "property that never is": [z.object({ a: z.int(), b: z.never().optional() }), { a: 1 }],
  record: [z.record(z.string(), z.int()), { a: 1 }],
  "record of all": [z.record(colour, z.int()), { red: 1, blue: 2 }],
  "record of some": [z.partialRecord(colour, z.int()), { blue: 2 }],
  "record under a pattern": [z.record(z.string().regex(/^x\d/), z.int()), { x1: 1 }],
  "record by address": [z.record(z.email(), z.int()), { "a@example.org": 1 }],
  "record by number": [z.record(z.number(), z.string()), { 1.5: "x" }],
  "record by length": [z.record(z.string().min(2).max(5), z.int()), { abc: 1 }],
  "loose record": [z.looseRecord(z.string().regex(/^x/), z.int()), { x: 1 }],
  list: [z.array(z.string()).min(1).max(3), ["a"]],
  tuple: [z.tuple([z.string(), z.int()]), ["a", 1]],
  "tuple with more": [z.tuple([z.string()], z.int()), ["a", 1, 2]],
  "tuple with less": [z.tuple([z.string(), z.int().optional()]), ["a"]],
  union: [z.union([z.string(), z.int(), z.array(z.boolean())]), [true]],
  "one of two": [z.xor([z.string(), z.int()]), "a"],
  "tagged union": [z.discriminatedUnion("kind", [cat, dog]), { kind: "dog", name: "Rex" }],
  intersection: [z.intersection(z.object({ a: z.string() }), z.object({ b: z.int() })), { a: "x", b: 1 }],
  "intersection with a union": [
    z.intersection(z.union([z.object({ a: z.string() }), z.object({ c: z.string() })]), z.object({ b: z.int() })),
    { b: 1, c: "x" },
  ],
  "intersection of strings": [z.intersection(z.string().min(2), z.string().max(5)), "abc"],
  "optional and nullable": [
    z.object({ a: z.string().optional(), b: z.string().default("x"), c: z.string().nullable(), d: z.int().nullish() }),
    { b: "x", c: null },
  ],
  json: [z.json(), { a: [1, null, "x"] }],
  tree: [TREE, { value: "a", next: { value: "b" } }],
  described: [
    z
      .string()
      .describe("words")
      .meta({ title: "T", examples: ["a"], unit: "m" }),
    "a",
  ],
  "referred to": [z.object({ a: z.string().meta({ id: "shared" }), b: z.int() }), { a: "x", b: 1 }],
  nested: [z.object({ list: z.array(z.object({ mail: z.email(), at: z.iso.datetime() })) }), { list: [] }],
};

export function zodSchemas(): readonly ClientSchema[] {
  return Object.entries(ZOD).flatMap(([name, [type, example]]) =>
    (["draft-2020-12", "draft-7", "openapi-3.0"] as const).map((target) => ({
      name: `${name} (${target})`,
      schema: z.toJSONSchema(type, { target }),
      example,
      isOpenApi: target === "openapi-3.0",
      isValid: (value: unknown) => type.safeParse(value).success,
    })),
  );
}

interface PydanticEntry {
  readonly name: string;
  readonly schema: ClientSchema["schema"];
  readonly output?: ClientSchema["schema"];
  readonly strict?: ClientSchema["schema"];
  readonly example: unknown;
}

export function pydanticSchemas(): readonly ClientSchema[] {
  const path = join(import.meta.dirname, "../fixtures/pydantic-schemas.json");
  const entries = JSON.parse(readFileSync(path, "utf8")) as readonly PydanticEntry[];
  return entries.flatMap(({ name, schema, output, strict, example }) => [
    { name, schema, example, isOpenApi: false },
    ...(output === undefined ? [] : [{ name: `${name} (output)`, schema: output, example, isOpenApi: false }]),
    ...(strict === undefined ? [] : [{ name: `${name} (strict)`, schema: strict, example, isOpenApi: false }]),
  ]);
}
