import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { writeRandomModel } from "../../test/helpers/random-model.js";
import { tempTree } from "../../test/scripts/temp-tree.js";
import { silentStages } from "../core/stages.js";
import { readGguf } from "../formats/gguf/read.js";
import { str, type WritableGguf, writeGguf } from "../formats/gguf/write.js";
import { Importance, importanceOf, keptImportance, readImportance, writeImportance } from "./importance.js";
import { journaled } from "./journal.js";

const MEASURED = [
  { names: ["blk.0.attn_q", "blk.0.attn_k"], sums: Float64Array.of(4, 0, 12), numRows: 4 },
  { names: ["blk.0.ffn_down"], sums: Float64Array.of(1, 1), numRows: 8 },
];

test("means weigh columns against each other; unused columns keep a little", () => {
  const importance = importanceOf(MEASURED);
  const weights = importance.of("blk.0.attn_k.weight", 3)!;
  expect([...weights]).toEqual([0.75, 0, 2.25].map((value) => expect.closeTo(value + 1e-3, 6)));
  expect(importance.of("blk.0.attn_q", 3)).toEqual(weights);
  expect(importance.of("blk.1.attn_q", 3)).toBeUndefined();
  expect(() => importance.of("blk.0.ffn_down", 3)).toThrow(/importance of 3 columns of blk\.0\.ffn_down, got 2/);
  expect(new Importance(new Map([["a", new Float64Array(3)]])).of("a", 3)).toBeUndefined();
});

test("a file has what was measured for the matrices of the model, under llama.cpp's names", () => {
  const path = join(tempTree({}), "importance.gguf");
  const counts: Record<string, number> = { "blk.0.attn_q.weight": 1, "blk.0.ffn_down.weight": 3 };
  writeImportance(path, MEASURED, (name) => counts[name] ?? 0, { source: "mine.jsonl", window: 512 });
  const { means } = readImportance(path);
  expect([...means.keys()]).toEqual(["blk.0.attn_q", "blk.0.ffn_down"]);
  expect([...means.get("blk.0.attn_q")!]).toEqual([1, 0, 3]);
  expect([...means.get("blk.0.ffn_down")!]).toEqual([0.125, 0.125]);
  // llama-quantize expects a row of sums for each expert of a stack.
  expect(readGguf(path).tensors.get("blk.0.ffn_down.weight.in_sum2")!.shape).toEqual([2, 3]);
  expect(readGguf(path).tensors.get("blk.0.ffn_down.weight.counts")!.shape).toEqual([1, 3]);
  expect(readdirSync(dirname(path))).toEqual(["importance.gguf"]);
});

test("a file has the experts' gates and ups of a model that has both in one matrix, as its copies have them", async () => {
  const root = tempTree({});
  const [model, saveTo] = [join(root, "model.gguf"), join(root, "importance.gguf")];
  writeRandomModel(model, { architecture: "qwen3moe", seed: 1, expertLayout: "fused" });
  const texts = [Array.from({ length: 60 }, (_, i) => i)];
  const { means } = await journaled(join(root, "copy.gguf"), {}, (journal) => {
    const run = { model, texts, source: "texts", saveTo, numThreads: 1, journal };
    return keptImportance(run, silentStages, new AbortController().signal);
  });
  const saved = readImportance(saveTo).means;
  for (const name of ["ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"].map((each) => `blk.1.${each}`))
    expect(saved.get(name)).toEqual(means.get(name));
  expect(readdirSync(root).sort()).toEqual(["importance.gguf", "model.gguf"]);
});

const f32 = (...values: readonly number[]): Uint8Array => new Uint8Array(Float32Array.from(values).buffer);
function fileOf(gguf: WritableGguf): string {
  const path = join(tempTree({}), "m.gguf");
  writeGguf(path, gguf);
  return path;
}
const KIND = { "general.type": str("imatrix") };

test("experts of a stack share the sums of all that any of them read", () => {
  const path = fileOf({
    metadata: KIND,
    tensors: [
      { name: "blk.0.ffn_up_exps.weight.in_sum2", type: "F32", shape: [2, 3], data: f32(1, 2, 3, 4, 0, 0) },
      { name: "blk.0.ffn_up_exps.weight.counts", type: "F32", shape: [1, 3], data: f32(1, 3, 0) },
    ],
  });
  expect([...readImportance(path).means.get("blk.0.ffn_up_exps")!]).toEqual([1, 1.5]);
});

test.each([
  ["a model", { metadata: {}, tensors: [] }, /got a file of type model/],
  ["no sums", { metadata: KIND, tensors: [] }, /got no sums/],
  [
    "no counts",
    { metadata: KIND, tensors: [{ name: "a.in_sum2", type: "F32", shape: [2, 1], data: f32(1, 2) }] },
    /no F32 values a\.counts/,
  ],
  [
    "other counts",
    {
      metadata: KIND,
      tensors: [
        { name: "a.in_sum2", type: "F32", shape: [2, 1], data: f32(1, 2) },
        { name: "a.counts", type: "F32", shape: [1, 2], data: f32(1, 2) },
      ],
    },
    /got 2 counts for 1 rows/,
  ],
  [
    "negative sums",
    {
      metadata: KIND,
      tensors: [
        { name: "a.in_sum2", type: "F32", shape: [2, 1], data: f32(1, -2) },
        { name: "a.counts", type: "F32", shape: [1, 1], data: f32(1) },
      ],
    },
    /below 0 or infinite/,
  ],
] as const satisfies readonly (readonly [
  string,
  WritableGguf,
  RegExp,
])[])("a file with %s is refused", (_, gguf, message) => {
  expect(() => readImportance(fileOf(gguf))).toThrow(message);
});
