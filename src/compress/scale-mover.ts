/** Moves scales from the inputs of a model's layers into their weights, layer by layer, while a copy is written. */
import { setImmediate } from "node:timers/promises";
import { tensorsOf } from "../convert/weights/model-tensors.js";
import type { ModelTensor, Preparation } from "../convert/weights/tensors.js";
import type { OpenModel } from "../model/open-model.js";
import { type Channels, channelsOf, MovedScales } from "./channels.js";
import type { Importance } from "./importance.js";
import type { Recall } from "./journal.js";
import { type RowsAfter, type Scaling, searchScales } from "./scale-search.js";

interface MoverSettings {
  /** The original. */
  readonly model: OpenModel;
  readonly scaling: Scaling;
  readonly importance: Importance;
  readonly rowsAfter: RowsAfter;
  readonly recall: Recall;
}

/** Numbers of scaled inputs of layers' matrices. */
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

  /** Moves a layer's scales, unless they are moved already. */
  async moveIn(layer: number): Promise<void> {
    if (this.#isDone[layer] === true) return;
    this.#isDone[layer] = true;
    const { model, scaling, recall } = this.settings;
    const all = channelsOf(model, layer);
    const chosen = await recall(`${scaling} scales of layer ${layer}`, () => this.#search(all));
    for (const [index, channels] of all.entries()) {
      const text = chosen[index];
      if (text === null || text === undefined) continue;
      this.moved.move(channels, scalesIn(text));
      this.#numMoved++;
    }
  }

  /** Moves the scales of the layers that a stopped run has written. */
  async moveInAll(): Promise<void> {
    for (const layer of this.settings.model.config.layers.keys()) await this.moveIn(layer);
  }

  /** Scales as text, by channels; null: they stay. */
  async #search(all: readonly Channels[]): Promise<readonly (string | null)[]> {
    const source = this.settings.model.tensors();
    this.#tensors ??= new Map(tensorsOf(this.settings.model.config, source).map((tensor) => [tensor.name, tensor]));
    const search = { ...this.settings, source, tensors: this.#tensors };
    const chosen: (string | null)[] = [];
    for (const channels of all) {
      await setImmediate();
      this.signal.throwIfAborted();
      const squares = this.#squaresOf(channels);
      const scales = squares && searchScales(channels, squares, search);
      chosen.push(
        scales === undefined
          ? null
          : Buffer.from(scales.buffer, scales.byteOffset, scales.byteLength).toString("base64"),
      );
    }
    return chosen;
  }

  /** Counts so far. Routed experts count as two per layer: their input, and their down projections'. */
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

const scalesIn = (text: string): Float32Array => {
  const bytes = Buffer.from(text, "base64");
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
};
