/** The end of a step: tokens sampled from the rows that get logits, and the hidden states that readers tapped. */
import type { Backend } from "../../backend/backend.js";
import type { BufferHandle } from "../../backend/handles.js";
import type { Program, SampleBuffers } from "../../backend/program.js";
import type { ModelConfig } from "../../model/config.js";
import type { StepCapacity } from "../step-batch.js";
import type { Rows } from "./last-rows.js";
import { type Products, recordNorm } from "./products.js";
import type { ModelWeights } from "./weights.js";

export class Output {
  /** [maxLogitRows, width] */
  readonly #selected: BufferHandle;
  /** [maxLogitRows, vocabSize] */
  readonly #logits: BufferHandle;
  readonly #logitValues: Float32Array;
  /** [maxRows, width]: hidden states of the latest step's taps after the final norm, until the next step. */
  readonly tapped: BufferHandle;
  readonly #tappedValues: Float32Array;

  constructor(
    private readonly config: ModelConfig,
    private readonly weights: ModelWeights,
    backend: Backend,
    { maxRows, maxLogitRows }: StepCapacity,
    private readonly products: Products,
  ) {
    const { width, vocabSize } = config;
    this.#selected = backend.allocate(maxLogitRows * width * 4);
    this.#logits = backend.allocate(maxLogitRows * vocabSize * 4);
    this.#logitValues = new Float32Array(backend.kernels.view(this.#logits));
    this.tapped = backend.allocate(maxRows * width * 4);
    this.#tappedValues = new Float32Array(backend.kernels.view(this.tapped));
  }

  /** Samples at the first `numRows` of the logit rows. */
  sample(program: Program, { hidden, logitRows }: Rows, numRows: number, samples: SampleBuffers): void {
    const { width, vocabSize } = this.config;
    const [selected, logits] = [this.#selected, this.#logits];
    program.record("gatherRows", { out: selected, x: hidden, rows: logitRows.buffer, numRows, width });
    this.#norm(program, selected, numRows);
    this.products.multiply(program, logits, selected, this.weights.output, numRows, width);
    program.record("sample", { logits, numRows, vocabSize, ...samples });
  }

  /** Keeps the hidden states of the first `numRows` tapped rows. */
  tap(program: Program, { hidden, hiddenTaps }: Rows, numRows: number): void {
    const { width } = this.config;
    program.record("gatherRows", { out: this.tapped, x: hidden, rows: hiddenTaps.buffer, numRows, width });
    this.#norm(program, this.tapped, numRows);
  }

  /** [width]: of the latest step's tap `index`, until the next step. */
  tappedRow(index: number): Float32Array {
    const { width } = this.config;
    return this.#tappedValues.subarray(index * width, (index + 1) * width);
  }

  /** [vocabSize]: logits of the latest step's row `index`, until the next step. */
  logitRow(index: number): Float32Array {
    const { vocabSize } = this.config;
    return this.#logitValues.subarray(index * vocabSize, (index + 1) * vocabSize);
  }

  /** In place. */
  #norm(program: Program, x: BufferHandle, numRows: number): void {
    const { width, rmsEps } = this.config;
    const { outputNorm } = this.weights;
    if (outputNorm !== undefined) recordNorm(program, x, x, numRows, { gain: outputNorm, width, eps: rmsEps });
  }
}
