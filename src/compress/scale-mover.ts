/** Moves scales from the inputs of a model's layers into their weights, layer by layer, while a copy is written. */
import { setImmediate } from "node:timers/promises";
import { type ModelTensor, type Preparation, tensorsOf } from "../convert/weights/tensors.js";
import type { OpenModel } from "../model/open-model.js";
import { type Channels, channelsOf, MovedScales } from "./channels.js";
import type { Importance } from "./importance.js";
import { type RowsAfter, type Scaling, searchScales } from "./scale-search.js";

interface MoverSettings {
  /** The original. */
  readonly model: OpenModel;
  readonly scaling: Scaling;
  readonly importance: Importance;
  readonly rowsAfter: RowsAfter;
}

/** Of the inputs of layers' matrices. */
export interface MovedInputs {
  readonly scaling: Scaling;
  readonly numMoved: number;
  readonly numInputs: number;
}

export class ScaleMover implements Preparation {
  readonly moved = new MovedScales();
  #tensors: ReadonlyMap<string, ModelTensor> | undefined;
  readonly #isDone: boolean[] = [];
  #wanted = 0;
  #numMoved = 0;

  constructor(
    private readonly settings: MoverSettings,
    private readonly signal: AbortSignal,
  ) {}

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
    const source = model.tensors();
    this.#tensors ??= new Map(tensorsOf(model.config, source).map((tensor) => [tensor.name, tensor]));
    const search = { ...this.settings, source, tensors: this.#tensors };
    for (const channels of channelsOf(model, layer)) {
      await setImmediate();
      this.signal.throwIfAborted();
      const squares = this.#squaresOf(channels);
      const scales = squares && searchScales(channels, squares, search);
      if (scales === undefined) continue;
      this.moved.move(channels, scales);
      this.#numMoved++;
    }
  }

  /** So far. Those of routed experts count as two of a layer, the input and the one of the down projections. */
  get inputs(): MovedInputs {
    const { scaling, model } = this.settings;
    const numInputs = model.config.layers.reduce(
      (sum, { feedForward }) => sum + (feedForward.kind === "experts" && feedForward.sharedWidth > 0 ? 5 : 4),
      0,
    );
    return { scaling, numMoved: this.#numMoved, numInputs };
  }

  /** Mean squares of the channels' columns. */
  #squaresOf({ readers, cols }: Channels): Float64Array | undefined {
    const { means } = this.settings.importance;
    const known = readers.map((name) => means.get(name.replace(/\.weight$/, "")));
    return known.find((each) => each?.length === cols);
  }
}
