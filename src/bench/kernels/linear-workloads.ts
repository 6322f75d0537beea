/** `linear` over each weight type and number of token rows. */
import { TENSOR_TYPES } from "../../formats/gguf/tensor-types.js";
import type { TensorType } from "../../formats/gguf/types.js";
import { NO_BUFFER } from "../../kernels/kernels.js";
import type { Mix } from "./probes.js";
import type { Room, Workload } from "./workload.js";

/** A feed-forward matrix of the 1.1B models the benchmarks use. */
const WEIGHT_ROWS = 5632;
const WEIGHT_COLS = 2048;

/** Together the weights of a program are far beyond any cache, unless that takes too long with many rows. */
const WEIGHT_BYTES = 256 * 2 ** 20;
const MAX_MACS = 8e9;
const MIN_WEIGHTS = 2;

/** The products of each type's kernel. */
const MIX_OF: Readonly<Partial<Record<TensorType, Mix>>> = {
  Q4_0: "narrow8",
  Q4_1: "narrow8",
  Q4_K: "narrow8",
  Q5_0: "narrow4",
  Q5_1: "narrow4",
  Q5_K: "narrow4",
  Q6_K: "narrow4",
  Q2_K: "narrow4",
  Q3_K: "narrow4",
  MXFP4: "narrow4",
  Q8_0: "wide",
  IQ4_NL: "wide",
  IQ4_XS: "wide",
};

export function linearWorkload(type: TensorType, numRows: number): Workload {
  const { blockSize, blockBytes } = TENSOR_TYPES[type];
  const weightBytes = ((WEIGHT_ROWS * WEIGHT_COLS) / blockSize) * blockBytes;
  const macs = numRows * WEIGHT_ROWS * WEIGHT_COLS;
  return {
    op: `linear ${type}`,
    shape: `${numRows} × ${WEIGHT_COLS} → ${WEIGHT_ROWS}`,
    macs,
    mix: MIX_OF[type] ?? "float",
    bytes: weightBytes,
    record: (room) => {
      const fitting = Math.floor(MAX_MACS / macs);
      const numWeights = Math.max(MIN_WEIGHTS, Math.min(fitting, Math.ceil(WEIGHT_BYTES / weightBytes)));
      recordLinears(room, type, numRows, numWeights, weightBytes);
      return numWeights;
    },
  };
}

function recordLinears(room: Room, type: TensorType, numRows: number, numWeights: number, weightBytes: number): void {
  const source = room.filled(numWeights * weightBytes);
  const x = room.filled(4 * numRows * WEIGHT_COLS);
  const out = room.filled(4 * numRows * WEIGHT_ROWS);
  for (let index = 0; index < numWeights; index++) {
    const weight = room.device.createWeight(source, index * weightBytes, type, WEIGHT_ROWS, WEIGHT_COLS);
    room.program.linear(out, x, weight, NO_BUFFER, numRows);
  }
}
