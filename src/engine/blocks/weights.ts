/** A model's weights as its blocks take them; `bind-model.ts` has the tensors that they come from. */

import type { BufferHandle, WeightHandle } from "../../backend/handles.js";
import type { ExpertsFeedForward } from "../../model/description/model-description.js";
import type { Linear, LinearStack } from "./binder.js";

/** A norm's parameters, f32 [width]. */
export interface NormWeights {
  readonly gain: BufferHandle;
  /** Bias of a LayerNorm, or NO_BUFFER; absent: the norm is an RMS norm. */
  readonly bias?: BufferHandle;
}

export interface DenseWeights {
  readonly kind: "dense";
  readonly width: number;
  /** undefined: the part has no gate */
  readonly gate: Linear | undefined;
  readonly up: Linear;
  readonly down: Linear;
}

export interface ExpertWeights {
  readonly kind: "experts";
  readonly part: ExpertsFeedForward;
  /** [experts, width]; keeps its values */
  readonly router: Linear;
  /** undefined: the experts have no gates */
  readonly gates: LinearStack | undefined;
  readonly ups: LinearStack;
  readonly downs: LinearStack;
  /** Added to the router's scores, f32 [experts]. */
  readonly scoreBias: BufferHandle | undefined;
  /** Added once to the weighted sum of a token's experts, f32 [width] (nomic-bert-moe). */
  readonly sumBias: BufferHandle | undefined;
  /** The part that every token passes. */
  readonly shared: DenseWeights | undefined;
  /** [1, width]: the gate of the shared part's output; undefined: it has none. */
  readonly sharedGate: Linear | undefined;
  /** Where that part is beside the experts and has norms of its own. */
  readonly beside: BesideWeights | undefined;
}

/** Each f32 [width], where its own comment gives no other shape. */
interface BesideWeights {
  /** Gain of the residual stream's norm that the router reads. */
  readonly routerNorm: NormWeights;
  /** Factors of experts' weights, f32 [experts] */
  readonly factors: BufferHandle;
  readonly expertsNorm: NormWeights;
  readonly expertsPostNorm: NormWeights;
  readonly sharedPostNorm: NormWeights;
}

/** The matrices of one layer that add its inputs to its hidden state. */
export interface LayerInputWeights {
  /** [inputWidth, width] */
  readonly gate: Linear;
  /** [width, inputWidth] */
  readonly projection: Linear;
  /** f32 [width] */
  readonly norm: NormWeights;
}

/** The table and the matrix from which the inputs of all layers are made. */
export interface LayerInputsWeights {
  /** [vocabSize, layers · inputWidth] */
  readonly table: WeightHandle;
  /** [layers · inputWidth, width] */
  readonly projection: Linear;
  /** Of each layer's part, f32 [inputWidth] */
  readonly norm: NormWeights;
}

/** The feed-forward part of a layer with the norms around it, then the layer's own input and factor. */
export interface FeedForwardWeights {
  /** Norm before the part; undefined: it reads the residual stream itself (olmo2). */
  readonly ffNorm: NormWeights | undefined;
  /** undefined: the layer mixes tokens alone */
  readonly feedForward: DenseWeights | ExpertWeights | undefined;
  readonly ffPostNorm: NormWeights | undefined;
  readonly ffSumNorm: NormWeights | undefined;
  readonly input?: LayerInputWeights | undefined;
  /** Factor of the residual stream behind the layer; absent: 1. */
  readonly scale?: number;
}

/** Projections of a recurrent layer's input, each with its own matrix. */
interface DeltaProjections {
  /** [queries, keys and values, width] */
  readonly mixed: Linear;
  /** [values, width] */
  readonly gate: Linear;
  /** [heads, width] each */
  readonly alpha: Linear;
  readonly beta: Linear;
}

export interface DeltaWeights {
  readonly norm: NormWeights;
  /** fused: one matrix in order of key heads, with query, key, values and gates of each (qwen3next). */
  readonly mixed: Pick<DeltaProjections, "mixed" | "gate"> | { readonly fused: Linear };
  /** The same of alpha and beta: each key head's betas, then its alphas. */
  readonly gates: Pick<DeltaProjections, "alpha" | "beta"> | { readonly fused: Linear };
  /** f32 [taps, queries, keys and values] */
  readonly kernel: BufferHandle;
  /** f32 [heads] each */
  readonly decay: BufferHandle;
  readonly bias: BufferHandle;
  /** Of each head's output, f32 [valueDim]. */
  readonly headNorm: NormWeights;
  readonly output: Linear;
}

export interface DeltaLayerWeights extends FeedForwardWeights {
  readonly delta: DeltaWeights;
}

export interface MambaWeights {
  readonly norm: NormWeights;
  /** [values, width]: computes the gate on the states' output. */
  readonly gate: Linear;
  /** [values and the vectors of groups, width] */
  readonly mixed: Linear;
  /** [heads, width] */
  readonly steps: Linear;
  /** f32 [taps, mixed] */
  readonly kernel: BufferHandle;
  /** f32 [mixed] */
  readonly kernelBias: BufferHandle | undefined;
  /** f32 [heads] each */
  readonly decay: BufferHandle;
  readonly bias: BufferHandle;
  readonly skip: BufferHandle;
  /** Gain of the norm of each group's values, f32 [values]. */
  readonly groupNorm: BufferHandle;
  readonly output: Linear;
}

export interface MambaLayerWeights extends FeedForwardWeights {
  readonly mamba: MambaWeights;
}

/** A layer that is a feed-forward part alone. */
interface MixerlessWeights extends FeedForwardWeights {
  readonly isMixerless: true;
}

export interface ConvolutionWeights {
  readonly norm: NormWeights;
  /** [width, width] each: the gate before the convolution, the gate behind it, its inputs. */
  readonly before: Linear;
  readonly behind: Linear;
  readonly inputs: Linear;
  /** f32 [taps, width] */
  readonly kernel: BufferHandle;
  readonly output: Linear;
  readonly postNorm: NormWeights | undefined;
}

export interface ConvolutionLayerWeights extends FeedForwardWeights {
  readonly convolution: ConvolutionWeights;
}

export interface LatentWeights {
  readonly norm: NormWeights;
  /** [heads · (headDim + ropeDim), width], or behind a narrower matrix [queryRank, width] and a norm of its output. */
  readonly query: Linear;
  readonly compression: { readonly linear: Linear; readonly norm: NormWeights } | undefined;
  /** [kvRank, width], with a norm of its output: the latent vector */
  readonly latent: Linear;
  readonly latentNorm: NormWeights;
  /** [ropeDim, width]: the rotated part of keys */
  readonly rotated: Linear;
  /** [heads, kvRank, headDim]: maps a head's query to the space of the latent vectors */
  readonly keys: LinearStack;
  /** [heads, valueDim, kvRank]: from latent vectors to a head's value */
  readonly values: LinearStack;
  readonly output: Linear;
}

export interface LatentLayerWeights extends FeedForwardWeights {
  readonly latent: LatentWeights;
}

export interface LayerWeights extends FeedForwardWeights {
  /** Norms before a sub-layer; undefined: it reads the residual stream itself (olmo2). */
  readonly attentionNorm: NormWeights | undefined;
  readonly query: Linear;
  /** [numHeads, width]: gates of heads; undefined: heads have none, or theirs are rows of `query` */
  readonly gate?: Linear | undefined;
  /** undefined: the layer reads the keys and values of another */
  readonly key: Linear | undefined;
  /** undefined: also where values are keys */
  readonly value: Linear | undefined;
  /**
   * A second input of queries, keys and values, to whose products with these matrices those of the residual stream are
   * added (EAGLE-3).
   */
  readonly besides?: BesidesWeights;
  /** Norms of queries and keys: of each head, f32 [headDim] (qwen3, gemma3), or of all together (olmo2). */
  readonly queryNorm: NormWeights | undefined;
  readonly keyNorm: NormWeights | undefined;
  /** f32 [numHeads] */
  readonly sinks: BufferHandle | undefined;
  readonly attentionOutput: Linear;
  /** Norms after a sub-layer, before its residual is added (gemma2, gemma3, olmo2). */
  readonly attentionPostNorm: NormWeights | undefined;
  /** Norms of the sum of a sub-layer and its input (bert). */
  readonly attentionSumNorm: NormWeights | undefined;
}

export type AnyLayerWeights =
  | LayerWeights
  | LatentLayerWeights
  | DeltaLayerWeights
  | MambaLayerWeights
  | ConvolutionLayerWeights
  | MixerlessWeights;

export const isLatentLayer = (layer: AnyLayerWeights): layer is LatentLayerWeights => "latent" in layer;

export const isDeltaLayer = (layer: AnyLayerWeights): layer is DeltaLayerWeights => "delta" in layer;
export const isMambaLayer = (layer: AnyLayerWeights): layer is MambaLayerWeights => "mamba" in layer;
export const isMixerless = (layer: AnyLayerWeights): layer is MixerlessWeights => "isMixerless" in layer;
export const isConvolutionLayer = (layer: AnyLayerWeights): layer is ConvolutionLayerWeights => "convolution" in layer;

interface BesidesWeights extends Pick<LayerWeights, "query" | "key" | "value"> {
  /** f32 [rows, width] */
  readonly input: BufferHandle;
}

export interface ModelWeights {
  readonly embedding: WeightHandle;
  /**
   * Added to a token's embedding by its position, and by the text that it is in; undefined: the model has no such
   * table.
   */
  readonly positions: WeightHandle | undefined;
  readonly tokenTypes: WeightHandle | undefined;
  readonly embeddingNorm: NormWeights | undefined;
  /** undefined: layers have no inputs of their own */
  readonly layerInputs: LayerInputsWeights | undefined;
  readonly layers: readonly AnyLayerWeights[];
  /** undefined: heads without a norm of their own */
  readonly outputNorm: NormWeights | undefined;
  /** undefined: an encoder, which has no logits */
  readonly output: Linear | undefined;
  /** Tokens that the rows of the output matrix stand for, i32 [numRows]; absent: row i stands for token i. */
  readonly outputTokens?: { readonly ids: BufferHandle; readonly numRows: number } | undefined;
  /** Divisors of the rope frequencies: all contexts, up to the original context, and beyond it. */
  readonly ropeFactors: Float32Array | undefined;
  readonly ropeFactorsShort: Float32Array | undefined;
  readonly ropeFactorsLong: Float32Array | undefined;
}
