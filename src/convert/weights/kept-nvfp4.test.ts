/** Copies in either format keep NVFP4 matrices, bit by bit where the format can express their scale. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { completionsOf, expectClose, weightsOnly } from "../../../test/helpers/converted.js";
import { fixture } from "../../../test/helpers/fixtures.js";
import { type RandomModelOptions, writeRandomModel } from "../../../test/helpers/random-model.js";
import { readGguf } from "../../formats/gguf/read.js";
import { readHfFolder } from "../../formats/hf/folder.js";
import { openModel } from "../../model/open-model.js";
import { keptStorage } from "./kept-nvfp4.js";
import { tensorsOf } from "./model-tensors.js";
import { bytesOf, unstackedTensors } from "./tensors.js";

const root = mkdtempSync(join(tmpdir(), "millrace-nvfp4-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));

let numPlaces = 0;
const place = (suffix = ""): string => join(root, `${numPlaces++}${suffix}`);
const kept = (from: string, suffix = ""): string => {
  const to = place(suffix);
  weightsOnly(from, to, undefined, keptStorage);
  return to;
};

/** f32 values of each matrix, and its stored type. */
function matricesOf(path: string) {
  const { config, tensors } = openModel(path);
  const source = tensors();
  return tensorsOf(config, source)
    .flatMap(unstackedTensors)
    .filter(({ shape, ownName }) => shape.length === 2 && ownName.startsWith("blk."))
    .map((tensor) => ({ name: tensor.ownName, values: Buffer.concat([...bytesOf(source, tensor, "F32")]) }));
}
const floats = ({ buffer, byteOffset, byteLength }: Buffer): Float32Array =>
  new Float32Array(buffer.slice(byteOffset, byteOffset + byteLength) as ArrayBuffer);

const numOfType = (path: string): number =>
  path.endsWith(".gguf")
    ? [...readGguf(path).tensors.values()].filter(({ type }) => type === "NVFP4").length
    : [...readHfFolder(path).files.tensors.keys()].filter((name) => name.endsWith("weight_packed")).length;

/** Inverting a scale may round twice: by a unit in the last place of an F32. */
function expectSameMatrices(copy: string, original: string, tolerance: number): void {
  const [got, wanted] = [matricesOf(copy), matricesOf(original)];
  expect(got.map(({ name }) => name)).toEqual(wanted.map(({ name }) => name));
  for (const [i, { name, values }] of got.entries()) {
    if (tolerance === 0) expect(values.equals(wanted[i]!.values), name).toBe(true);
    const own = floats(wanted[i]!.values);
    expect(floats(values).every((value, at) => Math.abs(value - own[at]!) <= tolerance * Math.abs(own[at]!))).toBe(
      true,
    );
  }
}

/** The model's vocabulary has 64 tokens. */
const PROMPTS = [[1, 5, 9, 2, 7, 40, 41], [3]];

describe.each([
  ["nvfp4-pack", 0],
  ["nvfp4-modelopt", 2 ** -22],
])("a folder of %s", (name, tolerance) => {
  const original = fixture(`hf-quantized/${name}`);

  test("becomes a folder and a file that have its codes and scales, and a folder again", async () => {
    const [folder, file] = [kept(original), kept(original, ".gguf")];
    const again = kept(file);
    const numMatrices = matricesOf(original).length;
    expect([folder, file, again].map(numOfType)).toEqual([numMatrices, numMatrices, numMatrices]);
    expectSameMatrices(folder, original, tolerance);
    expectSameMatrices(again, folder, 0);
    const completions = await completionsOf(original, PROMPTS);
    for (const copy of [folder, file, again]) expectClose(await completionsOf(copy, PROMPTS), completions);
    expect(readGguf(file).metadata.number("general.file_type")).toBe(39);
  });

  test("becomes a folder that says how its layers are stored", () => {
    const config = JSON.parse(readFileSync(join(kept(original), "config.json"), "utf8")) as object;
    expect(config).toMatchObject({
      quantization_config: {
        quant_method: "compressed-tensors",
        format: "nvfp4-pack-quantized",
        ignore: ["lm_head"],
        config_groups: { group_0: { weights: { num_bits: 4, group_size: 16 }, input_activations: null } },
      },
    });
  });
});

const WIDE = { width: 128, ff: 128, headDim: 64, type: "NVFP4" } as const;

test.each<[string, RandomModelOptions, number]>([
  // Some scales are negative, which folders cannot have: such matrices are stored in BF16.
  ["llama", { ...WIDE, architecture: "llama", seed: 1, hasMatrixScales: true }, 2 ** -8],
  ["qwen3", { ...WIDE, architecture: "qwen3", seed: 2 }, 0],
  ["qwen3moe", { ...WIDE, architecture: "qwen3moe", seed: 3, hasMatrixScales: true }, 2 ** -8],
])("a file of %s becomes a file and a folder with the same matrices", async (_, options, tolerance) => {
  const original = place(".gguf");
  writeRandomModel(original, options);
  const [file, folder, plain] = [kept(original, ".gguf"), kept(original), place()];
  expect(numOfType(file)).toBe(numOfType(original));
  expect(numOfType(folder)).toBeGreaterThan(0);
  expectSameMatrices(file, original, 0);
  // A folder's rows may have another order.
  weightsOnly(original, plain);
  expectSameMatrices(folder, plain, tolerance);
  const completions = await completionsOf(original);
  expect(await completionsOf(file)).toEqual(completions);
  if (tolerance === 0) expectClose(await completionsOf(folder), completions);
});
