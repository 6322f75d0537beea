/**
 * Memory of recurrent layers: slots, which `StateSlots` gives to sequences, drafts and cached prefixes. The rows of a
 * step name the slots that they continue and leave (`StepBatch`), so nothing here is cleared or moved.
 */
import type { Backend } from "../../backend/backend.js";
import { type BufferHandle, NO_BUFFER } from "../../backend/handles.js";
import { isRecurrentMixer } from "../../model/description/model-description.js";
import type { ServableModel } from "../../model/description/servable.js";
import { stateValues } from "../../model/description/sizes.js";

/** One layer's slots, as `causalConv` and `deltaRule` lay them out. */
export interface LayerState {
  readonly past: BufferHandle;
  /** NO_BUFFER: the layer is a convolution alone. */
  readonly recurrent: BufferHandle;
  readonly numSlots: number;
}

export class RecurrentStates {
  readonly #layers: readonly (LayerState | undefined)[];

  constructor({ layers }: ServableModel, numSlots: number, backend: Backend) {
    this.#layers = layers.map(({ mixer }) => {
      if (!isRecurrentMixer(mixer)) return undefined;
      const { recurrent, past } = stateValues(mixer);
      const floats = (count: number) => (count === 0 ? NO_BUFFER : backend.allocate(numSlots * count * 4));
      // A convolution of one token keeps nothing, and its operation still takes a buffer.
      return { past: floats(Math.max(past, 1)), recurrent: floats(recurrent), numSlots };
    });
  }

  layer(index: number): LayerState {
    return this.#layers[index]!;
  }
}
