/** Selects the rows that the last layer still has to compute: rows whose logits or hidden states are read. */
import type { Backend, HostBuffer } from "../../backend/backend.js";
import { type BufferHandle, NO_BUFFER } from "../../backend/handles.js";
import type { Program } from "../../backend/program.js";
import type { ServableModel } from "../../model/description/servable.js";
import { gatesWidth, queryWidth } from "../../model/description/sizes.js";
import type { StepBatch } from "../step/step-batch.js";

/** Rows that pass through a layer: all of a step, or in the last layer the selected ones. */
export interface Rows {
  readonly numRows: number;
  /** [numRows, width] residual stream */
  readonly hidden: BufferHandle;
  /** [numRows, numHeads · headDim] */
  readonly query: BufferHandle;
  /** [numRows, gates of the layer], or NO_BUFFER where attention is not gated. */
  readonly gate: BufferHandle;
  /** Inputs of all layers, as `LayerInputs` has them, or NO_BUFFER */
  readonly layerInputs: BufferHandle;
  /** Per KV group: i32 [numRows] */
  readonly kvLengths: readonly HostBuffer<"i32">[];
  readonly windowBegins: HostBuffer<"i32">;
  readonly windowEnds: HostBuffer<"i32">;
  readonly sequenceIndex: HostBuffer<"i32">;
  /** Rows that get logits, and rows that keep their hidden state. */
  readonly logitRows: HostBuffer<"i32">;
  readonly hiddenTaps: HostBuffer<"i32">;
}

export class LastRows {
  readonly #width: number;
  /** Of the last layer; 0: heads have none. */
  readonly #queryWidth: number;
  readonly #gatesWidth: number;
  readonly #inputWidth: number;
  /** Row numbers in the batch. */
  readonly #rows: HostBuffer<"i32">;
  readonly #gathered: Omit<Rows, "numRows">;

  /** @param capacity most rows that can be selected */
  constructor(
    config: ServableModel,
    backend: Backend,
    private readonly capacity: number,
    numGroups: number,
  ) {
    this.#width = config.width;
    const last = config.layers.at(-1);
    this.#queryWidth = last === undefined ? 0 : queryWidth(last);
    this.#gatesWidth = last?.mixer.kind === "attention" ? gatesWidth(last.mixer) : 0;
    this.#inputWidth = config.layers.length * (config.layerInputWidth ?? 0);
    const ints = () => backend.input("i32", capacity);
    this.#rows = ints();
    this.#gathered = {
      hidden: backend.allocate(capacity * this.#width * 4),
      query: backend.allocate(capacity * this.#queryWidth * 4),
      gate: this.#gatesWidth > 0 ? backend.allocate(capacity * this.#gatesWidth * 4) : NO_BUFFER,
      layerInputs: this.#inputWidth === 0 ? NO_BUFFER : backend.allocate(capacity * this.#inputWidth * 4),
      kvLengths: Array.from({ length: numGroups }, ints),
      windowBegins: ints(),
      windowEnds: ints(),
      sequenceIndex: ints(),
      logitRows: ints(),
      hiddenTaps: ints(),
    };
  }

  /**
   * Selects the rows with logits or hidden taps, each once; both lists ascend.
   * @returns the number of selected rows, or of all rows if more than `capacity` would be selected
   */
  layOut(batch: StepBatch): number {
    const { numRows, numLogitRows, numHiddenTaps } = batch;
    const { kvLengths, windowBegins, windowEnds, sequenceIndex, logitRows, hiddenTaps } = this.#gathered;
    const most = Math.min(numRows, this.capacity);
    let count = 0;
    for (let i = 0, j = 0; i < numLogitRows || j < numHiddenTaps; count++) {
      if (count === most) return numRows;
      const logitRow = i < numLogitRows ? batch.logitRows.values[i]! : numRows;
      const tap = j < numHiddenTaps ? batch.hiddenTaps.values[j]! : numRows;
      const row = Math.min(logitRow, tap);
      this.#rows.values[count] = row;
      for (let group = 0; group < kvLengths.length; group++) {
        kvLengths[group]!.values[count] = batch.kvLengths[group]!.values[row]!;
      }
      windowBegins.values[count] = batch.windowBegins.values[row]!;
      windowEnds.values[count] = batch.windowEnds.values[row]!;
      sequenceIndex.values[count] = batch.sequenceIndex.values[row]!;
      if (logitRow === row) logitRows.values[i++] = count;
      if (tap === row) hiddenTaps.values[j++] = count;
    }
    return count;
  }

  /** Records the gathering of the selected rows from `all` rows of the batch. @param numRows as returned by `layOut` */
  gather(program: Program, all: Rows, numRows: number): Rows {
    const { hidden, query, gate, layerInputs } = this.#gathered;
    if (numRows > 0) {
      const rows = this.#rows.buffer;
      const width = this.#queryWidth;
      program.record("gatherRows", { out: hidden, x: all.hidden, rows, numRows, width: this.#width });
      // A recurrent layer has computed all rows by now.
      if (width > 0) program.record("gatherRows", { out: query, x: all.query, rows, numRows, width });
      if (this.#gatesWidth > 0)
        program.record("gatherRows", { out: gate, x: all.gate, rows, numRows, width: this.#gatesWidth });
      if (this.#inputWidth > 0) {
        const operands = { out: layerInputs, x: all.layerInputs, rows, numRows, width: this.#inputWidth };
        program.record("gatherRows", operands);
      }
    }
    return { ...this.#gathered, numRows };
  }
}
