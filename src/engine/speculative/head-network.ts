/** The two kinds of trained heads, as what their networks compute before and around the transformer that runs them. */
import { type BufferHandle, type Device, NO_BUFFER } from "../../kernels/kernels.js";
import { activationRowBytes } from "../../kernels/packing.js";
import type { Program } from "../../kernels/program.js";
import type { ModelConfig } from "../model/config.js";
import type { ActivationDtype, LoadReport } from "../model/weight-packer.js";
import { bindLayer, type Linear, type ModelWeights } from "../model/weights.js";
import type { StepBatch } from "../step-batch.js";
import { bindHeads, type HeadsFile, headsConfig } from "./heads-file.js";

export interface HeadNetwork {
  readonly name: string;
  /** Layers between the input that is recorded and the model's output matrix: none, or one. */
  readonly config: ModelConfig;
  readonly weights: ModelWeights;
  /** Longest guess. */
  readonly maxTokens: number;
  /** Positions before the last one whose hidden state it reads too. */
  readonly window: number;
  /**
   * Fills `hidden` [rows, width] for the guess at `depth` (from 0 on; 1 for all later ones of a layer), for each row of the batch, whose token
   * is the one after its position.
   * @param states for each row the hidden state at its position: the model's [rows, model's width], or what a layer made itself [rows, width]
   */
  recordInput(program: Program, hidden: BufferHandle, states: States, batch: StepBatch, depth: number): void;
}

export interface States {
  readonly buffer: BufferHandle;
  readonly areOwn: boolean;
}

/** What heads read of the model they guess for. */
export interface HeadsTarget {
  readonly config: ModelConfig;
  readonly weights: ModelWeights;
}

/** What is further back says little about the next few tokens. */
const EAGLE_WINDOW = 1024;

/** Where the network is to be computed. */
export interface HeadsPlace {
  readonly device: Device;
  /** Of a batch. */
  readonly maxRows: number;
  readonly report: LoadReport;
  /** Of an eagle layer's matrices; those of medusa's blocks stay as they are stored. */
  readonly activationDtype: ActivationDtype;
  /** Entries of its own past that a layer sees at most. */
  readonly window?: number;
}

/** Throws what reading keys and tensors throws. */
export function createHeadNetwork(file: HeadsFile, target: HeadsTarget, place: HeadsPlace): HeadNetwork {
  return (file.kind === "eagle" ? createEagle : createMedusa)(file, target, place);
}

/**
 * One layer over (hidden state of t, token t + 1) whose output stands for the hidden state of t + 1; it runs on as far as is asked for. Beside a
 * small model, most of a guess would be the model's output matrix: a layer that is narrower than the model has one of its own.
 */
function createEagle(file: HeadsFile, target: HeadsTarget, place: HeadsPlace): HeadNetwork {
  const { device, maxRows, activationDtype, window = EAGLE_WINDOW } = place;
  const config = headsConfig(file, target.config, window);
  const { width, vocabSize, rmsEps } = config;
  const modelWidth = target.config.width;
  const isNarrow = width < modelWidth;
  const own = bindHeads(file, place, activationDtype, (binder) => ({
    layer: bindLayer(binder, config, "eagle."),
    output: isNarrow ? binder.linear("eagle.output", vocabSize, width) : target.weights.output,
    joinHidden: binder.linear("eagle.join_hidden", width, modelWidth),
    joinEmbed: binder.linear("eagle.join_embed", width, modelWidth),
    joinState: isNarrow ? binder.linear("eagle.join_state", width, width) : undefined,
    embedNorm: binder.vector("eagle.embed_norm.weight", modelWidth),
    norm: binder.vector("eagle.norm.weight", width),
  }));
  const joinHidden = new Join(own.joinHidden, modelWidth, place);
  const joinEmbed = new Join(own.joinEmbed, modelWidth, place);
  const joinState = own.joinState === undefined ? joinHidden : new Join(own.joinState, width, place);
  const embedded = device.allocate(maxRows * modelWidth * 4);
  return {
    name: "eagle",
    config,
    weights: { ...target.weights, ...NO_ROPE_FACTORS, layers: [own.layer], outputNorm: own.norm, output: own.output },
    maxTokens: Number.POSITIVE_INFINITY,
    window,
    recordInput(program, hidden, states, { tokenIds, numRows }) {
      const join = states.areOwn ? joinState : joinHidden;
      join.record(program, hidden, states.buffer, numRows, { concurrent: true });
      program.embed(embedded, target.weights.embedding, tokenIds.buffer, numRows, 1);
      program.rmsNorm(embedded, embedded, own.embedNorm, numRows, modelWidth, rmsEps);
      joinEmbed.record(program, hidden, embedded, numRows, { accumulate: true });
    },
  };
}

/** A matrix with room for its inputs in the format that it takes. */
class Join {
  readonly #quantized: BufferHandle | undefined;

  constructor(
    private readonly linear: Linear,
    private readonly cols: number,
    { device, maxRows }: HeadsPlace,
  ) {
    const { activations } = linear;
    if (activations !== "f32") this.#quantized = device.allocate(maxRows * activationRowBytes(activations, cols));
  }

  /** out [rows, outputs] = (+) x [rows, cols] · weightᵀ */
  record(
    program: Program,
    out: BufferHandle,
    x: BufferHandle,
    numRows: number,
    options: { readonly accumulate?: boolean; readonly concurrent?: boolean },
  ): void {
    const { weight, activations } = this.linear;
    if (activations !== "f32") program.quantize(this.#quantized!, x, numRows, this.cols, activations);
    program.linear(out, this.#quantized ?? x, weight, NO_BUFFER, numRows, options);
  }
}

/** A block per depth; block k guesses the token k + 2 places after t from the hidden state of t alone. */
function createMedusa(file: HeadsFile, target: HeadsTarget, place: HeadsPlace): HeadNetwork {
  const { device, maxRows } = place;
  const config = headsConfig(file, target.config, 0);
  const { width } = config;
  const blocks = bindHeads(file, place, "f32", (binder) =>
    Array.from({ length: file.depth }, (_, depth) => binder.linear(`heads.${depth}`, width, width)),
  );
  // The kernels know silu as a gate, and what it lets through here is 0 · 0 + 1.
  const ones = device.allocate(width * 4);
  new Float32Array(device.view(ones)).fill(1);
  const weight = device.createWeight(device.allocate(width * 4), 0, "F32", width, 1);
  const one = { x: device.allocate(maxRows * 4), weight, bias: ones };
  const room = device.allocate(maxRows * width * 4);
  return {
    name: "medusa",
    config,
    weights: { ...target.weights, ...NO_ROPE_FACTORS, layers: [], outputNorm: undefined },
    maxTokens: file.depth,
    window: 0,
    recordInput(program, hidden, states, { numRows }, depth) {
      const { weight, bias } = blocks[depth]!;
      program.gatedLinear(hidden, room, { x: states.buffer, weight, bias }, one, numRows, "silu");
      program.add(hidden, states.buffer, numRows, width);
    },
  };
}

const NO_ROPE_FACTORS = { ropeFactors: undefined, ropeFactorsShort: undefined, ropeFactorsLong: undefined };
