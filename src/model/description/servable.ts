/**
 * The models that the embedded engine computes: a description narrowed to the layers that it has, with how their values
 * are computed.
 */
import type { Activation, Scoring } from "../../backend/ops.js";
import { MillraceError } from "../../core/errors.js";
import type { ParallelParts } from "./architecture-facts.js";
import { type Architecture, factsOf, isEncoder } from "./architectures.js";
import {
  type AttentionMixer,
  type FeedForward,
  type LatentMixer,
  type Mixer,
  type ModelDescription,
  NO_ROPE,
} from "./model-description.js";
import type { HeadDescription, Pooling } from "./pooling.js";
import type { RopeConfig } from "./rope.js";
import { expertsOf } from "./sizes.js";

export interface ServableLayer {
  readonly mixer: Mixer;
  readonly feedForward: FeedForward;
}

export interface AttentionLayer extends ServableLayer {
  readonly mixer: AttentionMixer;
}

export const isAttention = (layer: ServableLayer): layer is AttentionLayer => layer.mixer.kind === "attention";

/** A layer that keeps entries of its own of each token: keys and values of heads, or a latent vector. */
export interface StoringLayer extends ServableLayer {
  readonly mixer: AttentionMixer | LatentMixer;
}

export const isStoring = ({ mixer }: ServableLayer): boolean =>
  mixer.kind === "latent" || (mixer.kind === "attention" && mixer.keysOf === undefined);

/** Tokens that a token sees in a layer, itself included; 0 = all. */
export const windowOf = ({ mixer }: ServableLayer): number => (mixer.kind === "attention" ? mixer.window : 0);

/** The mixer of the first layer that has one of the kind; undefined: none has. */
export const firstMixer = <Kind extends Mixer["kind"]>({ layers }: Pick<ServableModel, "layers">, kind: Kind) =>
  layers.map(({ mixer }) => mixer).find((mixer): mixer is Extract<Mixer, { kind: Kind }> => mixer.kind === kind);

/** The mixers of a model's layers with latent attention. */
export const latentMixers = ({ layers }: Pick<ServableModel, "layers">): readonly LatentMixer[] =>
  layers.flatMap(({ mixer }) => (mixer.kind === "latent" ? [mixer] : []));

/**
 * The mixers of a model's layers with attention over heads' keys and values: at least one, unless the model's attention
 * is latent.
 */
export const attentionMixers = ({ layers }: Pick<ServableModel, "layers">): readonly AttentionMixer[] =>
  layers.filter(isAttention).map(({ mixer }) => mixer);

/**
 * Whether each layer is one of those with a window, though the window may be as long as the context: a rope of its own
 * shows it, or that the other layers with attention have none.
 */
export function localLayers({ layers, architecture }: Pick<ServableModel, "layers" | "architecture">): boolean[] {
  const { areAloneRotated } = factsOf(architecture).windows ?? {};
  const showsByRope = areAloneRotated !== undefined && attentionMixers({ layers }).some(({ rope }) => rope === NO_ROPE);
  const isLocal = ({ window, rope }: AttentionMixer) => window > 0 || rope === 1 || (showsByRope && rope !== NO_ROPE);
  return layers.map(({ mixer }) => mixer.kind === "attention" && isLocal(mixer));
}

/** How a router's logits become a choice of experts and their weights. */
export interface ExpertRouting {
  readonly scoring: Scoring;
  /** The weights of a token's experts are relative to their own sum, not to that of all experts. */
  readonly normalises: boolean;
  /** Factor on the weights. */
  readonly scale: number;
  /** Experts lie in groups, of which a token uses the best few; 1 of 1: there are none. */
  readonly numGroups: number;
  readonly numUsedGroups: number;
  /** Scores have biases, which weights do not have. */
  readonly hasBias: boolean;
}

export const PLAIN_ROUTING: ExpertRouting = {
  scoring: "softmax",
  normalises: true,
  scale: 1,
  numGroups: 1,
  numUsedGroups: 1,
  hasBias: false,
};

/** Phi-MoE's, of which neither files nor folders say anything. */
export const SPARSE_MIXER: ExpertRouting = { ...PLAIN_ROUTING, scoring: "sparseMixer", normalises: false };

/** Queries are multiplied by 1 + beta · ln(1 + floor(position / length)). */
export interface QueryScaling {
  readonly beta: number;
  readonly length: number;
}

/** A table that is looked up by position. */
export interface PositionTable {
  readonly numRows: number;
  /** Row of the first position: some models leave out the first rows. */
  readonly firstRow: number;
}

export interface ServableModel extends ModelDescription {
  readonly architecture: Architecture;
  /** Those with attention have as many query heads each. */
  readonly layers: readonly ServableLayer[];
  readonly draftLayers?: readonly AttentionLayer[];
  readonly rmsEps: number;
  readonly embeddingScale: number;
  readonly attentionScale: number;
  /** Factor on a sub-layer's output, which is added to the residual stream. */
  readonly residualScale: number;
  readonly logitScale: number;
  /** Bounds of attention scores and of logits, which become cap · tanh(x / cap); 0 = none. */
  readonly attentionCap: number;
  readonly logitCap: number;
  readonly queryScaling: QueryScaling | undefined;
  /** Each head has one more attention score, which has no value: it takes a share of the sum (gpt-oss). */
  readonly hasSinks: boolean;
  /** The router and the experts must have biases: without them, the model would compute something else. */
  readonly hasExpertBiases: boolean;
  /** Norms stand after sub-layers and not before them. */
  readonly isPostNormed: boolean;
  /** Norms take away the mean and may have a bias (LayerNorm); otherwise they only divide by the root mean square. */
  readonly isLayerNormed: boolean;
  /** A layer's two parts both read its input, and both are added to it; undefined: the second reads the first's sum. */
  readonly parallel: ParallelParts | undefined;
  /** Norms stand after the sum of a sub-layer and its input (BERT), so that the residual stream itself is normed. */
  readonly normsSums: boolean;
  /** A token sees only those before it. In encoders every token sees the whole text, and none is generated. */
  readonly isCausal: boolean;
  readonly positionTable: PositionTable | undefined;
  /** Rows of the table that says which of two texts a token is in; 0: there is none. */
  readonly numTokenTypes: number;
  readonly hasEmbeddingNorm: boolean;
  /** Every linear layer and every norm must have a bias; false: biases are used where the file has them. */
  readonly hasBiases: boolean;
  readonly hasHeadNorms: boolean;
  /** Queries and keys are rotated before they are normed. */
  readonly normsAfterRope: boolean;
  /** Norms of queries and of keys go over all heads together. */
  readonly normsAllHeads: boolean;
  /** Heads of values are normed without weights (Gemma 4). */
  readonly hasValueNorm: boolean;
  readonly hasPostNorms: boolean;
  /** Layers with experts have a dense part beside them, each with norms of its own (Gemma 4). */
  readonly hasDenseBesideExperts: boolean;
  readonly activation: Activation;
  readonly routing: ExpertRouting;
  /** Rotated pairs are (i, i + half) instead of (2i, 2i + 1). */
  readonly isNeoxRope: boolean;
  readonly ropes: readonly RopeConfig[];
  /** How the model wants its hidden states pooled, when the file says so. */
  readonly pooling: Pooling | undefined;
  /** The layers behind the pooling; undefined: there are none. */
  readonly head: HeadDescription | undefined;
}

/**
 * The fields that the architecture and the width decide. Fields that only some models have stand at their neutral
 * values.
 */
export function fixedBy(architecture: Architecture, width: number) {
  const facts = factsOf(architecture);
  return {
    architecture: facts.languagePart ?? architecture,
    isCausal: !isEncoder(architecture),
    isPostNormed: facts.isPostNormed ?? false,
    isLayerNormed: facts.isLayerNormed ?? false,
    parallel: facts.parallel,
    normsSums: facts.normsSums ?? false,
    hasEmbeddingNorm: facts.hasEmbeddingNorm ?? false,
    hasBiases: facts.hasBiases ?? false,
    hasHeadNorms: facts.hasHeadNorms ?? false,
    normsAfterRope: facts.normsAfterRope ?? false,
    normsAllHeads: facts.normsAllHeads ?? false,
    hasValueNorm: facts.hasValueNorm ?? false,
    hasPostNorms: facts.hasPostNorms ?? facts.isPostNormed ?? false,
    hasDenseBesideExperts: facts.experts?.areBesideDense ?? false,
    hasSinks: facts.hasSinks ?? false,
    hasExpertBiases: facts.experts?.hasBiases ?? false,
    embeddingScale: facts.scalesEmbeddings ? Math.fround(Math.sqrt(width)) : 1,
    positionTable: undefined,
    numTokenTypes: 0,
    residualScale: 1,
    logitScale: 1,
    attentionCap: 0,
    logitCap: 0,
    queryScaling: undefined,
    head: undefined,
  } as const satisfies Partial<ServableModel>;
}

/** The tasks that a model can do for requests. */
export const TASKS = ["generate", "embed", "rerank"] as const;
export type Task = (typeof TASKS)[number];

export function tasksOf({ isCausal, head }: Pick<ServableModel, "isCausal" | "head">): readonly Task[] {
  const ofVectors: Task = head?.scoring === undefined ? "embed" : "rerank";
  return isCausal ? ["generate", ofVectors] : [ofVectors];
}

/** @throws architecture_unsupported, where the engine does not compute the layers */
export function servableLayers(
  { layers }: Pick<ModelDescription, "layers">,
  architecture: Architecture,
): readonly ServableLayer[] {
  const isLatent = factsOf(architecture).isLatent ?? false;
  if (layers.some(({ mixer }) => (mixer.kind === "latent") !== isLatent)) {
    const [expected, got] = isLatent ? ["latent", "another kind"] : ["no latent", "a layer of it"];
    throw unservedVariant(`expected ${expected} attention in a ${architecture}, got ${got}`);
  }
  if (!isLatent && !layers.some(isAttention)) {
    throw unservedVariant("expected at least one layer with attention, got none");
  }
  const { sharedWidth = 0, count = 0 } = expertsOf({ layers }) ?? {};
  const { mayShare = false, areBesideDense = false } = factsOf(architecture).experts ?? {};
  if (sharedWidth > 0 && !mayShare && !areBesideDense) {
    throw unservedVariant(`expected experts without a part that every token passes, got one of width ${sharedWidth}`);
  }
  const numExperts = count * layers.filter(({ feedForward }) => feedForward.kind === "experts").length;
  if (numExperts > MOST_EXPERTS) {
    throw unservedVariant(`expected at most ${MOST_EXPERTS} experts in all layers, got ${numExperts}`);
  }
  const mixers = attentionMixers({ layers });
  const numHeads = [...mixers, ...latentMixers({ layers })].map((mixer) => mixer.numHeads);
  if (new Set(numHeads).size > 1) {
    throw unservedVariant("expected the same number of query heads in every layer, got several values");
  }
  if (mixers.some(({ numKvHeads }) => numKvHeads === 0)) {
    throw unservedVariant("expected key/value heads in every layer, got layers without any");
  }
  assertKeysAreThere(layers);
  return layers;
}

/** The description with the layers that draft, where the engine could compute all of them. */
export function withServedDrafts({
  draftLayers = [],
  ...description
}: ModelDescription): Omit<ModelDescription, "draftLayers"> & Pick<ServableModel, "draftLayers"> {
  const attending = draftLayers.filter(isAttention);
  if (attending.length === 0 || attending.length < draftLayers.length) return description;
  return { ...description, draftLayers: Object.freeze(attending) };
}

/** Each is three matrices to place: far above real models, and a bound for hostile files. */
const MOST_EXPERTS = 1 << 17;

/** Layers that read the keys and values of another must have heads of the same shape, and see as far. */
function assertKeysAreThere(layers: readonly ServableLayer[]): void {
  layers.forEach((layer, index) => {
    if (!isAttention(layer) || layer.mixer.keysOf === undefined) return;
    const { keysOf, numKvHeads, headDim, window } = layer.mixer;
    const read = layers[keysOf];
    const source = read !== undefined && isAttention(read) ? read.mixer : undefined;
    const isAlike = source?.numKvHeads === numKvHeads && source.headDim === headDim && source.window === window;
    if (isAlike) return;
    throw unservedVariant(
      `expected layer ${index} to read keys and values of a layer before it with the same heads and window, got none`,
    );
  });
}

/** @throws architecture_unsupported for groups that do not hold the experts, or too few of them */
export function assertGroups({ layers }: Pick<ModelDescription, "layers">, routing: ExpertRouting): void {
  const { numGroups, numUsedGroups } = routing;
  for (const { feedForward } of layers) {
    if (feedForward.kind !== "experts") continue;
    const { count, active } = feedForward;
    const perGroup = count / numGroups;
    const isWhole = numGroups === 1 || (Number.isInteger(perGroup) && perGroup >= 2);
    if (isWhole && numUsedGroups <= numGroups && perGroup * numUsedGroups >= active) continue;
    throw unservedVariant(
      `expected ${count} experts in whole groups, with ${active} in those that a token uses, got ${numUsedGroups} of ${numGroups} groups`,
    );
  }
}

export const unservedArchitecture = (message: string): MillraceError =>
  new MillraceError("architecture_unsupported", message, {
    hint: "The embedded engine serves these architectures; run other models through an external engine.",
  });

export const unservedVariant = (message: string): MillraceError =>
  new MillraceError("architecture_unsupported", message, {
    hint: "This variant of the architecture is not served yet.",
  });

/** @returns why the embedded engine refuses the model that `narrow` narrows; undefined: it computes it */
export function refusalOf(narrow: () => unknown): string | undefined {
  try {
    narrow();
    return undefined;
  } catch (error) {
    if (error instanceof MillraceError) return error.message;
    throw error;
  }
}
