/**
 * The parts of a model, whichever file or table it is read from. Whether the embedded engine computes it, and how, is
 * in `servable.ts`.
 */

/**
 * values: a gate for each value of a head, whose rows lie behind those of the head's query in one matrix; heads: one
 * for each head, from a matrix of their own.
 */
export type HeadGates = "values" | "heads";

/** Attention over the keys and values of heads; several query heads share a key/value head. */
export interface AttentionMixer {
  readonly kind: "attention";
  readonly numHeads: number;
  /**
   * 0: the layer keeps no keys and values. Files of hybrid models list such layers; how they mix tokens is not
   * described.
   */
  readonly numKvHeads: number;
  /** Width of a query and of a key. */
  readonly headDim: number;
  readonly valueDim: number;
  /** Tokens that a token sees, itself included; 0 = all. In encoders half of the others lie on each side. */
  readonly window: number;
  /** Index of the layer's rope among the model's, or NO_ROPE. */
  readonly rope: number;
  /** By which heads' outputs are multiplied; absent: they have no gates. */
  readonly gates?: HeadGates;
  /** Values are keys as they were before norm and rope, and have no matrix of their own. */
  readonly areValuesKeys?: true;
  /** Index of the earlier layer whose keys and values the layer reads; absent: it has its own. */
  readonly keysOf?: number;
}

/** Queries and keys are not rotated: the layer does not know positions. */
export const NO_ROPE = -1;

/**
 * Attention that keeps one small vector per token, from which keys and values of all heads are computed (MLA, arXiv
 * 2405.04434).
 */
export interface LatentMixer {
  readonly kind: "latent";
  readonly numHeads: number;
  /** Width of a query and of a key without the rotated part. */
  readonly headDim: number;
  readonly valueDim: number;
  /** Width of the vector that is kept, without the rotated part. */
  readonly kvRank: number;
  /** Width of the rotated part of keys, which all heads share. */
  readonly ropeDim: number;
  /** Width of the compressed queries; 0: they are not compressed. */
  readonly queryRank: number;
}

/**
 * A state of a fixed size for each sequence, which every token changes by the gated delta rule (arXiv 2412.06464),
 * behind a short convolution of queries, keys and values.
 */
export interface DeltaMixer {
  readonly kind: "delta";
  /** Heads of values, each of which has a state [headDim, valueDim]. */
  readonly numHeads: number;
  /** Heads of queries and keys; several value heads share one. */
  readonly numKeyHeads: number;
  /** Width of a query and of a key. */
  readonly headDim: number;
  readonly valueDim: number;
  /** Tokens that the convolution sees, the present one included. */
  readonly numTaps: number;
  /**
   * Value head h shares the key head h mod numKeyHeads, as GGUF files of some models order their heads; false: the
   * value heads of one key head lie side by side.
   */
  readonly isTiled: boolean;
}

/**
 * A state of a fixed size for each sequence, which every token changes by the selective state space of Mamba-2 (arXiv
 * 2405.21060), behind a short convolution of what it writes and of how it writes and reads.
 */
export interface MambaMixer {
  readonly kind: "mamba";
  /** Heads, each of which has a state [stateDim, valueDim]. */
  readonly numHeads: number;
  /** Heads side by side share the vectors that write and read their states: so many groups there are. */
  readonly numGroups: number;
  /** Width of these vectors. */
  readonly stateDim: number;
  readonly valueDim: number;
  /** Tokens that the convolution sees, the present one included. */
  readonly numTaps: number;
}

/** The layer is a feed-forward part alone (Nemotron-H). */
interface NoMixer {
  readonly kind: "none";
}

export const NO_MIXER: NoMixer = { kind: "none" };

/** A short convolution between two gates (LFM2): a sequence's state is its last inputs. */
export interface ConvolutionMixer {
  readonly kind: "convolution";
  /** Columns, each of which is convolved alone: as many as a hidden state has values. */
  readonly width: number;
  /** Tokens that the convolution sees, the present one included. */
  readonly numTaps: number;
}

/** Mixers that keep a state of a fixed size in place of keys and values. */
export type RecurrentMixer = DeltaMixer | MambaMixer | ConvolutionMixer;

/** How a layer mixes the tokens of a sequence. */
export type Mixer = AttentionMixer | LatentMixer | RecurrentMixer | NoMixer;

export const isRecurrentMixer = (mixer: Mixer): mixer is RecurrentMixer =>
  mixer.kind === "delta" || mixer.kind === "mamba" || mixer.kind === "convolution";

/** Tokens see one another in the layer. */
export const isAttending = (mixer: Mixer): mixer is AttentionMixer | LatentMixer =>
  mixer.kind === "attention" || mixer.kind === "latent";

/** Feed-forward part of three matrices, one of which is the gate; of two where it has none. */
export interface DenseFeedForward {
  readonly kind: "dense";
  /** 0: the layer mixes tokens alone, and has no such part (Nemotron-H). */
  readonly width: number;
  /** Absent: true. */
  readonly isGated?: false;
}

/** Feed-forward parts, of which a router chooses some for each token. */
export interface ExpertsFeedForward {
  readonly kind: "experts";
  /** As of a dense part. */
  readonly isGated?: false;
  readonly count: number;
  /** Experts that compute a token. */
  readonly active: number;
  /** Width of one expert. */
  readonly width: number;
  /** Width of the part that every token passes beside its experts; 0: there is none. */
  readonly sharedWidth: number;
  /** A token has a gate of its own for the shared part's output; absent: it is added as it is. */
  readonly isSharedGated?: true;
}

export type FeedForward = DenseFeedForward | ExpertsFeedForward;

export const NO_FEED_FORWARD: DenseFeedForward = { kind: "dense", width: 0 };

export interface Layer {
  readonly mixer: Mixer;
  readonly feedForward: FeedForward;
}

export interface ModelDescription {
  readonly name: string;
  /** Values of a token's hidden state. */
  readonly width: number;
  readonly vocabSize: number;
  /** Longest sequence in tokens. */
  readonly contextLength: number;
  /** One matrix is both the embedding table and the output. */
  readonly isTied: boolean;
  /** Values that each layer takes of a token beside its hidden state, from a second table; absent: none. */
  readonly layerInputWidth?: number;
  /** As `layersOf` makes them. */
  readonly layers: readonly Layer[];
  /** Layers behind these that draft later tokens (multi-token prediction) and compute no answer; absent: none. */
  readonly draftLayers?: readonly Layer[];
}

/** Bounds that a damaged or hostile file runs into before anything is allocated; real models are far below. */
export const MODEL_LIMITS = {
  layers: 1024,
  width: 1 << 18,
  heads: 4096,
  headDim: 1024,
  /** With a head beside it, as wide as kernels take a head. */
  latent: (1 << 16) - 1024,
  ff: 1 << 20,
  experts: 1 << 14,
  /** Tokens that a convolution sees. */
  taps: 64,
  context: 1 << 27,
  vocab: 1 << 24,
} as const;

/** Layers that are alike become one object: the arithmetic of `sizes.ts` goes over the few kinds there are. */
export function layersOf<L extends Layer>(numLayers: number, layerAt: (index: number) => L): readonly L[] {
  const kinds = new Map<string, L>();
  const layers = Array.from({ length: numLayers }, (_, index) => {
    const layer = layerAt(index);
    const key = JSON.stringify(layer);
    const known = kinds.get(key) ?? Object.freeze(layer);
    kinds.set(key, known);
    return known;
  });
  return Object.freeze(layers);
}

/**
 * Whether layer `index` sees everything where every `period`-th layer does and the others have a window; period 0: all
 * have the window.
 * @param isFromFirst the first layer is one that does
 */
export function seesAll(index: number, period: number, isFromFirst = false): boolean {
  return period > 0 && index % period === (isFromFirst ? 0 : period - 1);
}

/**
 * The last layers of some models read the keys and values of the last layer before them that has the same kind,
 * windowed or not.
 * @param numOwn layers that have their own
 * @returns undefined: the layer has its own; −1: no layer before it is of its kind
 */
export function keysOf(index: number, numOwn: number, isLocal: (index: number) => boolean): number | undefined {
  if (index < numOwn) return undefined;
  for (let source = numOwn - 1; source >= 0; source--) if (isLocal(source) === isLocal(index)) return source;
  return -1;
}

/** Whether layer `index` is the second of `period` layers, as those with experts are in nomic-bert-moe. */
export const isSecond = (index: number, period: number): boolean => index % period === 1;
