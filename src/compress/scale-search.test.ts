/**
 * The search for scales: scales level outliers, never worsen the error, and stay at one where they cannot be judged.
 */
import { expect, test } from "vitest";
import { TestRng } from "../../test/helpers/rng.js";
import { createRowEncoder } from "../backend/create/create-backend.js";
import type { TensorSource } from "../backend/tensor-source.js";
import type { ModelTensor } from "../convert/weights/tensors.js";
import { dequantizeRow } from "../formats/dequantize.js";
import { encodeValues } from "../formats/files/plain-values.js";
import type { Channels } from "./channels.js";
import { type FolderMethod, roundedAs } from "./folder-formats.js";
import { type Scaling, searchScales } from "./scale-search.js";

const [ROWS, COLS, TOKENS] = [48, 64, 200];

interface Layer {
  readonly inputs: Float32Array;
  readonly weights: Float32Array;
  readonly gains: Float32Array;
}

/**
 * Inputs [TOKENS, COLS] and weights [ROWS, COLS]. In the first four channels, inputs are scaled by `factor` and weights
 * by `weightFactor`.
 */
function layerWith(seed: number, factor: number, weightFactor = 1 / factor): Layer {
  const rng = new TestRng(seed);
  const normal = (): number => Math.sqrt(-2 * Math.log(1 - rng.next())) * Math.cos(2 * Math.PI * rng.next());
  const scaleOf = (at: number, by: number): number => (at % COLS < 4 ? by : 1);
  return {
    inputs: Float32Array.from({ length: TOKENS * COLS }, (_, at) => normal() * scaleOf(at, factor)),
    weights: Float32Array.from({ length: ROWS * COLS }, (_, at) => 0.05 * normal() * scaleOf(at, weightFactor)),
    gains: Float32Array.from({ length: COLS }, () => 1 + 0.3 * normal()),
  };
}

const CHANNELS: Channels = {
  maker: { norm: "norm.weight" },
  readers: ["matrix.weight"],
  cols: COLS,
  count: COLS,
  channelOf: (col) => col,
};

const squaresOf = ({ inputs }: Layer): Float64Array =>
  Float64Array.from(
    { length: COLS },
    (_, col) => inputs.reduce((sum, value, at) => sum + (at % COLS === col ? value * value : 0), 0) / TOKENS,
  );

function sourceOf({ weights, gains }: Layer): TensorSource {
  return {
    has: () => true,
    expectNoOthers: () => {},
    values: () => gains,
    matrix: ({ start, rows }) => ({
      type: "F32",
      convert: (target) => new Float32Array(target).set(weights.subarray(start * COLS, (start + rows) * COLS)),
    }),
  };
}

const encoder = createRowEncoder(1);

function search(layer: Layer, method: FolderMethod, scaling: Scaling, squares = squaresOf(layer)) {
  const tensor: ModelTensor = { name: "matrix.weight", shape: [ROWS, COLS] };
  return searchScales(CHANNELS, squares, {
    scaling,
    tensors: new Map([[tensor.name, tensor]]),
    source: sourceOf(layer),
    rowsAfter: () => (values, cols, weights) => roundedAs(method, "F16", values, cols, { encoder, weights }),
  });
}

/** Each token's values rounded to 8 bits, by its largest magnitude. */
function roundedInputs(inputs: Float32Array): Float32Array {
  const out = new Float32Array(inputs.length);
  for (let start = 0; start < inputs.length; start += COLS) {
    const row = inputs.subarray(start, start + COLS);
    const step = row.reduce((most, value) => Math.max(most, Math.abs(value)), 0) / 127;
    out.set(
      row.map((value) => Math.round(value / step) * step),
      start,
    );
  }
  return out;
}

/** Mean square change of the products when weights, and for smoothquant inputs, are rounded after `scales`. */
function productError({ inputs, weights }: Layer, method: FolderMethod, scaling: Scaling, scales: Float32Array) {
  const scaledWeights = weights.map((value, at) => value * scales[at % COLS]!);
  const scaledInputs = inputs.map((value, at) => value / scales[at % COLS]!);
  const after = roundedAs(method, "F16", scaledWeights, COLS, { encoder, weights: undefined });
  const before = scaling === "smoothquant" ? roundedInputs(scaledInputs) : scaledInputs;
  let error = 0;
  for (let token = 0; token < TOKENS; token++) {
    for (let row = 0; row < ROWS; row++) {
      let difference = 0;
      for (let col = 0; col < COLS; col++) {
        const [x, w] = [token * COLS + col, row * COLS + col];
        difference += before[x]! * after[w]! - inputs[x]! * weights[w]!;
      }
      error += difference ** 2;
    }
  }
  return error / (TOKENS * ROWS);
}

const ONES = new Float32Array(COLS).fill(1);
const CASES = [
  ["INT4_32", "awq", 0.3],
  ["INT4_64", "awq", 0.3],
  ["INT8", "smoothquant", 0.05],
] as const;

test.each(CASES)("%s, %s: outliers cost what they did not cost before", (method, scaling, most) => {
  const [layer, level] = [layerWith(1, 30), layerWith(1, 1)];
  const scales = search(layer, method, scaling)!;
  const error = productError(layer, method, scaling, scales);
  expect(error).toBeLessThan(most * productError(layer, method, scaling, ONES));
  expect(error).toBeLessThan(1.3 * productError(level, method, scaling, ONES));
});

test.each(CASES)("%s, %s: whatever the layer, scales are about as good as none or better", (method, scaling) => {
  for (let seed = 2; seed < 8; seed++) {
    const layer = layerWith(seed, 2 ** (seed - 4));
    const scales = search(layer, method, scaling) ?? ONES;
    const ratio = productError(layer, method, scaling, scales) / productError(layer, method, scaling, ONES);
    expect(ratio).toBeLessThan(1.1);
  }
});

test("large weights are levelled where inputs are all alike", () => {
  const layer = layerWith(1, 1, 30);
  const scales = search(layer, "INT4_64", "awq")!;
  const error = productError(layer, "INT4_64", "awq", scales);
  expect(error).toBeLessThan(0.5 * productError(layer, "INT4_64", "awq", ONES));
});

test("smoothquant weighs rounded inputs too: both errors together are less than with awq's scales", () => {
  const ratios = [1, 2, 3].map((seed) => {
    const layer = layerWith(seed, 30, 1);
    const [smooth, awq] = (["smoothquant", "awq"] as const).map((scaling) =>
      productError(layer, "INT8", "smoothquant", search(layer, "INT8", scaling)!),
    );
    return smooth! / awq!;
  });
  for (const ratio of ratios) expect(ratio).toBeLessThan(0.9);
});

test("gains of the norm stay numbers of bfloat16", () => {
  const layer = layerWith(3, 30);
  const scales = search(layer, "INT4_32", "awq")!;
  const divided = layer.gains.map((gain, i) => gain / scales[i]!);
  const brains = dequantizeRow("BF16", encodeValues("BF16", divided), COLS);
  for (const [i, gain] of divided.entries()) expect(Math.abs(gain / brains[i]! - 1)).toBeLessThan(1e-6);
});

test("channels without inputs, weights or gains are left alone, and others are scaled", () => {
  const layer = layerWith(4, 30);
  for (let token = 0; token < TOKENS; token++) layer.inputs[token * COLS] = 0;
  for (let row = 0; row < ROWS; row++) layer.weights[row * COLS + 1] = 0;
  layer.gains[2] = 0;
  for (const [method, scaling] of CASES) {
    const scales = search(layer, method, scaling)!;
    expect(scales.every((scale) => scale > 1e-4 && scale < 1e4)).toBe(true);
    expect(scales[2]).toBe(1);
    expect(scales[3]).not.toBe(1);
  }
  expect(search(layer, "INT4_32", "awq", new Float64Array(COLS))).toBeUndefined();
});

test("inputs or weights that are not finite give no scales", () => {
  const layer = layerWith(5, 30);
  for (const bad of [Number.NaN, Number.POSITIVE_INFINITY]) {
    expect(search(layer, "INT4_32", "awq", squaresOf(layer).fill(bad, 7, 8))).toBeUndefined();
  }
  layer.weights[100] = Number.NaN;
  expect(search(layer, "INT4_32", "awq")).toBeUndefined();
});
