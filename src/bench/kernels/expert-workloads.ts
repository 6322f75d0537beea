/** The products of a mixture of experts, for each weight type and number of token rows. */

import type { BufferHandle, WeightStackHandle } from "../../backend/handles.js";
import { generator } from "../../core/random.js";
import { BLOCK_LAYOUT, type WeightType } from "../../formats/dequantize.js";
import { inputOf, type MatrixShape, matrixBytes, mixOf, WEIGHT_BYTES, weightsOf } from "./linear-workloads.js";
import type { KernelWorkload, Recording } from "./workload.js";

/** A layer of the benchmarks' mixtures of experts. */
const WIDTH = 1024;
const INNER = 384;
const NUM_EXPERTS = 64;
const NUM_CHOSEN = 8;

const MIN_LAYERS = 2;
const MAX_MACS = 8e9;

interface Routing {
  /** [experts, 3], as `groupExperts` writes them. */
  readonly groups: readonly number[];
  readonly numUsed: number;
}

/** Every row chooses its experts at random. */
function routingOf(numRows: number): Routing {
  const next = generator(numRows);
  const counts = new Array<number>(NUM_EXPERTS).fill(0);
  for (let row = 0; row < numRows; row++) {
    const chosen = new Set<number>();
    while (chosen.size < NUM_CHOSEN) chosen.add(next() % NUM_EXPERTS);
    for (const expert of chosen) counts[expert]!++;
  }
  const used = counts.flatMap((count, expert) => (count > 0 ? [{ expert, count }] : []));
  let place = 0;
  const groups = used
    .sort((a, b) => b.count - a.count)
    .flatMap(({ expert, count }) => {
      place += count;
      return [expert, place - count, count];
    });
  return { groups: [...groups, ...new Array<number>(3 * (NUM_EXPERTS - used.length)).fill(0)], numUsed: used.length };
}

/** Gate and up, and down where the type's blocks fit its columns. */
export function expertWorkloads(type: WeightType, numRows: number): KernelWorkload[] {
  const gated = expertWorkload("expertGatedLinear", { type, rows: INNER, cols: WIDTH }, numRows);
  if (INNER % BLOCK_LAYOUT[type].numValues !== 0) return [gated];
  return [gated, expertWorkload("expertLinear", { type, rows: WIDTH, cols: INNER }, numRows)];
}

function expertWorkload(
  op: "expertGatedLinear" | "expertLinear",
  matrix: MatrixShape,
  numRows: number,
): KernelWorkload {
  const routing = routingOf(numRows);
  const perExpert = op === "expertLinear" ? 1 : 2;
  const bytes = matrixBytes(matrix);
  const numSlots = numRows * NUM_CHOSEN;
  const macs = numSlots * perExpert * matrix.rows * matrix.cols;
  return {
    op: `${op} ${matrix.type}`,
    shape: `${numRows} × ${matrix.cols} → ${matrix.rows}, ${NUM_CHOSEN} of ${NUM_EXPERTS}`,
    macs,
    bytes: routing.numUsed * perExpert * bytes,
    mix: mixOf(matrix.type),
    record: (recording) => {
      const fitting = Math.floor(MAX_MACS / macs);
      const layerBytes = NUM_EXPERTS * perExpert * bytes;
      const numLayers = Math.max(MIN_LAYERS, Math.min(fitting, Math.ceil(WEIGHT_BYTES / layerBytes)));
      const x = inputOf(recording, matrix, numSlots);
      const [out, scratch] = [
        recording.filled(4 * numSlots * matrix.rows),
        recording.filled(4 * numSlots * matrix.rows),
      ];
      const groups = recording.i32(routing.groups);
      for (let layer = 0; layer < numLayers; layer++) {
        const stacks = stacksOf(recording, matrix, perExpert);
        recordLayer(recording, { out, scratch, x, groups, numSlots }, stacks);
      }
      return numLayers;
    },
  };
}

function stacksOf(recording: Recording, matrix: MatrixShape, numStacks: number): WeightStackHandle[] {
  return Array.from({ length: numStacks }, () =>
    recording.device.createWeightStack(weightsOf(recording, matrix, NUM_EXPERTS)),
  );
}

interface LayerOperands {
  readonly out: BufferHandle;
  readonly scratch: BufferHandle;
  readonly x: BufferHandle;
  readonly groups: BufferHandle;
  readonly numSlots: number;
}

/** @param stacks of gate and up, or of down */
function recordLayer({ program }: Recording, operands: LayerOperands, stacks: readonly WeightStackHandle[]): void {
  const { out, scratch, x, groups, numSlots } = operands;
  const [weights, upWeights] = stacks;
  if (upWeights === undefined) {
    program.record("expertLinear", { out, x, weights: weights!, groups, numSlots });
    return;
  }
  const gated = { gateX: x, gateWeights: weights!, upX: x, upWeights, kind: "silu" } as const;
  program.record("expertGatedLinear", { out, scratch, ...gated, groups, numSlots });
}
