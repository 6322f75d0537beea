/** A drafting layer with its own keys and values, and the computation of its attention's inputs. */
import type { BufferHandle } from "../../backend/handles.js";
import type { Program } from "../../backend/program.js";
import type { ServableModel } from "../../model/description/servable.js";
import type { ModelWeights } from "../blocks/weights.js";
import type { StepBatch } from "../step/step-batch.js";

export interface DraftingLayer {
  readonly name: string;
  /** The one layer, and the model's vocabulary. */
  readonly config: ServableModel;
  readonly weights: ModelWeights;
  /** Layers of the model, from 0 on, whose inputs it reads; their number stands for the last one's output. */
  readonly inputLayers: readonly number[];
  /** Its own states are read as they are before its final norm; false: after it. */
  readonly readsUnnormed: boolean;
  /** Fills `hidden` [rows, width] for each row of the batch, whose token is the one after the row's position. */
  recordInput(program: Program, hidden: BufferHandle, states: HeadStates, batch: StepBatch): void;
}

interface HeadStates {
  /** By input layer [*, model's width]; or the one of the layer's own states [*, width]. */
  readonly buffers: readonly BufferHandle[];
  readonly areOwn: boolean;
  /** i32 [rows]: rows of these buffers. */
  readonly rows: BufferHandle;
}
