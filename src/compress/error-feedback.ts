/**
 * Rounding with feedback (GPTQ): the error of a column is made up for by the columns that are rounded after it, as far as the inputs of the matrix
 * vary together. The inputs are those of the original model over the user's texts. Gram matrices are as large as matrices, so few layers are
 * measured at a time.
 */
import { setImmediate } from "node:timers/promises";
import type { Feedback, RowEncoder } from "../backend/backend.js";
import type { Preparation } from "../convert/weights/tensors.js";
import { formatBytes } from "../core/quantities.js";
import type { StartStage } from "../core/stages.js";
import { ActivationMeter } from "../engine/activation-meter.js";
import { DEFAULT_ENGINE_OPTIONS } from "../engine/api/options.js";
import type { Importance } from "./importance.js";

/** The encoder of matrices, with the measurements that it uses. */
export interface Rounding {
  readonly encoder: RowEncoder;
  /** undefined: all columns are as important */
  readonly importance: Importance | undefined;
  /** undefined: each value is rounded to the nearest */
  readonly feedback?: ErrorFeedback | undefined;
}

/**
 * Weights of a block's squared errors while its scales are searched: the columns' importance, or its square root with feedback, which makes up for
 * a part of the errors.
 */
export function weightsOf({ importance, feedback }: Rounding, name: string, cols: number): Float32Array | undefined {
  const weights = importance?.of(name, cols);
  return feedback?.of(name) === undefined ? weights : weights?.map(Math.sqrt);
}

/** Most bytes of the Gram matrices that are measured together. One layer is measured even if it needs more. */
const MOST_BYTES = 2 ** 31;

export class ErrorFeedback implements Preparation {
  /** By the matrix's name, without `.weight`. */
  readonly #known = new Map<string, Feedback>();
  /** Layers from `#first` up to `#end` are measured. */
  #first = 0;
  #end = 0;
  #wanted = 0;

  /**
   * @param texts token ids, each within the context
   * @param isOrdered see `RowEncoder.feedback`
   */
  static async open(
    modelPath: string,
    texts: readonly (readonly number[])[],
    encoder: RowEncoder,
    isOrdered: boolean,
    numThreads: number,
    startStage: StartStage,
    signal: AbortSignal,
    mostBytes = MOST_BYTES,
  ): Promise<ErrorFeedback> {
    const maxModelLen = texts.reduce((most, { length }) => Math.max(most, length), 0);
    const meter = await ActivationMeter.open({ ...DEFAULT_ENGINE_OPTIONS, modelPath, numThreads, maxModelLen });
    return new ErrorFeedback(meter, texts, encoder, isOrdered, startStage, signal, mostBytes);
  }

  private constructor(
    private readonly meter: ActivationMeter,
    private readonly texts: readonly (readonly number[])[],
    private readonly encoder: RowEncoder,
    private readonly isOrdered: boolean,
    private readonly startStage: StartStage,
    private readonly signal: AbortSignal,
    private readonly mostBytes: number,
  ) {}

  needs(name: string): boolean {
    const layer = /^blk\.(\d+)\./.exec(name);
    if (layer === null) return false;
    this.#wanted = Number(layer[1]);
    return !this.#has(this.#wanted);
  }

  async prepare(): Promise<void> {
    const first = this.#wanted;
    if (this.#has(first)) return;
    this.#release();
    const { meter } = this;
    let end = first + 1;
    let numBytes = meter.gramBytes(first);
    while (end < meter.numLayers && numBytes + meter.gramBytes(end) <= this.mostBytes)
      numBytes += meter.gramBytes(end++);
    const name = end - first === 1 ? `inputs of layer ${first}` : `inputs of layers ${first} to ${end - 1}`;
    const stage = this.startStage(name);
    const onText = async (numTexts: number): Promise<void> => {
      await setImmediate();
      this.signal.throwIfAborted();
      stage.update(`${numTexts} of ${this.texts.length} texts`);
    };
    await meter.grams(first, end - first, this.texts, onText, async ({ names, cols, gram }) => {
      stage.update(`factor of ${first === end - 1 ? "" : `${names[0]!.split(".", 2).join(".")}, `}${cols} columns`);
      await setImmediate();
      this.signal.throwIfAborted();
      // Without inputs, or with some beyond all bounds, there is nothing to make up for.
      let trace = 0;
      for (let c = 0; c < cols; c++) trace += gram[c * (cols + 1)]!;
      if (!(trace > 0) || trace === Number.POSITIVE_INFINITY) return;
      const feedback = this.encoder.feedback(gram, cols, this.isOrdered);
      for (const each of names) this.#known.set(each, feedback);
    });
    this.#first = first;
    this.#end = end;
    stage.done(formatBytes(numBytes));
  }

  /** @param name with or without `.weight` */
  of(name: string): Feedback | undefined {
    return this.#known.get(name.replace(/\.weight$/, ""));
  }

  close(): void {
    this.#release();
    this.meter.close();
  }

  #has(layer: number): boolean {
    return layer >= this.#first && layer < this.#end;
  }

  #release(): void {
    for (const feedback of new Set(this.#known.values())) feedback.release();
    this.#known.clear();
    this.#end = this.#first;
  }
}
