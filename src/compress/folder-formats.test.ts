/** Quantised folders in every layout are read back with the intended values. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { fixture, repositoryRoot } from "../../test/helpers/fixtures.js";
import { someOf } from "../../test/helpers/long.js";
import { tempTree } from "../../test/scripts/temp-tree.js";
import { createRowEncoder } from "../backend/create/create-backend.js";
import { convertModel } from "../convert/convert.js";
import { tensorsOf } from "../convert/weights/model-tensors.js";
import type { FolderStorage } from "../convert/weights/tensors.js";
import { readHfFolder } from "../formats/hf/folder.js";
import { readRows } from "../model/description/read-rows.js";
import { queryWidth } from "../model/description/sizes.js";
import { LayerTensors } from "../model/hf/quantized/tensors.js";
import { openModel } from "../model/open-model.js";
import { FOLDER_METHODS, type FolderMethod, LAYOUTS, type Layout, roundedAs, takesLayer } from "./folder-formats.js";
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

/** One matrix with rope, one without. */
const NAMES = ["blk.0.attn_q.weight", "blk.1.ffn_down.weight"] as const;

function matrixOf(model: ReturnType<typeof openModel>, name: (typeof NAMES)[number]): Float32Array {
  const { width, layers } = model.config;
  const { feedForward } = layers[0]!;
  const [rows, cols] = name.includes("attn_q") ? [queryWidth(layers[0]!), width] : [width, feedForward.width];
  return readRows(model.tensors(), name, { rows, totalRows: rows, cols });
}

const relativeError = (got: Float32Array, wanted: Float32Array): number => {
  const square = (values: Float32Array): number => values.reduce((sum, value) => sum + value ** 2, 0);
  return Math.sqrt(square(got.map((value, i) => value - wanted[i]!)) / square(wanted));
};

/** The student as a plain folder, with the rope's rows in the same order. */
async function plain() {
  const out = join(tempTree({}), "plain");
  await convertModel({ model: STUDENT, out, type: "F32" });
  return openModel(out);
}

test.each(
  someOf(FOLDER_METHODS, 4),
)("%s is read back near the original, and the output matrix is not quantised", async (method) => {
  const { model, config } = await quantised(method, "compressed-tensors");
  const original = await plain();
  const most = method.startsWith("INT4") || method === "NVFP4" ? 0.12 : method === "INT8" ? 0.012 : 0.03;
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
  // GPTQ and AWQ have halves as scales; compressed-tensors has the model's own type.
  for (const [i, matrix] of values[0]!.entries()) expect(relativeError(matrix, values[1]![i]!)).toBeLessThan(0.02);
});

test.each(
  someOf(FOLDER_METHODS, 3),
)("%s: rows that are rounded alone have the values that a folder has", async (method) => {
  const encoder = createRowEncoder(1);
  const { model } = await quantised(method, "compressed-tensors");
  const name = NAMES[1];
  const values = matrixOf(await plain(), name);
  const { feedForward } = model.config.layers[0]!;
  const rounded = roundedAs(method, "F16", values, feedForward.width, { encoder, weights: undefined });
  encoder.close();
  expect(relativeError(matrixOf(model, name), rounded)).toBeLessThan(1e-6);
});

test("NVFP4: matrices that engines fuse share their divisor, and rows of no whole number of blocks stay", async () => {
  const { model, config } = await quantised("NVFP4", "compressed-tensors");
  const { files } = readHfFolder(model.files[0]!.slice(0, model.files[0]!.lastIndexOf("/")));
  const divisorOf = (name: string): number => {
    const layer = new LayerTensors(files, `model.layers.0.${name}`);
    return layer.floats(layer.find("weight_global_scale")!)[0]!;
  };
  const shared = ["q_proj", "k_proj", "v_proj"].map((name) => divisorOf(`self_attn.${name}`));
  expect(new Set(shared).size).toBe(1);
  expect(divisorOf("self_attn.o_proj")).not.toBe(shared[0]);
  expect(config).toMatchObject({
    format: "nvfp4-pack-quantized",
    config_groups: { group_0: { weights: { strategy: "tensor_group", group_size: 16 }, input_activations: null } },
  });
  const tensor = (cols: number) => ({ name: "blk.0.ffn_up.weight", shape: [64, cols] as const });
  expect([64, 96, 128].map((cols) => takesLayer("NVFP4", tensor(cols)))).toEqual([true, false, true]);
});

/** compressed-tensors' own file with one scale per tensor. */
const TENSOR_SCALES = fixture("hf-quantized/fp8-tensor");

test("FP8_TENSOR makes the codes and scales of compressed-tensors' own file; matrices that engines fuse share their largest scale", () => {
  const encoder = createRowEncoder(1);
  const model = openModel(TENSOR_SCALES);
  const source = model.tensors();
  const { layers } = quantisedStorage("FP8_TENSOR", model, { encoder, importance: undefined }) as FolderStorage;
  const made = new Map(
    tensorsOf(model.config, source)
      .filter((tensor) => layers!.takes(tensor))
      .map((tensor) => {
        const [rows, cols] = tensor.shape as readonly [number, number];
        const [codes, scale] = layers!.encode(source, tensor);
        expect(layers!.partsOf(rows, cols).map(({ shape }) => shape)).toEqual([[rows, cols], [1]]);
        return [
          tensor.name,
          { codes: codes!, scale: new DataView(scale!.buffer, scale!.byteOffset).getFloat32(0, true) },
        ];
      }),
  );
  encoder.close();
  const { files } = readHfFolder(TENSOR_SCALES);
  const layer = (name: string) => new LayerTensors(files, `model.layers.0.${name}`);
  const scaleOf = (name: string): number => layer(name).floats(layer(name).find("weight_scale")!)[0]!;
  for (const [name, own] of [
    ["attn_output", "self_attn.o_proj"],
    ["ffn_down", "mlp.down_proj"],
  ] as const) {
    const { codes, scale } = made.get(`blk.0.${name}.weight`)!;
    expect(scale).toBe(scaleOf(own));
    expect(layer(own).bytes(layer(own).find("weight")!).equals(codes)).toBe(true);
  }
  for (const [names, own] of [
    [["attn_q", "attn_k", "attn_v"], ["q_proj", "k_proj", "v_proj"].map((name) => `self_attn.${name}`)],
    [
      ["ffn_gate", "ffn_up"],
      ["mlp.gate_proj", "mlp.up_proj"],
    ],
  ] as const) {
    const scales = own.map(scaleOf);
    expect(new Set(scales).size).toBe(own.length);
    const largest = Math.max(...scales);
    expect(names.map((name) => made.get(`blk.0.${name}.weight`)!.scale)).toEqual(names.map(() => largest));
  }
});
