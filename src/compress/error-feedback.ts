/**
 * Rounding with feedback (GPTQ): the error of each column is corrected in later columns, as far as their inputs
 * correlate. The inputs are those of the original model over the user's texts (decision 188), measured for a few layers
 * at a time.
 */
import { setImmediate } from "node:timers/promises";
import type { Feedback, RowEncoder } from "../backend/backend.js";
import { asWritten } from "../convert/weights/delta-layers.js";
import type { Preparation } from "../convert/weights/tensors.js";
import { formatBytes } from "../core/quantities.js";
import type { StartStage } from "../core/stages.js";
import { ActivationMeter } from "../engine/activation-meter.js";
import { DEFAULT_ENGINE_OPTIONS } from "../engine/api/options.js";
import { openModel } from "../model/open-model.js";
import { bytesOfTurn, endOfTurn } from "./feedback-plan.js";
import { columnsOf, reorderGram } from "./head-columns.js";
import type { Importance } from "./importance.js";
import type { InputPeaks } from "./input-peaks.js";
import type { ScaleMover } from "./scale-mover.js";

/** The matrices' encoder, with its measurements. */
export interface Rounding {
  readonly encoder: RowEncoder;
  /** undefined: all columns weigh the same */
  readonly importance: Importance | undefined;
  /** undefined: each value is rounded to the nearest */
  readonly feedback?: ErrorFeedback | undefined;
  /** For inputs with fixed scales; undefined: each token has its own scale */
  readonly peaks?: InputPeaks | undefined;
  /** undefined: scales stay in place */
  readonly mover?: ScaleMover | undefined;
}

/**
 * Weights of a block's squared errors in the search for its scales: the columns' importance, or its square root with
 * feedback, which corrects a part of the errors.
 */
export function weightsOf(rounding: Rounding, name: string, cols: number): Float32Array | undefined {
  const { importance, feedback, mover } = rounding;
  const weights = importance?.of(name, cols, mover?.moved.columnsOf(name));
  return feedback?.of(name) === undefined ? weights : weights?.map(Math.sqrt);
}

interface FeedbackSettings {
  /** The original's path. */
  readonly model: string;
  /** Token ids; each text fits into the context. */
  readonly texts: readonly (readonly number[])[];
  readonly encoder: RowEncoder;
  /** True for a GGUF file, whose blocks cover adjacent columns; false for a folder. */
  readonly isFile: boolean;
  /** Moves each layer's scales before its feedback is prepared. */
  readonly mover?: ScaleMover | undefined;
  readonly numThreads: number;
  /** Most bytes of the Gram matrices of one turn; absent: MOST_BYTES */
  readonly mostBytes?: number;
}

export class ErrorFeedback implements Preparation {
  /** By the matrix's name, without `.weight`. */
  readonly #known = new Map<string, Feedback>();
  /** The current turn measures layers from `#first` up to `#end`. */
  #first = 0;
  #end = 0;
  #wanted = 0;

  /** Rejects with the errors of opening a model. */
  static async open(settings: FeedbackSettings, startStage: StartStage, signal: AbortSignal): Promise<ErrorFeedback> {
    const { model: modelPath, texts, numThreads } = settings;
    const maxModelLen = texts.reduce((most, { length }) => Math.max(most, length), 0);
    const meter = await ActivationMeter.open({ ...DEFAULT_ENGINE_OPTIONS, modelPath, numThreads, maxModelLen });
    return new ErrorFeedback(settings, meter, startStage, signal);
  }

  private constructor(
    private readonly settings: FeedbackSettings,
    private readonly meter: ActivationMeter,
    private readonly startStage: StartStage,
    private readonly signal: AbortSignal,
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
    const { model, texts, encoder, isFile, mover, mostBytes } = this.settings;
    const opened = openModel(model);
    const copy = asWritten(opened, isFile);
    const layers = Array.from({ length: meter.numLayers }, (_, layer) => meter.gramBytes(layer));
    const end = endOfTurn(layers, first, mostBytes);
    const name = end - first === 1 ? `inputs of layer ${first}` : `inputs of layers ${first} to ${end - 1}`;
    const stage = this.startStage(name);
    for (let layer = first; layer < end && mover !== undefined; layer++) {
      stage.update(`scales of layer ${layer}`);
      await mover.moveIn(layer);
    }
    const onText = async (numTexts: number): Promise<void> => {
      await setImmediate();
      this.signal.throwIfAborted();
      stage.update(`${numTexts} of ${texts.length} texts`);
    };
    await meter.grams(first, end - first, texts, onText, async ({ names, cols, gram }) => {
      stage.update(`factor of ${first === end - 1 ? "" : `${names[0]!.split(".", 2).join(".")}, `}${cols} columns`);
      await setImmediate();
      this.signal.throwIfAborted();
      // Without inputs, or with infinite ones, there is nothing to correct.
      let trace = 0;
      for (let c = 0; c < cols; c++) trace += gram[c * (cols + 1)]!;
      if (!(trace > 0) || trace === Number.POSITIVE_INFINITY) return;
      const columns = columnsOf(opened.config, copy.config, names[0]!);
      if (columns !== undefined) reorderGram(gram, columns);
      const factors = mover?.moved.columnsOf(names[0]!);
      if (factors !== undefined) divide(gram, factors);
      const feedback = encoder.feedback(gram, cols, !isFile);
      for (const each of names) this.#known.set(each, feedback);
    });
    this.#first = first;
    this.#end = end;
    stage.done(formatBytes(bytesOfTurn(layers.slice(first, end))));
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

/** Changes the lower half of a Gram matrix to that of columns divided by `factors`. */
function divide(gram: Float32Array, factors: Float32Array): void {
  const cols = factors.length;
  for (let i = 0; i < cols; i++) {
    for (let j = 0; j <= i; j++) gram[i * cols + j]! /= factors[i]! * factors[j]!;
  }
}
