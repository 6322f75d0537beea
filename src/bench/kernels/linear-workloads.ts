/** `linear` for each weight type and number of token rows. */

import { activationRowBytes, packedActivations, packedByteLength } from "../../backend/cpu/library/packing.js";
import { activationsOf } from "../../backend/cpu/product-type.js";
import type { BufferHandle, WeightHandle } from "../../backend/handles.js";
import { Program } from "../../backend/program.js";
import { BLOCK_LAYOUT, type WeightType } from "../../formats/dequantize.js";
import type { Mix } from "./probes.js";
import type { KernelWorkload, Recording } from "./workload.js";

/** A feed-forward matrix of the benchmarks' 1.1B models. */
const WEIGHT_ROWS = 5632;
const WEIGHT_COLS = 2048;

/** Total weights of a program: far more than any cache holds, except for many rows, which would take too long. */
export const WEIGHT_BYTES = 256 * 2 ** 20;
const MAX_MACS = 8e9;
const MIN_WEIGHTS = 2;

/** The instruction mix of each weight type's kernel. */
const MIX_OF: Readonly<Partial<Record<WeightType, Mix>>> = {
  Q4_0: "narrow8",
  Q4_1: "narrow8",
  Q4_K: "narrow8",
  Q5_0: "narrow4",
  Q5_1: "narrow4",
  Q5_K: "narrow4",
  Q6_K: "scaled4",
  Q2_K: "scaled4",
  Q3_K: "scaled4",
  MXFP4: "narrow4",
  NVFP4: "narrow4",
  IQ2_XXS: "scaled4",
  IQ2_XS: "scaled4",
  IQ2_S: "scaled4",
  IQ3_XXS: "scaled4",
  IQ3_S: "narrow8",
  IQ1_S: "narrow8",
  IQ1_M: "scaled4",
  TQ1_0: "narrow8",
  TQ2_0: "narrow8",
  Q8_0: "wide",
  IQ4_NL: "wide",
  IQ4_XS: "wide",
  BF16_BF16: "bfloat",
  F8_E4M3_BF16: "bfloat",
};

export const mixOf = (type: WeightType): Mix => MIX_OF[type] ?? "float";

export function linearWorkload(type: WeightType, numRows: number): KernelWorkload {
  const bytes = matrixBytes({ type, rows: WEIGHT_ROWS, cols: WEIGHT_COLS });
  const macs = numRows * WEIGHT_ROWS * WEIGHT_COLS;
  return {
    op: `linear ${type}`,
    shape: `${numRows} × ${WEIGHT_COLS} → ${WEIGHT_ROWS}`,
    macs,
    bytes,
    mix: mixOf(type),
    record: (recording) => {
      const fitting = Math.floor(MAX_MACS / macs);
      const numWeights = Math.max(MIN_WEIGHTS, Math.min(fitting, Math.ceil(WEIGHT_BYTES / bytes)));
      const matrix = { type, rows: WEIGHT_ROWS, cols: WEIGHT_COLS };
      const x = inputOf(recording, matrix, numRows);
      const out = recording.filled(4 * numRows * WEIGHT_ROWS);
      const weights = weightsOf(recording, matrix, numWeights);
      for (const weight of weights) recording.program.record("linear", { out, x, weight, numRows });
      return numWeights;
    },
  };
}

export interface MatrixShape {
  readonly type: WeightType;
  readonly rows: number;
  readonly cols: number;
}

/** Bytes of a matrix as a step reads it: packed if the type has a packed form. */
export function matrixBytes({ type, rows, cols }: MatrixShape): number {
  return packedByteLength(type, rows, cols) ?? fileBytes({ type, rows, cols });
}

function fileBytes({ type, rows, cols }: MatrixShape): number {
  const { numValues, byteLength } = BLOCK_LAYOUT[type];
  return ((rows * cols) / numValues) * byteLength;
}

/** Weights in the engine's layout, one after another; packed if the type has a packed form. */
export function weightsOf(recording: Recording, shape: MatrixShape, numWeights: number): WeightHandle[] {
  const { device } = recording;
  const { type, rows, cols } = shape;
  const inFile = fileBytes(shape);
  const source = recording.filled(numWeights * inFile);
  const unpacked = Array.from({ length: numWeights }, (_, index) =>
    device.createWeight(source, index * inFile, type, rows, cols),
  );
  const packedBytes = packedByteLength(type, rows, cols);
  if (packedBytes === undefined) return unpacked;
  const packed = device.allocate(numWeights * packedBytes);
  const program = new Program();
  unpacked.forEach((weight, index) => {
    program.record("pack", { out: packed, byteOffset: index * packedBytes, weight });
  });
  device.submit(program.words, program.numWords);
  return unpacked.map((weight, index) => {
    device.releaseWeight(weight);
    return device.createWeight(packed, index * packedBytes, type, rows, cols, true);
  });
}

/** Activations [numRows, cols] in the format that the weight type needs. */
export function inputOf(recording: Recording, { type, cols }: MatrixShape, numRows: number): BufferHandle {
  const x = recording.filled(4 * numRows * cols);
  const format = activationsOf(type, packedActivations(type) !== undefined);
  if (format === "f32") return x;
  const quantized = recording.device.allocate(numRows * activationRowBytes(format, cols));
  const program = new Program();
  program.record("quantize", { out: quantized, x, numRows, width: cols, format });
  recording.device.submit(program.words, program.numWords);
  return quantized;
}
