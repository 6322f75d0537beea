/** The end of a step: samples tokens from logit rows, and keeps the hidden states of tapped rows. */
import type { Backend } from "../../backend/backend.js";
import { type BufferHandle, NO_BUFFER } from "../../backend/handles.js";
import type { Program, SampleBuffers } from "../../backend/program.js";
import type { ServableModel } from "../../model/description/servable.js";
import type { StepCapacity } from "../step/step-batch.js";
import type { Linear } from "./binder.js";
import type { Rows } from "./last-rows.js";
import { type Products, recordNorm } from "./products.js";
import type { ModelWeights } from "./weights.js";

export class Output {
  /** [maxLogitRows, width]; absent in encoders, as the logits are */
  readonly #selected: BufferHandle = NO_BUFFER;
  /** [maxLogitRows, vocabSize] */
  readonly #logits: BufferHandle = NO_BUFFER;
  /** [maxLogitRows, rows of the output matrix], where these are not all tokens */
  readonly #ownLogits: BufferHandle = NO_BUFFER;
  /** [maxRows, width]: hidden states of the latest step's taps, until the next step. */
  readonly tapped: BufferHandle;
  /** The host's copy of the tapped hidden states. */
  #tappedValues = new Float32Array(0);

  constructor(
    private readonly config: ServableModel,
    private readonly weights: ModelWeights,
    private readonly backend: Backend,
    { maxRows, maxLogitRows }: StepCapacity,
    private readonly products: Products,
    /** Taps keep the hidden states after the final norm; false: before it. */
    private readonly isTapNormed: boolean,
  ) {
    const { width, vocabSize } = config;
    const { outputTokens } = weights;
    if (outputTokens !== undefined) this.#ownLogits = backend.allocate(maxLogitRows * outputTokens.numRows * 4);
    if (weights.output !== undefined) {
      this.#selected = backend.allocate(maxLogitRows * width * 4);
      this.#logits = backend.allocate(maxLogitRows * vocabSize * 4);
    }
    this.tapped = backend.allocate(maxRows * width * 4);
  }

  /** Samples at the first `numRows` of the logit rows. */
  sample(
    program: Program,
    { hidden, logitRows }: Rows,
    numRows: number,
    samples: SampleBuffers,
    output: Linear | undefined,
  ): void {
    const { width, vocabSize, logitScale: scale, logitCap: cap } = this.config;
    const { outputTokens } = this.weights;
    if (output === undefined) throw new Error("expected a model with an output matrix, got an encoder");
    const [selected, logits] = [this.#selected, this.#logits];
    program.record("gatherRows", { out: selected, x: hidden, rows: logitRows.buffer, numRows, width });
    this.#norm(program, selected, numRows);
    const own = outputTokens === undefined ? logits : this.#ownLogits;
    this.products.multiply(program, own, selected, output, numRows, width);
    if (outputTokens !== undefined) {
      const { ids: columns, numRows: ownWidth } = outputTokens;
      const operands = { out: logits, x: own, columns, numRows, width: ownWidth, outWidth: vocabSize };
      program.record("spreadColumns", operands);
    }
    if (scale !== 1 || cap !== 0) program.record("scaleAndCap", { x: logits, numRows, width: vocabSize, scale, cap });
    program.record("sample", { logits, numRows, vocabSize, ...samples });
  }

  /** Keeps the hidden states of the first `numRows` tapped rows. */
  tap(program: Program, { hidden, hiddenTaps }: Rows, numRows: number): void {
    const { width } = this.config;
    program.record("gatherRows", { out: this.tapped, x: hidden, rows: hiddenTaps.buffer, numRows, width });
    if (this.isTapNormed) this.#norm(program, this.tapped, numRows);
  }

  /** Fetches the hidden states of the first `numRows` tapped rows of the latest step. */
  readTapped(numRows: number): Promise<void> {
    const length = numRows * this.config.width;
    if (length > this.#tappedValues.length) this.#tappedValues = new Float32Array(length);
    return this.backend.read(this.tapped, 0, this.#tappedValues.subarray(0, length));
  }

  /** [width]: of tap `index`, as fetched last. */
  tappedRow(index: number): Float32Array {
    const { width } = this.config;
    return this.#tappedValues.subarray(index * width, (index + 1) * width);
  }

  /** Fetches the logits of the latest step's row `index` into `target` [vocabSize]. */
  readLogits(index: number, target: Float32Array): Promise<void> {
    return this.backend.read(this.#logits, index * target.byteLength, target);
  }

  /** In place. */
  #norm(program: Program, x: BufferHandle, numRows: number): void {
    const { width, rmsEps } = this.config;
    const { outputNorm } = this.weights;
    recordNorm(program, x, x, numRows, { weights: outputNorm, width, eps: rmsEps });
  }
}
