import { closeSync, ftruncateSync, mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { computedMs } from "../../../test/helpers/computed-ms.js";
import { type ErrorCode, MillraceError } from "../../core/errors.js";
import { readGguf } from "./read.js";
import { splitName } from "./split-names.js";
import { TENSOR_TYPES, tensorBytes } from "./tensor-types.js";
import type { TensorType } from "./types.js";
import {
  arr,
  bool,
  encodeGguf,
  encodeString,
  encodeU32,
  encodeU64,
  f32,
  f64,
  i32,
  i64,
  nested,
  str,
  u8,
  u16,
  u32,
  u64,
  type WritableGguf,
  writeGguf,
} from "./write.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-gguf-"));
afterAll(() => rmSync(folder, { recursive: true }));

let numFiles = 0;
function fileOf(bytes: Uint8Array): string {
  numFiles += 1;
  const path = join(folder, `${numFiles}.gguf`);
  writeFileSync(path, bytes);
  return path;
}

function refusal(act: () => unknown): MillraceError {
  try {
    act();
  } catch (thrown) {
    if (thrown instanceof MillraceError) return thrown;
    throw thrown;
  }
  throw new Error("expected a MillraceError, got success");
}

function expectRefused(bytes: Uint8Array, code: ErrorCode, message: RegExp): void {
  const error = refusal(() => readGguf(fileOf(bytes)));
  expect({ code: error.code, message: error.message }).toEqual({ code, message: expect.stringMatching(message) });
  expect(error.message).toMatch(/^expected .* got /s);
  expect(error.hint).toBeTruthy();
}

/** A header assembled by hand: counts may be lies. */
function rawHeader(numTensors: number | bigint, numEntries: number | bigint, ...parts: Buffer[]): Buffer {
  return Buffer.concat([Buffer.from("GGUF"), encodeU32(3), encodeU64(numTensors), encodeU64(numEntries), ...parts]);
}

function rawTensor(name: string, shape: readonly (number | bigint)[], typeId: number, offset: number | bigint): Buffer {
  const head = [encodeString(name), encodeU32(shape.length), ...shape.map(encodeU64)];
  return Buffer.concat([...head, encodeU32(typeId), encodeU64(offset)]);
}

const ARRAY_TYPE = encodeU32(9);
const STRING_TYPE = encodeU32(8);
const U8_TYPE = encodeU32(0);

const TINY: WritableGguf = {
  metadata: { "general.architecture": str("llama"), "llama.block_count": u32(2) },
  tensors: [
    { name: "a", type: "F32", shape: [3, 2], data: new Uint8Array(Float32Array.of(1, 2, 3, 4, 5, 6).buffer) },
    { name: "b", type: "Q8_0", shape: [64] },
  ],
};

describe("metadata", () => {
  const values = readGguf(
    fileOf(
      encodeGguf({
        metadata: {
          u8: u8(255),
          u16: u16(65_535),
          u32: u32(4_294_967_295),
          i32: i32(-2_147_483_648),
          u64: u64(2n ** 53n - 1n),
          hugeU64: u64(2n ** 64n - 1n),
          i64: i64(-5n),
          f32: f32(0.5),
          f64: f64(0.1),
          nan: f32(Number.NaN),
          yes: bool(true),
          no: bool(false),
          text: str("grüße 🌊"),
          empty: str(""),
          strings: arr("string", ["a", "", "Ġthe", "𝄞"]),
          floats: arr("f32", [1, -2.5]),
          integers: arr("i32", [1, -2]),
          bigs: arr("i64", [1n, -2n]),
          hugeBigs: arr("u64", [2n ** 60n]),
          flags: arr("bool", [true, false]),
          none: arr("u32", []),
          matrix: nested([arr("u8", [1, 2]), arr("string", ["x"])]),
        },
      }),
    ),
  ).metadata;

  it("reads every scalar type", () => {
    for (const [key, expected] of Object.entries({ u8: 255, u16: 65_535, u32: 4_294_967_295, i32: -2_147_483_648 })) {
      expect(values.number(key)).toBe(expected);
    }
    expect(values.number("u64")).toBe(Number.MAX_SAFE_INTEGER);
    expect(values.get("u64")).toBe(2n ** 53n - 1n);
    expect(values.number("i64")).toBe(-5);
    expect(values.number("f32")).toBe(0.5);
    expect(values.number("f64")).toBe(0.1);
    expect(values.boolean("yes")).toBe(true);
    expect(values.boolean("no")).toBe(false);
    expect(values.string("text")).toBe("grüße 🌊");
    expect(values.string("empty")).toBe("");
  });

  it("reads arrays, numbers of any type as numbers", () => {
    expect(values.strings("strings")).toEqual(["a", "", "Ġthe", "𝄞"]);
    expect(values.get("floats")).toEqual(Float32Array.of(1, -2.5));
    expect(Array.from(values.numbers("integers") ?? [])).toEqual([1, -2]);
    expect(Array.from(values.numbers("bigs") ?? [])).toEqual([1, -2]);
    expect(values.get("flags")).toEqual([true, false]);
    expect(values.numbers("none")).toHaveLength(0);
    expect(values.get("matrix")).toEqual([Uint8Array.of(1, 2), ["x"]]);
  });

  it("gives undefined for a missing key", () => {
    expect(values.has("missing")).toBe(false);
    for (const read of ["get", "number", "string", "boolean", "strings", "numbers"] as const) {
      expect(values[read]("missing")).toBeUndefined();
    }
  });

  it("refuses a key of the wrong type, naming both", () => {
    const refusals = [
      () => values.number("text"),
      () => values.number("nan"),
      () => values.number("hugeU64"),
      () => values.number("floats"),
      () => values.string("u8"),
      () => values.boolean("u8"),
      () => values.strings("flags"),
      () => values.strings("text"),
      () => values.numbers("strings"),
      () => values.numbers("hugeBigs"),
      () => values.numbers("u8"),
    ].map(refusal);
    expect(refusals.map((error) => error.code)).toEqual(refusals.map(() => "gguf_metadata"));
    expect(refusals[0]?.message).toBe('expected a finite number under metadata key "text", got the string "grüße 🌊"');
  });
});

describe("tensors", () => {
  it("gives absolute byte ranges", () => {
    const bytes = encodeGguf(TINY);
    const { tensors, shards, version } = readGguf(fileOf(bytes));
    const a = tensors.get("a");
    expect(version).toBe(3);
    expect(shards[0]?.byteLength).toBe(bytes.length);
    expect(a).toMatchObject({ type: "F32", shape: [3, 2], shard: 0, byteLength: 24 });
    expect(bytes.readFloatLE((a?.byteOffset ?? 0) + 20)).toBe(6);
    expect(tensors.get("b")).toMatchObject({ byteOffset: (a?.byteOffset ?? 0) + 32, byteLength: 68 });
  });

  it("knows every type's block", () => {
    const names = Object.keys(TENSOR_TYPES) as TensorType[];
    const file = encodeGguf({ tensors: names.map((type) => ({ name: type, type, shape: [256, 3] })) });
    const { tensors } = readGguf(fileOf(file));
    for (const type of names) expect(tensors.get(type)?.byteLength).toBe(tensorBytes(type, 768));
    // Bits per weight as llama.cpp's documentation gives them.
    const bits = names.map((type) => [type, (tensorBytes(type, 256) * 8) / 256]);
    expect(Object.fromEntries(bits)).toEqual({
      F32: 32,
      F16: 16,
      BF16: 16,
      Q4_0: 4.5,
      Q4_1: 5,
      Q5_0: 5.5,
      Q5_1: 6,
      Q8_0: 8.5,
      Q2_K: 2.625,
      Q3_K: 3.4375,
      Q4_K: 4.5,
      Q5_K: 5.5,
      Q6_K: 6.5625,
      IQ4_NL: 4.5,
      IQ4_XS: 4.25,
      MXFP4: 4.25,
      NVFP4: 4.5,
      IQ2_XXS: 2.0625,
      IQ2_XS: 2.3125,
      IQ2_S: 2.5625,
      IQ3_XXS: 3.0625,
      IQ3_S: 3.4375,
      IQ1_S: 1.5625,
      IQ1_M: 1.75,
      TQ1_0: 1.6875,
      TQ2_0: 2.0625,
    });
  });

  it("honours general.alignment and version 2", () => {
    const { tensors, version } = readGguf(fileOf(encodeGguf({ ...TINY, alignment: 4096, version: 2 })));
    expect(version).toBe(2);
    expect([...tensors.values()].map((tensor) => tensor.byteOffset)).toEqual([4096, 8192]);
  });

  it("accepts a file without tensors", () => {
    expect(readGguf(fileOf(encodeGguf({ metadata: { a: u8(1) } }))).tensors.size).toBe(0);
  });
});

describe("refusals", () => {
  it("file_unreadable: missing, a folder, a pipe-like device", () => {
    for (const path of [join(folder, "none.gguf"), folder, "/dev/null", "a\0b"]) {
      expect(refusal(() => readGguf(path)).code).toBe("file_unreadable");
    }
  });

  it("gguf_not_gguf: empty, short, another format", () => {
    expectRefused(Buffer.alloc(0), "gguf_not_gguf", /0 bytes/);
    expectRefused(Buffer.from("GG"), "gguf_not_gguf", /2 bytes/);
    expectRefused(Buffer.from("PK\x03\x04 and so on"), "gguf_not_gguf", /0x04034b50/);
  });

  it("gguf_version", () => {
    for (const version of [0, 1, 4]) {
      expectRefused(encodeGguf({ version }), "gguf_version", new RegExp(`got ${version}`));
    }
    expectRefused(encodeGguf({ version: 0x03_00_00_00 }), "gguf_version", /big-endian/);
  });

  it("gguf_truncated: cut anywhere", () => {
    const bytes = encodeGguf(TINY);
    // The padding after the last tensor may be missing, the last byte of data may not.
    const endOfData = bytes.length - (32 - (68 % 32));
    for (let length = 8; length < endOfData; length += 1) {
      expect(refusal(() => readGguf(fileOf(bytes.subarray(0, length)))).code).toBe("gguf_truncated");
    }
    expect(readGguf(fileOf(bytes.subarray(0, endOfData))).tensors.size).toBe(2);
  });

  it("gguf_truncated: lengths and counts beyond the file", () => {
    expectRefused(
      rawHeader(0, 1, encodeU64(60_000), Buffer.alloc(64)),
      "gguf_truncated",
      /60000 bytes for metadata key 0/,
    );
    expectRefused(rawHeader(1000, 0), "gguf_truncated", /tensor count of 1000/);
    expectRefused(rawHeader(0, 1000), "gguf_truncated", /metadata entry count of 1000/);
    const key = encodeString("k");
    const longString = [key, STRING_TYPE, encodeU64(2n ** 40n)];
    expectRefused(rawHeader(0, 1, ...longString), "gguf_truncated", /value of "k"/);
    const longArray = [key, ARRAY_TYPE, STRING_TYPE, encodeU64(2n ** 40n)];
    expectRefused(rawHeader(0, 1, ...longArray), "gguf_truncated", /array elements of "k"/);
    const farAway = rawHeader(1, 0, rawTensor("t", [4], 0, 2n ** 50n));
    expectRefused(farAway, "gguf_truncated", /16 bytes of tensor "t" at byte 11258999/);
    const large = rawHeader(1, 0, rawTensor("t", [2 ** 20, 2 ** 20], 0, 0));
    expectRefused(large, "gguf_truncated", /of tensor "t"/);
  });

  it("gguf_corrupt: sizes beyond 2^53, unknown types, repeated keys, odd booleans", () => {
    expectRefused(rawHeader(2n ** 63n, 0), "gguf_corrupt", /tensor count below 2\^53/);
    expectRefused(
      rawHeader(0, 1, encodeString("k"), encodeU32(13), Buffer.alloc(8)),
      "gguf_corrupt",
      /from 0 to 12.*got 13/,
    );
    const arrayOfUnknown = [encodeString("k"), ARRAY_TYPE, encodeU32(99), encodeU64(0)];
    expectRefused(rawHeader(0, 1, ...arrayOfUnknown), "gguf_corrupt", /got 99/);
    const entry = Buffer.concat([encodeString("k"), U8_TYPE, Buffer.of(1)]);
    expectRefused(rawHeader(0, 2, entry, entry), "gguf_corrupt", /"k" again/);
    expectRefused(rawHeader(0, 1, encodeString(""), U8_TYPE, Buffer.alloc(8)), "gguf_corrupt", /an empty one/);
    expectRefused(rawHeader(0, 1, encodeString("k"), encodeU32(7), Buffer.of(2)), "gguf_corrupt", /0 or 1.*got 2/);
  });

  it("gguf_metadata: an alignment that is none", () => {
    for (const alignment of [u32(0), u32(4), u32(48), u32(2 ** 30), str("32"), f32(Number.NaN), arr("u8", [32])]) {
      expectRefused(encodeGguf({ metadata: { "general.alignment": alignment } }), "gguf_metadata", /power of two/);
    }
  });

  it("gguf_limit: counts no model has", () => {
    expectRefused(rawHeader(2 ** 40, 0), "gguf_limit", /tensor count/);
    expectRefused(rawHeader(0, 2 ** 40), "gguf_limit", /metadata entry count/);
    let depths: Buffer = Buffer.concat([U8_TYPE, encodeU64(0)]);
    for (let depth = 0; depth < 5; depth += 1) depths = Buffer.concat([ARRAY_TYPE, encodeU64(1), depths]);
    expectRefused(rawHeader(0, 1, encodeString("k"), ARRAY_TYPE, depths), "gguf_limit", /nested arrays/);
    expectRefused(rawHeader(1, 0, rawTensor("n".repeat(65), [1], 0, 0)), "gguf_limit", /at most 64 bytes/);
    const longKey = [encodeString("k".repeat(70_000)), U8_TYPE, Buffer.of(1)];
    expectRefused(rawHeader(0, 1, ...longKey), "gguf_limit", /at most 65535 bytes/);
  });

  it("gguf_tensor: shapes, rows, offsets, names, unknown ids", () => {
    const refuse = (rows: Buffer[], message: RegExp) =>
      expectRefused(Buffer.concat([rawHeader(rows.length, 0, ...rows), Buffer.alloc(4096)]), "gguf_tensor", message);
    refuse([rawTensor("t", [], 0, 0)], /1 to 4 dimensions/);
    refuse([rawTensor("t", [1, 1, 1, 1, 1], 0, 0)], /got 5/);
    refuse([rawTensor("t", [4, 0], 0, 0)], /at least 1.*\[4, 0\]/);
    refuse([rawTensor("t", [2 ** 40, 2 ** 40], 0, 0)], /fit in memory/);
    refuse([rawTensor("t", [48], 8, 0)], /multiple of 32 values \(Q8_0\), got 48/);
    refuse([rawTensor("t", [4], 0, 8)], /multiple of 32, got 8/);
    refuse([rawTensor("t", [4], 0, 0), rawTensor("t", [4], 0, 32)], /"t" again/);
    refuse([rawTensor("", [4], 0, 0)], /an empty one/);
    refuse([rawTensor("late", [4], 0, 64), rawTensor("early", [17], 0, 0)], /"late" after the end of "early"/);
    refuse([rawTensor("t", [4], 77, 0)], /got id 77/);
  });

  it("tensor_type_unsupported names the type", () => {
    for (const [id, name] of [
      [9, "Q8_1"],
      [15, "Q8_K"],
      [28, "F64"],
      [41, "Q1_0"],
    ] as const) {
      const file = Buffer.concat([rawHeader(1, 0, rawTensor("blk.0.attn_q.weight", [256], id, 0)), Buffer.alloc(512)]);
      expectRefused(file, "tensor_type_unsupported", new RegExp(`"blk.0.attn_q.weight" .* got ${name}$`));
    }
  });
});

describe("a sparse file as large as its lies", () => {
  const SPARSE_BYTES = 2 ** 40;

  function refusalOfSparse(header: Buffer): { code: string; newBytes: number; ms: number } {
    const path = join(folder, "sparse.gguf");
    const fd = openSync(path, "w");
    try {
      writeSync(fd, header);
      ftruncateSync(fd, SPARSE_BYTES);
    } finally {
      closeSync(fd);
    }
    const bytesBefore = process.memoryUsage().arrayBuffers;
    const start = computedMs();
    const { code } = refusal(() => readGguf(path));
    return { code, newBytes: process.memoryUsage().arrayBuffers - bytesBefore, ms: computedMs() - start };
  }

  const key = encodeString("k");
  const lies: Record<string, Buffer> = {
    "a long string": rawHeader(0, 1, key, STRING_TYPE, encodeU64(2n ** 39n)),
    "a long array of strings": rawHeader(0, 1, key, ARRAY_TYPE, STRING_TYPE, encodeU64(2n ** 36n)),
    "a long array of bytes": rawHeader(0, 1, key, ARRAY_TYPE, U8_TYPE, encodeU64(2n ** 39n)),
    "array elements in the 4 million": rawHeader(0, 1, key, ARRAY_TYPE, U8_TYPE, encodeU64(4 * 1024 * 1024 + 1)),
    "many tensors": rawHeader(2 ** 33, 0),
    "many entries": rawHeader(0, 2 ** 33),
  };
  for (const [name, header] of Object.entries(lies)) {
    it(`${name}: gguf_limit without reading or reserving it`, () => {
      const { code, newBytes, ms } = refusalOfSparse(header);
      expect(code).toBe("gguf_limit");
      expect(newBytes).toBeLessThan(8 * 1024 * 1024);
      expect(ms).toBeLessThan(5000);
    });
  }

  it("many arrays together: gguf_limit", () => {
    const entries = ["a", "b", "c"].map((name) =>
      Buffer.concat([encodeString(name), ARRAY_TYPE, U8_TYPE, encodeU64(3_000_000), Buffer.alloc(3_000_000)]),
    );
    expectRefused(rawHeader(0, 3, ...entries), "gguf_limit", /array elements in all/);
  });
});

describe("split models", () => {
  const shardOf = (index: number, count: number, names: readonly string[], numTensors: number): WritableGguf => ({
    metadata: {
      ...(index === 0 ? { "general.architecture": str("llama") } : {}),
      "split.no": u16(index),
      "split.count": u16(count),
      "split.tensors.count": i32(numTensors),
    },
    tensors: names.map((name) => ({ name, type: "F32", shape: [4] })),
  });

  let set = "";
  beforeAll(() => {
    set = join(folder, "set");
    mkdirSync(set);
    const shards = [["a", "b"], ["c"], ["d"]];
    for (const [index, names] of shards.entries()) {
      writeGguf(join(set, splitName("m", index + 1, 3)), shardOf(index, 3, names, 4));
    }
  });

  it("merges all shards, whichever is given", () => {
    for (const number of [1, 2, 3]) {
      const file = readGguf(join(set, splitName("m", number, 3)));
      expect([...file.tensors.values()].map(({ name, shard }) => `${name}${shard}`)).toEqual(["a0", "b0", "c1", "d2"]);
      expect(file.shards).toHaveLength(3);
      expect(file.metadata.string("general.architecture")).toBe("llama");
    }
  });

  it("refuses a missing shard, a renamed one, a wrong total, a repeated tensor", () => {
    const broken = (name: string, count: number, shards: readonly (WritableGguf | undefined)[]): string => {
      mkdirSync(join(folder, name));
      for (const [index, shard] of shards.entries()) {
        if (shard !== undefined) writeGguf(join(folder, name, splitName("m", index + 1, count)), shard);
      }
      return join(folder, name, splitName("m", 1, count));
    };
    const first = shardOf(0, 2, ["a"], 2);
    const paths = [
      [broken("missing", 2, [first]), /got none at .*m-00002-of-00002.gguf/],
      [broken("swapped", 2, [first, shardOf(0, 2, ["b"], 2)]), /expected shard 1 of 2 .* got shard 0 of 2/],
      [broken("unsplit", 2, [first, { tensors: [] }]), /got shard \? of \?/],
      [broken("total", 2, [first, shardOf(1, 2, ["b", "c"], 2)]), /expected 2 tensors in all shards, got 3/],
      [broken("twice", 2, [first, shardOf(1, 2, ["a"], 2)]), /got "a" again/],
      [fileOf(encodeGguf(first)), /expected a name ending in -0000N-of-00002.gguf/],
      [fileOf(encodeGguf(shardOf(0, 60_000, [], 0))), /at most 1024 shards, got 60000/],
    ] as const;
    for (const [path, message] of paths) {
      const error = refusal(() => readGguf(path));
      expect({ code: error.code, message: error.message }).toEqual({
        code: "gguf_split",
        message: expect.stringMatching(message),
      });
    }
  });
});
