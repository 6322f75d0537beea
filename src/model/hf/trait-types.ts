/** What a configuration class of transformers takes where a config.json is silent. */
import type { Activation } from "../../backend/ops.js";
import type { Architecture } from "../description/architectures.js";

export interface TypeTraits {
  /** Absent: the engine does not compute such models. */
  readonly architecture?: Architecture;
  /**
   * The layers with the sliding window where `layer_types` is absent. period: as the architecture's; whenUsed: from
   * max_window_layers on, if use_sliding_window; late: the same without the switch; allWhenUsed: all, if
   * use_sliding_window.
   */
  readonly windows: "none" | "all" | "listed" | "period" | "whenUsed" | "late" | "allWhenUsed";
  readonly isTied: boolean;
  /** A config.json must state its rope: the class's default is not assumed. */
  readonly hasOwnRope?: true;
  /** `rotary_dim` says how many values of a head are rotated. */
  readonly statesRotatedDim?: true;
  /** Names of activations that a file may choose; absent: it may name the architecture's alone. */
  readonly activations?: Readonly<Record<string, Activation>>;
  /** Traits of an encoder. EmbeddingGemma has none, because it is read as the Gemma 3 that it is made of. */
  readonly encoder?: EncoderTraits;
  /** Absent: models of the class have none. */
  readonly experts?: ExpertTraits;
  /** Features of the class that would silently change the answers if they were ignored. */
  readonly unservedKeys?: readonly string[];
  /** Keys by which models would compute something else, and the values with which they do not; a file may be silent. */
  readonly servedValues?: Readonly<Record<string, readonly (string | number | boolean)[]>>;
  /**
   * The width of dense parts. shared: `shared_intermediate_size`; adjusted: computed from stated values; fourfold: four
   * times the model's width where a file is silent; absent: stated.
   */
  readonly denseWidth?: "shared" | "adjusted" | "stated" | "fourfold";
  /** Rows of the table of positions before that of the first one, which `max_position_embeddings` does not count. */
  readonly rowsBeforePositions?: number;
  readonly defaults: {
    readonly rmsEps: number;
    readonly ropeBase: number;
    readonly width?: number;
    readonly numLayers?: number;
    readonly ffWidth?: number;
    readonly headDim?: number;
    readonly numHeads?: number;
    readonly numKvHeads?: number;
    readonly maxPositions?: number;
    readonly window?: number;
    /** The first layer with a window, where the file says that it is used; absent: 28. */
    readonly firstWindow?: number;
    readonly vocabSize?: number;
    readonly attentionScalar?: number;
    /** Width of heads in layers without a window, where these have their own. */
    readonly globalHeadDim?: number;
    readonly layerInputWidth?: number;
    /** Share of a head that is rotated. */
    readonly rotatedShare?: number;
    /** Tokens that a short convolution sees. */
    readonly numTaps?: number;
  };
}

/** Experts of a class, where a config.json is silent. */
interface ExpertTraits {
  readonly count: number;
  readonly active: number;
  readonly width: number;
  /** The key of one expert's width. */
  readonly widthKey: string;
  /** The config.json says which layers have them, and whether their weights are relative to one another. */
  readonly hasChoice: boolean;
  /** With a choice, where the config.json is silent: weights are relative to one another. */
  readonly normalises?: boolean;
  /** Factor of the weights, and groups of experts with those that a token uses; absent: 1 each. */
  readonly scale?: number;
  readonly numGroups?: number;
  readonly numUsedGroups?: number;
  /** Layers at the beginning that have none. */
  readonly numDenseLayers?: number;
  /** Width of the part that every token passes, in experts. */
  readonly numShared?: number;
  /** The key of that width, where it is stated in values, and the class's own; absent: a key that most classes have. */
  readonly sharedWidthKey?: string;
  readonly sharedWidth?: number;
  /** Folders may have the matrices of all experts of a layer transposed: [experts, inputs, outputs]. */
  readonly mayBeTransposed?: true;
  /** Of classes of an architecture that has either. */
  readonly scoring?: "softmax";
}

export interface EncoderTraits {
  readonly epsKey: "layer_norm_eps" | "norm_eps";
  readonly numTokenTypes: number;
  /** The first position has the row after that of the padding token's number. */
  readonly isTablePadded?: true;
}

export interface ServedTraits extends TypeTraits {
  readonly architecture: Architecture;
}

/** Of a class whose config.json says which layers have them, and how they are weighed. */
export const chosenExperts = (
  count: number,
  active: number,
  width: number,
  more: Partial<ExpertTraits> = {},
): ExpertTraits => ({
  count,
  active,
  width,
  widthKey: "moe_intermediate_size",
  hasChoice: true,
  ...more,
});

export const ANY: TypeTraits = { windows: "none", isTied: false, defaults: { rmsEps: 1e-6, ropeBase: 10_000 } };
export const LLAMA: ServedTraits = { ...ANY, architecture: "llama" };
