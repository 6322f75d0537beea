/** Moves scales from the inputs of a model's layers into their weights, layer by layer, while a copy is written. */
import { setImmediate } from "node:timers/promises";
import type { RowEncoder } from "../backend/backend.js";
import { type ModelTensor, type Preparation, tensorsOf } from "../convert/weights/tensors.js";
import type { OpenModel } from "../model/open-model.js";
import { type Channels, channelsOf, MovedScales } from "./channels.js";
import type { Importance } from "./importance.js";
import { type Scaling, searchScales } from "./scale-search.js";
import type { RowsAfter } from "./storage.js";

interface MoverSettings {
  /** The original. */
  readonly model: OpenModel;
  readonly scaling: Scaling;
  readonly importance: Importance;
  readonly rowsAfter: RowsAfter;
  readonly encoder: RowEncoder;
}

export class ScaleMover implements Preparation {
  readonly moved = new MovedScales();
  readonly #tensors: ReadonlyMap<string, ModelTensor>;
  readonly #isDone: boolean[] = [];
  #wanted = 0;

  constructor(
    private readonly settings: MoverSettings,
    private readonly signal: AbortSignal,
  ) {
    const { config, tensors } = settings.model;
    this.#tensors = new Map(tensorsOf(config, tensors()).map((tensor) => [tensor.name, tensor]));
  }

  needs(name: string): boolean {
    const layer = /^blk\.(\d+)\./.exec(name);
    if (layer === null) return false;
    this.#wanted = Number(layer[1]);
    return this.#isDone[this.#wanted] !== true;
  }

  prepare(): Promise<void> {
    return this.moveIn(this.#wanted);
  }

  /** Moves the scales of a layer, where they have not been moved. */
  async moveIn(layer: number): Promise<void> {
    if (this.#isDone[layer] === true) return;
    this.#isDone[layer] = true;
    const { model } = this.settings;
    const search = { ...this.settings, source: model.tensors(), tensors: this.#tensors };
    for (const channels of channelsOf(model, layer)) {
      await setImmediate();
      this.signal.throwIfAborted();
      const squares = this.#squaresOf(channels);
      const scales = squares && searchScales(channels, squares, search);
      if (scales !== undefined) this.moved.move(channels, scales);
    }
  }

  /** Mean squares of the channels' columns. */
  #squaresOf({ readers, cols }: Channels): Float64Array | undefined {
    const { means } = this.settings.importance;
    const known = readers.map((name) => means.get(name.replace(/\.weight$/, "")));
    return known.find((each) => each?.length === cols);
  }
}
