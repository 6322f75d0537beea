/** The networks of the two kinds of trained heads, up to the output matrix. */
import type { BufferHandle } from "../../backend/handles.js";
import type { Program } from "../../backend/program.js";
import type { ServableModel } from "../../model/description/servable.js";
import { queryWidth } from "../../model/description/sizes.js";
import { ADDED, Products } from "../blocks/products.js";
import type { Transformer } from "../blocks/transformer.js";
import type { Linear, ModelWeights } from "../blocks/weights.js";
import type { KvManager } from "../memory/kv-manager.js";
import type { StepBatch } from "../step/step-batch.js";
import { bindEagleLayer, EagleLayer } from "./eagle-layer.js";
import { bindHeads, eagleShape, type HeadsFile, type HeadsPlace, headsConfig } from "./heads-file.js";
import { medusaNetwork } from "./medusa-network.js";

export interface HeadNetwork {
  readonly name: string;
  /** Has no layers: `recordInput` computes everything before the final norm. */
  readonly config: ServableModel;
  readonly weights: ModelWeights;
  /** By depth of a guess: its output matrix; absent: that of `weights`. */
  readonly outputs?: readonly Linear[];
  /** Length of the longest draft, in tokens. */
  readonly maxTokens: number;
  /**
   * true: each drafted token after the first is computed from a state of the network's own; false: all from the model's
   * state.
   */
  readonly readsOwn: boolean;
  /**
   * Fills `hidden` [rows, width] for the guess at `depth` (from 0 on; 1 for all later ones of a layer), for each row of
   * the batch, whose token is the one at its position and whose `kvLengths` say how much of the model's past it sees.
   * @param states for each row the hidden state before its token: the model's [rows, model's width], or what a layer
   * made itself [rows, width]
   */
  recordInput(program: Program, hidden: BufferHandle, states: States, batch: StepBatch, depth: number): void;
}

interface States {
  readonly buffer: BufferHandle;
  readonly areOwn: boolean;
}

/** The model that heads draft for, and the parts that they read. */
export interface HeadsTarget {
  readonly config: ServableModel;
  readonly weights: ModelWeights;
  readonly transformer: Transformer;
  readonly batch: StepBatch;
  readonly kv: KvManager;
}

/** Throws the errors of reading keys and tensors. */
export function createHeadNetwork(file: HeadsFile, target: HeadsTarget, place: HeadsPlace): Promise<HeadNetwork> {
  return (file.kind === "eagle" ? createEagle : createMedusa)(file, target, place);
}

/**
 * One layer over (hidden state of t, token t + 1), whose output stands for the hidden state of t + 1 and feeds the next
 * run. It has queries and no keys or values: it attends to those that one of the model's layers stored up to t, so
 * prompts cost it nothing. With a small model, the output matrix would dominate the cost of a drafted token: a layer
 * that is narrower than the model has an output matrix of its own.
 */
async function createEagle(file: HeadsFile, target: HeadsTarget, place: HeadsPlace): Promise<HeadNetwork> {
  const config = headsConfig(file, target.config);
  const { pastLayer, ffWidth } = eagleShape(file, target.config);
  const { width, vocabSize, rmsEps } = config;
  const sizes = { width, queryWidth: queryWidth(target.config.layers[pastLayer]!), ffWidth, rmsEps };
  const modelWidth = target.config.width;
  const isNarrow = width < modelWidth;
  const own = await bindHeads(file, place, (binder) => ({
    joinHidden: binder.linear("eagle.join_hidden", width, modelWidth),
    joinEmbed: binder.linear("eagle.join_embed", width, modelWidth),
    joinState: isNarrow ? binder.linear("eagle.join_state", width, width) : undefined,
    embedNorm: binder.vector("eagle.embed_norm.weight", modelWidth),
    layer: bindEagleLayer(binder, sizes),
    norm: binder.vector("eagle.norm.weight", width),
    output: isNarrow ? binder.linear("eagle.output", vocabSize, width) : target.weights.output,
  }));
  const products = new Products(place.backend, place.maxRows);
  const embedded = place.backend.allocate(place.maxRows * modelWidth * 4);
  const past = target.transformer.past(pastLayer);
  const layer = new EagleLayer(own.layer, sizes, past, products, place);
  return {
    name: "eagle",
    config,
    weights: { ...target.weights, layers: [], outputNorm: { gain: own.norm }, output: own.output },
    maxTokens: Number.POSITIVE_INFINITY,
    readsOwn: true,
    recordInput(program, hidden, states, batch) {
      const { tokenIds, numRows } = batch;
      const [join, cols] = states.areOwn ? [own.joinState ?? own.joinHidden, width] : [own.joinHidden, modelWidth];
      products.multiply(program, hidden, states.buffer, join, numRows, cols, { concurrent: true });
      const { embedding: weight } = target.weights;
      program.record("embed", { out: embedded, weight, ids: tokenIds.buffer, numRows, scale: 1 });
      const norm = { out: embedded, x: embedded, gain: own.embedNorm };
      program.record("rmsNorm", { numRows, width: modelWidth, eps: rmsEps, ...norm });
      products.multiply(program, hidden, embedded, own.joinEmbed, numRows, modelWidth, ADDED);
      layer.record(program, hidden, batch);
    },
  };
}

/** One block per depth, before the model's output matrix. */
async function createMedusa(file: HeadsFile, target: HeadsTarget, place: HeadsPlace): Promise<HeadNetwork> {
  const config = headsConfig(file, target.config);
  const { width } = config;
  const heads = await bindHeads(file, place, (binder) =>
    Array.from({ length: file.depth }, (_, depth) => ({ blocks: [binder.linear(`heads.${depth}`, width, width)] })),
  );
  return medusaNetwork(heads, config, target, place);
}
