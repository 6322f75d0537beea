/** The part of a layer in which the tokens of a sequence meet. */
import type { BufferHandle } from "../../backend/handles.js";
import type { Program } from "../../backend/program.js";
import type { StepBatch } from "../step/step-batch.js";
import type { Rows } from "./last-rows.js";

export interface LayerMixer {
  /** Records what all rows leave for later tokens. @param hidden [numRows, width] */
  store(program: Program, hidden: BufferHandle, batch: StepBatch): void;
  /** Records the counting of the observed rows' attention. Call after `store`. */
  observe(program: Program, batch: StepBatch): void;
  /**
   * Adds the part's output to the residual stream, where `store` has not. Call after `store`.
   * @param rows all rows of the batch, or the rows that the layer still has to compute
   */
  attend(program: Program, batch: StepBatch, rows: Rows): void;
}

/** Of layers that mix no tokens. */
export const NO_MIXING: LayerMixer = { store() {}, observe() {}, attend() {} };
