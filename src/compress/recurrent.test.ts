/**
 * Models with recurrent layers are quantised like others: the copies' predictions are near the original's, and
 * measurements follow the copy's order of value heads.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { someOf } from "../../test/helpers/long.js";
import { type RandomModelOptions, writeRandomModel } from "../../test/helpers/random-model.js";
import { tempTree } from "../../test/scripts/temp-tree.js";
import { createRowEncoder } from "../backend/create/create-backend.js";
import { convertModel, isFileName, openForCopy } from "../convert/convert.js";
import { silentStages } from "../core/stages.js";
import { readGguf } from "../formats/gguf/read.js";
import { readHfFolder } from "../formats/hf/folder.js";
import { readRows } from "../model/description/read-rows.js";
import { LayerTensors } from "../model/hf/quantized/tensors.js";
import { openModel } from "../model/open-model.js";
import { ErrorFeedback, type Rounding } from "./error-feedback.js";
import { isFolderMethod } from "./folder-formats.js";
import { Importance, importanceOf, measureImportance } from "./importance.js";
import { measureLoss } from "./loss.js";
import { METHODS, type Method, quantisedStorage } from "./storage.js";

const { signal } = new AbortController();
const ARCHITECTURES = ["qwen35", "qwen35moe", "qwen3next"] as const;

const textsOf = (count: number, length = 96): readonly (readonly number[])[] =>
  Array.from({ length: count }, (_, text) => Array.from({ length }, (_, i) => (i * i * 37 + text * 91 + 5) % 300));

function randomModel(architecture: (typeof ARCHITECTURES)[number], sizes: Partial<RandomModelOptions> = {}): string {
  const model = join(tempTree({}), "model.gguf");
  writeRandomModel(model, { architecture, seed: 3, width: 256, headDim: 64, type: "BF16", ...sizes });
  return model;
}

/** @param isCalibrated whether the columns' importance and feedback are measured on texts */
async function quantised(model: string, method: Method, isCalibrated = false): Promise<string> {
  const out = join(tempTree({}), isFolderMethod(method) ? "copy" : "copy.gguf");
  const encoder = createRowEncoder(1);
  const texts = textsOf(4);
  const settings = { model, texts, encoder, isFile: isFileName(out), numThreads: 1 };
  const feedback = isCalibrated ? await ErrorFeedback.open(settings, silentStages, signal) : undefined;
  const measured = isCalibrated
    ? importanceOf(await measureImportance(model, texts, 1, silentStages, signal))
    : undefined;
  const importance = isFileName(out) ? measured : measured?.inFolders(openModel(model));
  const rounding: Rounding = { encoder, importance, feedback };
  try {
    await convertModel({ model, out, type: (opened) => quantisedStorage(method, opened, rounding) });
    return out;
  } finally {
    feedback?.close();
    encoder.close();
  }
}

const klOf = async (model: string, copy: string): Promise<number> =>
  (await measureLoss(model, copy, textsOf(2), 1, silentStages, signal)).meanKl;

/**
 * Limits by bits per weight. Random models have sharper predictions than trained ones, and their routers switch
 * experts.
 */
const MOST_KL = [
  [/^(Q8_0|INT8)$/, 0.03],
  [/^(Q6_K|FP8)/, 0.15],
  [/^Q5/, 0.25],
  [/^(Q4|IQ4|INT4|NVFP4)/, 0.6],
  [/./, 2],
] as const;

test.each(
  ARCHITECTURES.flatMap((architecture) => someOf(METHODS, 4).map((method) => [architecture, method] as const)),
)("%s in %s predicts nearly what the original does", async (architecture, method) => {
  const model = randomModel(architecture, { ff: 128 });
  const most = MOST_KL.find(([names]) => names.test(method))![1];
  const kl = await klOf(model, await quantised(model, method));
  expect(kl).toBeGreaterThan(0);
  expect(kl).toBeLessThan(most);
});

test("calibration saves a part of the loss, in files and in folders", async () => {
  const model = randomModel("qwen35");
  for (const method of ["Q4_0", "INT4_32"] as const) {
    const [plain, calibrated] = [await quantised(model, method), await quantised(model, method, true)];
    expect(await klOf(model, calibrated)).toBeLessThan(0.8 * (await klOf(model, plain)));
  }
});

/** Weights of the first layer's output matrix, which reads all value heads. */
function outputOf(copy: string): Float32Array {
  const model = openForCopy(copy, "copy.gguf");
  return readRows(model.tensors(), "blk.0.ssm_out.weight", { rows: 64, totalRows: 64, cols: 256 });
}

test.each([
  ["qwen35", "Q4_0"],
  ["qwen35", "INT4_32"],
  ["qwen3next", "INT4_32"],
] as const)("%s in %s is rounded alike, whether its file or its folder was measured", async (architecture, method) => {
  const file = randomModel(architecture, { width: 64, ff: 64, type: "F32" });
  const folder = join(tempTree({}), "model");
  await convertModel({ model: file, out: folder, type: "F32" });
  const [ofFile, ofFolder, plain] = [
    outputOf(await quantised(file, method, true)),
    outputOf(await quantised(folder, method, true)),
    outputOf(await quantised(file, method)),
  ];
  const distance = (from: Float32Array) => from.reduce((sum, value, i) => sum + (value - ofFile[i]!) ** 2, 0);
  expect(distance(plain)).toBeGreaterThan(0);
  expect(distance(ofFolder)).toBeLessThan(0.02 * distance(plain));
});

test("the importance of a file's matrices is that of the folder's one with their rows", () => {
  const means = Float64Array.of(1, 2);
  const importance = new Importance(new Map([["blk.0.attn_gate", means]])).inFolders(
    openModel(randomModel("qwen3next")),
  );
  expect(importance.means.get("blk.0.ssm_in")).toEqual(means);
});

test("what decides how states change stays in many bits, in files and in folders", async () => {
  const model = randomModel("qwen35moe");
  const { tensors } = readGguf(await quantised(model, "Q4_K_M"));
  const types = (names: readonly string[]) => names.map((name) => tensors.get(`blk.0.${name}`)!.type);
  expect(types(["ssm_alpha.weight", "ssm_beta.weight"])).toEqual(["F16", "F16"]);
  const vectors = ["ssm_a", "ssm_dt.bias", "ssm_conv1d.weight", "ssm_norm.weight", "ffn_gate_inp_shexp.weight"];
  expect(types(vectors)).toEqual(vectors.map(() => "F32"));
  expect(types(["attn_gate.weight", "ssm_out.weight"])).toEqual(["Q4_K", "Q4_K"]);
  expect(readGguf(await quantised(randomModel("qwen3next"), "Q2_K")).tensors.get("blk.0.ssm_ba.weight")!.type).toBe(
    "F16",
  );
  const folder = await quantised(model, "FP8");
  const { quantization_config } = JSON.parse(readFileSync(join(folder, "config.json"), "utf8"));
  const ofLayer = (quantization_config.ignore as readonly string[]).filter((name) => name.includes("layers.0."));
  expect(ofLayer.map((name) => name.replace("model.layers.0.", "")).sort()).toEqual([
    "linear_attn.conv1d",
    "linear_attn.in_proj_a",
    "linear_attn.in_proj_b",
    "mlp.gate",
    "mlp.shared_expert_gate",
  ]);
});

test("projections that engines multiply as one share their scale", async () => {
  const { files } = readHfFolder(await quantised(randomModel("qwen35"), "FP8_TENSOR"));
  const [ofProjections, ofGates, ofOutput] = ["in_proj_qkv", "in_proj_z", "out_proj"].map((name) => {
    const layer = new LayerTensors(files, `model.layers.0.linear_attn.${name}`);
    return layer.floats(layer.find("weight_scale")!)[0]!;
  });
  expect(ofGates).toBe(ofProjections);
  expect(ofOutput).not.toBe(ofProjections);
});
