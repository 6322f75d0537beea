/** Cosines and sines of a step's positions, one table for each rope of the model. */
import type { Backend } from "../../backend/backend.js";
import type { BufferHandle } from "../../backend/handles.js";
import type { Program } from "../../backend/program.js";
import { ropeFrequencies } from "../../model/description/rope.js";
import type { ServableModel } from "../../model/description/servable.js";
import type { StepBatch } from "../step/step-batch.js";
import type { ModelWeights } from "./weights.js";

export interface RopeTable {
  /** [M, half, 2] cosine and sine of the step's positions */
  readonly table: BufferHandle;
  /** [half] */
  readonly invFreq: BufferHandle;
  readonly half: number;
  readonly magnitude: number;
}

/** @param maxModelLen the served context, which selects short or long factors */
export function createRopeTables(
  { ropes }: ServableModel,
  { ropeFactors, ropeFactorsShort, ropeFactorsLong }: ModelWeights,
  backend: Backend,
  maxRows: number,
  maxModelLen: number,
): readonly RopeTable[] {
  // Models without ropes: a table of no columns.
  if (ropes.length === 0) {
    return [{ table: backend.allocate(8), invFreq: backend.allocate(8), half: 0, magnitude: 1 }];
  }
  return ropes.map((rope, index) => {
    const byLength = maxModelLen > rope.originalContextLength ? ropeFactorsLong : ropeFactorsShort;
    // Factors are of the model's rope, not of the one that layers with a window have for themselves.
    const { invFreq, magnitude } = ropeFrequencies(rope, index === 0 ? (byLength ?? ropeFactors) : undefined);
    const half = invFreq.length;
    const handle = backend.allocate(invFreq.byteLength);
    backend.write(handle, 0, invFreq);
    return { table: backend.allocate(maxRows * half * 8), invFreq: handle, half, magnitude };
  });
}

export function recordRopeTables(
  program: Program,
  tables: readonly RopeTable[],
  { positions, numRows }: StepBatch,
): void {
  for (const { table, invFreq, half, magnitude } of tables) {
    const operands = { out: table, positions: positions.buffer, invFreq, numRows, half, magnitude };
    program.record("ropeTable", operands, { concurrent: true });
  }
}
