/** Folders that are quantised are read back as what was meant, in every layout. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../../test/helpers/fixtures.js";
import { tempTree } from "../../test/scripts/temp-tree.js";
import { createRowEncoder } from "../backend/create/create-backend.js";
import { convertModel } from "../convert/convert.js";
import { readRows } from "../model/description/read-rows.js";
import { openModel } from "../model/open-model.js";
import { FOLDER_METHODS, type FolderMethod, LAYOUTS, type Layout, roundedAs } from "./folder-formats.js";
import { quantisedStorage } from "./storage.js";

const STUDENT = join(repositoryRoot(), "models/mill-student.gguf");

async function quantised(method: FolderMethod, layout: Layout) {
  const out = join(tempTree({}), "copy");
  const encoder = createRowEncoder(1);
  await convertModel({
    model: STUDENT,
    out,
    type: (model) => quantisedStorage(method, model, { encoder, importance: undefined }, layout),
  });
  encoder.close();
  const config = JSON.parse(readFileSync(join(out, "config.json"), "utf8")) as {
    readonly quantization_config: Record<string, unknown>;
  };
  return { model: openModel(out), config: config.quantization_config };
}

/** Of a matrix that the rope turns, and of one that it does not. */
const NAMES = ["blk.0.attn_q.weight", "blk.1.ffn_down.weight"] as const;

function matrixOf(model: ReturnType<typeof openModel>, name: (typeof NAMES)[number]): Float32Array {
  const { width, layers } = model.config;
  const { mixer, feedForward } = layers[0]!;
  const [rows, cols] = name.includes("attn_q") ? [mixer.numHeads * mixer.headDim, width] : [width, feedForward.width];
  return readRows(model.tensors(), name, { rows, totalRows: rows, cols });
}

const relativeError = (got: Float32Array, wanted: Float32Array): number => {
  const square = (values: Float32Array): number => values.reduce((sum, value) => sum + value ** 2, 0);
  return Math.sqrt(square(got.map((value, i) => value - wanted[i]!)) / square(wanted));
};

/** The student as a plain folder, which has the rope's rows in the same order. */
async function plain() {
  const out = join(tempTree({}), "plain");
  await convertModel({ model: STUDENT, out, type: "F32" });
  return openModel(out);
}

test.each(
  FOLDER_METHODS,
)("%s is read back near the original, and the output matrix is not quantised", async (method) => {
  const { model, config } = await quantised(method, "compressed-tensors");
  const original = await plain();
  const most = method.startsWith("INT4") ? 0.12 : method === "INT8" ? 0.012 : 0.03;
  for (const name of NAMES) {
    const error = relativeError(matrixOf(model, name), matrixOf(original, name));
    expect(error).toBeGreaterThan(most / 10);
    expect(error).toBeLessThan(most);
  }
  expect(config).toMatchObject({ quant_method: method === "FP8_BLOCK" ? "fp8" : "compressed-tensors" });
  expect(JSON.stringify(config)).toContain("lm_head");
});

test.each(LAYOUTS.slice(0, 2))("four bits in the layout of %s are the weights of GPTQ's", async (layout) => {
  const values = await Promise.all(
    ([layout, "gptq"] as const).map(async (each) => {
      const { model } = await quantised("INT4_64", each);
      return NAMES.map((name) => matrixOf(model, name));
    }),
  );
  // Scales are halves in GPTQ's and AWQ's, and in the model's own type in compressed-tensors.
  for (const [i, matrix] of values[0]!.entries()) expect(relativeError(matrix, values[1]![i]!)).toBeLessThan(0.02);
});

test.each(FOLDER_METHODS)("%s: rows that are rounded alone have the values that a folder has", async (method) => {
  const encoder = createRowEncoder(1);
  const { model } = await quantised(method, "compressed-tensors");
  const name = NAMES[1];
  const values = matrixOf(await plain(), name);
  const { feedForward } = model.config.layers[0]!;
  const rounded = roundedAs(method, "F16", values, feedForward.width, { encoder, weights: undefined });
  encoder.close();
  expect(relativeError(matrixOf(model, name), rounded)).toBeLessThan(1e-6);
});
