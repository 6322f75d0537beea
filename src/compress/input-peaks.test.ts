/** Fixed scales of inputs, and their entries for TensorRT-LLM and vLLM. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { repositoryRoot } from "../../test/helpers/fixtures.js";
import { tempTree } from "../../test/scripts/temp-tree.js";
import { silentStages } from "../core/stages.js";
import { ActivationMeter } from "../engine/activation-meter.js";
import { DEFAULT_ENGINE_OPTIONS } from "../engine/api/options.js";
import { readHfFolder } from "../formats/hf/folder.js";
import { LayerTensors } from "../model/hf/quantized/tensors.js";
import { importanceOf, measureImportance } from "./importance.js";
import { InputPeaks } from "./input-peaks.js";
import { journaled } from "./journal.js";
import { measureLoss } from "./loss.js";
import { type QuantiseSettings, quantise } from "./quantise.js";

const STUDENT = join(repositoryRoot(), "models/mill-student.gguf");
const TEXTS = [90, 120].map((length) => Array.from({ length }, (_, i) => (i * 37 + length) % 4000));
const { signal } = new AbortController();

async function copyOf(texts: QuantiseSettings["texts"]) {
  const out = join(tempTree({}), "copy");
  const importance = importanceOf(await measureImportance(STUDENT, TEXTS, 1, silentStages, signal));
  const settings = {
    model: STUDENT,
    out,
    methods: ["FP8_TENSOR"],
    layout: "compressed-tensors",
    importance,
    texts,
    scaling: undefined,
  } as const;
  const about = { model: "student", calibration: undefined, evals: undefined };
  const others = { rounding: "nearest", about, numThreads: 1, heldOut: [], gate: undefined } as const;
  await journaled(out, {}, (journal) => quantise({ ...settings, ...others, journal }, silentStages, () => {}, signal));
  const { files } = readHfFolder(out);
  const scaleOf = (layer: string): number => {
    const tensors = new LayerTensors(files, `model.layers.0.${layer}`);
    return tensors.floats(tensors.get("input_scale", ["F32"], [1]))[0]!;
  };
  const { quantization_config: config } = JSON.parse(readFileSync(join(out, "config.json"), "utf8"));
  return { out, scaleOf, activations: config.config_groups.group_0.input_activations };
}

test("with texts, inputs have the scale of their largest magnitude, and ModelOpt's file says so", async () => {
  const { out, scaleOf, activations } = await copyOf(TEXTS);
  expect(activations).toMatchObject({ type: "float", num_bits: 8, strategy: "tensor", dynamic: false });
  expect(JSON.parse(readFileSync(join(out, "hf_quant_config.json"), "utf8"))).toEqual({
    producer: { name: "millrace", version: expect.any(String) },
    quantization: { quant_algo: "FP8", kv_cache_quant_algo: null, exclude_modules: ["lm_head"] },
  });
  const meter = await ActivationMeter.open({
    ...DEFAULT_ENGINE_OPTIONS,
    modelPath: STUDENT,
    numThreads: 1,
    maxModelLen: 120,
  });
  const found = await meter.largest(TEXTS, async () => {});
  meter.close();
  const peakOf = (name: string): number =>
    Math.max(...found.find(({ names }) => names.includes(`blk.0.${name}`))!.largest);
  for (const [layer, name] of [
    ["self_attn.q_proj", "attn_q"],
    ["self_attn.v_proj", "attn_q"],
    ["self_attn.o_proj", "attn_output"],
    ["mlp.up_proj", "ffn_gate"],
    ["mlp.down_proj", "ffn_down"],
  ] as const) {
    expect(scaleOf(layer), layer).toBe(Math.fround(peakOf(name) / 448));
  }
  // This engine computes with unrounded inputs.
  expect((await measureLoss(STUDENT, out, TEXTS, 1, silentStages, signal)).meanKl).toBeLessThan(0.1);
});

test("without texts there is no fixed scale and no file of ModelOpt's", async () => {
  const { out, activations, scaleOf } = await copyOf([]);
  expect(activations).toMatchObject({ strategy: "token", dynamic: true });
  expect(existsSync(join(out, "hf_quant_config.json"))).toBe(false);
  expect(() => scaleOf("self_attn.q_proj")).toThrow("input_scale");
});

test("inputs that were divided have the range that is left, and matrices that no text used the scale 1", () => {
  const peaks = new InputPeaks(
    new Map([
      ["blk.0.attn_q", Float32Array.of(896, 224)],
      ["blk.0.ffn_down_exps", Float32Array.of(0, 0)],
    ]),
  );
  expect(peaks.scaleOf("blk.0.attn_q.weight")).toBe(2);
  expect(peaks.scaleOf("blk.0.attn_q", Float32Array.of(8, 1))).toBe(0.5);
  expect(peaks.scaleOf("blk.0.ffn_down_exps.weight")).toBe(1);
});
