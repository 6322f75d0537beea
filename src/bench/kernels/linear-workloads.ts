/** `linear` for each weight type and number of token rows. */

import { activationRowBytes, packedByteLength } from "../../backend/cpu/library/packing.js";
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
const WEIGHT_BYTES = 256 * 2 ** 20;
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
  Q8_0: "wide",
  IQ4_NL: "wide",
  IQ4_XS: "wide",
  BF16_BF16: "bfloat",
};

export const mixOf = (type: WeightType): Mix => MIX_OF[type] ?? "float";

export function linearWorkload(type: WeightType, numRows: number): KernelWorkload {
  const { numValues, byteLength } = BLOCK_LAYOUT[type];
  const fileBytes = ((WEIGHT_ROWS * WEIGHT_COLS) / numValues) * byteLength;
  const bytes = packedByteLength(type, WEIGHT_ROWS, WEIGHT_COLS) ?? fileBytes;
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
      const x = inputOf(recording, type, numRows);
      const out = recording.filled(4 * numRows * WEIGHT_ROWS);
      const weights = weightsOf(recording, type, numWeights, fileBytes);
      for (const weight of weights) recording.program.record("linear", { out, x, weight, numRows });
      return numWeights;
    },
  };
}

/** Weights in the engine's layout, each in separate memory; packed if the type has a packed form. */
function weightsOf(recording: Recording, type: WeightType, numWeights: number, fileBytes: number): WeightHandle[] {
  const { device } = recording;
  const source = recording.filled(numWeights * fileBytes);
  const rows = Array.from({ length: numWeights }, (_, index) =>
    device.createWeight(source, index * fileBytes, type, WEIGHT_ROWS, WEIGHT_COLS),
  );
  const packedBytes = packedByteLength(type, WEIGHT_ROWS, WEIGHT_COLS);
  if (packedBytes === undefined) return rows;
  const packed = device.allocate(numWeights * packedBytes);
  const program = new Program();
  rows.forEach((weight, index) => {
    program.record("pack", { out: packed, byteOffset: index * packedBytes, weight });
  });
  device.submit(program.words, program.numWords);
  return rows.map((weight, index) => {
    device.releaseWeight(weight);
    return device.createWeight(packed, index * packedBytes, type, WEIGHT_ROWS, WEIGHT_COLS, true);
  });
}

/** Activations [numRows, WEIGHT_COLS] in the format that the weight type needs. */
function inputOf(recording: Recording, type: WeightType, numRows: number): BufferHandle {
  const x = recording.filled(4 * numRows * WEIGHT_COLS);
  const format = activationsOf(type, packedByteLength(type, numRows, WEIGHT_COLS) !== undefined);
  if (format === "f32") return x;
  const quantized = recording.device.allocate(numRows * activationRowBytes(format, WEIGHT_COLS));
  const program = new Program();
  program.record("quantize", { out: quantized, x, numRows, width: WEIGHT_COLS, format });
  recording.device.submit(program.words, program.numWords);
  return quantized;
}
