/** The reader's answers for sound folders, and its refusals for every way a header or an index can lie. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { fixture } from "../../../test/helpers/fixtures.js";
import { encodeSafetensors, encodeWithHeader } from "../../../test/helpers/safetensors-writer.js";
import { MillraceError } from "../../core/errors.js";
import { readSafetensors } from "./read.js";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "millrace-safetensors-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

const write = (name: string, content: Buffer | string) => writeFileSync(join(folder, name), content);

function refusal(): string {
  try {
    readSafetensors(folder);
  } catch (thrown) {
    if (thrown instanceof MillraceError) return `${thrown.code}: ${thrown.message}`;
    throw thrown;
  }
  throw new Error("expected a refusal");
}

it("reads the shards that an index names, as transformers writes them", () => {
  const { tensors, shards } = readSafetensors(fixture("hf/llama"));
  expect(shards).toHaveLength(2);
  expect(tensors.get("model.embed_tokens.weight")).toMatchObject({
    dtype: "BF16",
    shape: [288, 32],
    byteLength: 18_432,
  });
  expect(new Set([...tensors.values()].map(({ shard }) => shard))).toEqual(new Set([0, 1]));
});

it("places tensors behind the header, whatever their order in it", () => {
  const entry = (dtype: string, shape: number[], begin: number, end: number) => ({
    dtype,
    shape,
    data_offsets: [begin, end],
  });
  const header = JSON.stringify({
    b: entry("I32", [2, 1], 4, 12),
    a: entry("F16", [2], 0, 4),
    c: entry("U8", [0], 12, 12),
  });
  write("model.safetensors", encodeWithHeader(`${header}  `, 12));
  const { tensors } = readSafetensors(folder);
  const start = 8 + header.length + 2;
  expect(tensors.get("b")).toEqual({
    name: "b",
    dtype: "I32",
    shape: [2, 1],
    shard: 0,
    byteOffset: start + 4,
    byteLength: 8,
  });
  expect(tensors.get("c")?.byteLength).toBe(0);
});

describe("a header is refused when", () => {
  const tensor = (fields: object) =>
    encodeWithHeader(JSON.stringify({ t: { dtype: "F32", shape: [2], data_offsets: [0, 8], ...fields } }), 8);
  const cases: readonly (readonly [string, Buffer, RegExp])[] = [
    [
      "the file is too short for a length",
      Buffer.alloc(7),
      /^safetensors_truncated: .*8 bytes of header length, got 7/,
    ],
    ["its length is beyond the limit", Buffer.alloc(64, 0xff), /^safetensors_corrupt: .*at most 16777216 bytes/],
    ["its length is beyond the file", encodeWithHeader("{}", 0).subarray(0, 9), /^safetensors_truncated: .*2 bytes/],
    ["it is no JSON", encodeWithHeader("{]", 0), /^safetensors_corrupt: .*header of JSON/],
    ["it is no object", encodeWithHeader("[]", 0), /^safetensors_corrupt: .*JSON object/],
    ["an entry is no object", encodeWithHeader('{"t":1}', 0), /^safetensors_corrupt: .*an object for tensor "t"/],
    ["a dtype is missing", tensor({ dtype: 3 }), /^safetensors_corrupt: .*a dtype/],
    ["a dtype is unknown", tensor({ dtype: "F3" }), /^tensor_type_unsupported: .*"F3"/],
    ["a dimension is negative", tensor({ shape: [-2] }), /^safetensors_corrupt: .*shape/],
    ["a dimension is a fraction", tensor({ shape: [0.5] }), /^safetensors_corrupt: .*shape/],
    ["there are too many dimensions", tensor({ shape: Array(9).fill(1) }), /^safetensors_corrupt: .*up to 8 counts/],
    ["dimensions overflow", tensor({ shape: [2 ** 40, 2 ** 40] }), /^safetensors_corrupt: .*bytes for tensor "t"/],
    ["offsets are no pair", tensor({ data_offsets: [0] }), /^safetensors_corrupt: .*two data_offsets/],
    [
      "offsets do not fit the shape",
      tensor({ data_offsets: [0, 4] }),
      /^safetensors_corrupt: .*8 bytes for tensor "t"/,
    ],
    ["offsets go backwards", tensor({ shape: [], data_offsets: [4, 0] }), /^safetensors_corrupt: .*got -4/],
    ["the data begin with a gap", tensor({ data_offsets: [4, 12] }), /^safetensors_corrupt: .*start at byte 0, got 4/],
    ["the data end early", tensor({}).subarray(0, -1), /^safetensors_truncated: .*8 bytes of tensor data, got 7/],
    [
      "bytes are left over",
      Buffer.concat([tensor({}), Buffer.alloc(1)]),
      /^safetensors_corrupt: .*8 bytes of tensor data/,
    ],
    [
      "tensors overlap",
      encodeWithHeader(
        '{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}}',
        6,
      ),
      /^safetensors_corrupt: .*"b" to start at byte 4, got 2/,
    ],
    [
      "a name is listed twice",
      encodeWithHeader(
        '{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}',
        8,
      ),
      /^safetensors_corrupt: .*"a" to start at byte 0, got 4/,
    ],
  ];
  it.each(cases)("%s", (_, bytes, expected) => {
    write("model.safetensors", bytes);
    expect(refusal()).toMatch(expected);
  });
});

describe("an index is refused when", () => {
  const index = (map: unknown) => write("model.safetensors.index.json", JSON.stringify({ weight_map: map }));
  const shard = (name: string, ...tensors: string[]) =>
    write(name, encodeSafetensors(Object.fromEntries(tensors.map((tensor) => [tensor, { dtype: "F32", shape: [2] }]))));

  it("it has no map", () => {
    index(undefined);
    expect(refusal()).toMatch(/^safetensors_index: .*a weight_map, got none/);
  });

  it.each([
    "../a.safetensors",
    "/a.safetensors",
    "x/a.safetensors",
    "a.bin",
    ".safetensors",
    7,
  ])("a file is called %s", (name) => {
    index({ t: name });
    expect(refusal()).toMatch(/^safetensors_index: .*plain names/);
  });

  it("a file's name is nested beyond what can be shown", () => {
    write("model.safetensors.index.json", `{"weight_map":{"t":${"[".repeat(1e5)}${"]".repeat(1e5)}}}`);
    expect(refusal()).toMatch(/^safetensors_index: .*plain names.*got one nested too deeply/);
  });

  it("it names no file", () => {
    index({});
    expect(refusal()).toMatch(/^safetensors_index: .*1 to 1024 files, got 0/);
  });

  it("a file is missing", () => {
    index({ t: "a.safetensors" });
    expect(refusal()).toMatch(/^file_unreadable: .*a\.safetensors/);
  });

  it("a tensor is not where it says", () => {
    index({ t: "a.safetensors", u: "b.safetensors" });
    shard("a.safetensors", "u");
    shard("b.safetensors", "t");
    expect(refusal()).toMatch(/^safetensors_index: .*"t" in a\.safetensors, got none there/);
  });

  it("a tensor is in two files", () => {
    index({ t: "a.safetensors", u: "b.safetensors" });
    shard("a.safetensors", "t");
    shard("b.safetensors", "u", "t");
    expect(refusal()).toMatch(/^safetensors_index: .*"t" again/);
  });
});

it("says what is missing in a folder without weights", () => {
  expect(refusal()).toMatch(/^file_unreadable: .*model\.safetensors/);
});
