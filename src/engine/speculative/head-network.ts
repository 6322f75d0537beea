/** The layers of trained heads up to the output matrix, and the parts of the model that they read. */
import type { BufferHandle } from "../../backend/handles.js";
import type { Program } from "../../backend/program.js";
import type { ServableModel } from "../../model/description/servable.js";
import type { Linear } from "../blocks/binder.js";
import type { Transformer } from "../blocks/transformer.js";
import type { ModelWeights } from "../blocks/weights.js";
import type { KvManager } from "../memory/kv-manager.js";
import type { StepBatch } from "../step/step-batch.js";

export interface HeadNetwork {
  readonly name: string;
  /** Has no layers: `recordInput` computes everything before the final norm. */
  readonly config: ServableModel;
  readonly weights: ModelWeights;
  /** By depth of a guess: its output matrix; absent: that of `weights`. */
  readonly outputs?: readonly Linear[];
  /** Length of the longest draft, in tokens. */
  readonly maxTokens: number;
  /**
   * true: each drafted token after the first is computed from a state of the network's own; false: all from the model's
   * state.
   */
  readonly readsOwn: boolean;
  /**
   * Fills `hidden` [rows, width] for the guess at `depth` (from 0 on; 1 for all later ones of a layer), for each row of
   * the batch, whose token is the one at its position and whose `kvLengths` say how much of the model's past it sees.
   * @param states for each row the hidden state before its token: the model's [rows, model's width], or what a layer
   * made itself [rows, width]
   */
  recordInput(program: Program, hidden: BufferHandle, states: States, batch: StepBatch, depth: number): void;
}

interface States {
  readonly buffer: BufferHandle;
  readonly areOwn: boolean;
}

/** The model that heads draft for, and the parts that they read. */
export interface HeadsTarget {
  readonly config: ServableModel;
  readonly weights: ModelWeights;
  readonly transformer: Transformer;
  readonly batch: StepBatch;
  readonly kv: KvManager;
}
