/** The two kinds of trained heads, as what their networks compute before and around the transformer that runs them. */
import { type BufferHandle, type Device, NO_BUFFER } from "../../kernels/kernels.js";
import type { Program } from "../../kernels/program.js";
import type { ModelConfig } from "../model/config.js";
import type { ActivationDtype, LoadReport } from "../model/weight-packer.js";
import { bindLayer, type ModelWeights } from "../model/weights.js";
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
   * Fills `hidden` [rows, width] for the guess at `depth` (from 0 on), for each row of the batch, whose token is the one after its position.
   * @param states [rows, width], for each row the hidden state at its position
   */
  recordInput(program: Program, hidden: BufferHandle, states: BufferHandle, batch: StepBatch, depth: number): void;
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
  /** Of the layer's matrices; all others stay as they are stored. */
  readonly activationDtype: ActivationDtype;
  /** Entries of its own past that a layer sees at most. */
  readonly window?: number;
}

/** Throws what reading keys and tensors throws. */
export function createHeadNetwork(file: HeadsFile, target: HeadsTarget, place: HeadsPlace): HeadNetwork {
  return (file.kind === "eagle" ? createEagle : createMedusa)(file, target, place);
}

/** One layer over (hidden state of t, token t + 1) whose output stands for the hidden state of t + 1; it runs on as far as is asked for. */
function createEagle(file: HeadsFile, target: HeadsTarget, place: HeadsPlace): HeadNetwork {
  const { device, maxRows, activationDtype, window = EAGLE_WINDOW } = place;
  const config = headsConfig(file, target.config, window);
  const { width, rmsEps } = config;
  const layer = bindHeads(file, place, activationDtype, (binder) => bindLayer(binder, config, "eagle."));
  const own = bindHeads(file, place, "f32", (binder) => ({
    joinHidden: binder.linear("eagle.join_hidden", width, width).weight,
    joinEmbed: binder.linear("eagle.join_embed", width, width).weight,
    embedNorm: binder.vector("eagle.embed_norm.weight", width),
    norm: binder.vector("eagle.norm.weight", width),
  }));
  const embedded = device.allocate(maxRows * width * 4);
  return {
    name: "eagle",
    config,
    weights: { ...target.weights, ...NO_ROPE_FACTORS, layers: [layer], outputNorm: own.norm },
    maxTokens: Number.POSITIVE_INFINITY,
    window,
    recordInput(program, hidden, states, { tokenIds, numRows }) {
      program.linear(hidden, states, own.joinHidden, NO_BUFFER, numRows, { concurrent: true });
      program.embed(embedded, target.weights.embedding, tokenIds.buffer, numRows, 1);
      program.rmsNorm(embedded, embedded, own.embedNorm, numRows, width, rmsEps);
      program.linear(hidden, embedded, own.joinEmbed, NO_BUFFER, numRows, { accumulate: true });
    },
  };
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
      program.gatedLinear(hidden, room, { x: states, weight, bias }, one, numRows, "silu");
      program.add(hidden, states, numRows, width);
    },
  };
}

const NO_ROPE_FACTORS = { ropeFactors: undefined, ropeFactorsShort: undefined, ropeFactorsLong: undefined };
