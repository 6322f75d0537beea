/** Options of speculative decoding. */

/** Kinds of trained heads. */
export const HEAD_KINDS = ["medusa", "eagle"] as const;
export type HeadKind = (typeof HEAD_KINDS)[number];
/** heads: of any kind; eagle3: a head as the hub has it, with its own keys and values. */
export const HEAD_METHODS = ["heads", ...HEAD_KINDS, "eagle3"] as const;
const METHODS_WITH_MODEL = ["draft_model", ...HEAD_METHODS] as const;
/** mtp: the layer for multi-token prediction that the model's own file has. */
export const SPECULATIVE_METHODS = ["none", "auto", "ngram", "suffix", "mtp", ...METHODS_WITH_MODEL] as const;
export type SpeculativeMethod = (typeof SPECULATIVE_METHODS)[number];

/** Do drafts come from another model, or from heads in a file of their own, alone? */
export const isModelMethod = (method: SpeculativeMethod): boolean =>
  (METHODS_WITH_MODEL as readonly string[]).includes(method);

export interface SpeculativeConfig {
  /** auto: all drafters that need no file beside the model's, chosen step by step. none: plain decoding. */
  readonly method: SpeculativeMethod;
  /** Length of the longest draft, in tokens. */
  readonly numSpeculativeTokens: number;
  /** Shortest match, in tokens, whose continuation is proposed. */
  readonly promptLookupMin: number;
  /** Number of finished requests whose outputs `suffix` keeps for each cache salt. */
  readonly suffixMaxCachedRequests: number;
  /** A draft ends before its estimated probability falls below this. */
  readonly suffixMinTokenProb: number;
  /**
   * Most other tokens that are checked in place of a draft's first one, in the same step. Drafters that do not rank
   * tokens have none.
   */
  readonly alternatives: number;
  /**
   * A draft model of the same vocabulary, or heads trained on the model. With auto they draft where text lookup finds
   * nothing; without a path, the model's own layer for multi-token prediction does, where it has one.
   */
  readonly draftModelPath: string | undefined;
  /** true: draft as many tokens as pay off, none if none does; false: always draft all found. */
  readonly isAdaptive: boolean;
}

export const DEFAULT_SPECULATIVE_CONFIG: SpeculativeConfig = {
  method: "auto",
  numSpeculativeTokens: 15,
  promptLookupMin: 1,
  suffixMaxCachedRequests: 10_000,
  suffixMinTokenProb: 0.1,
  alternatives: 2,
  draftModelPath: undefined,
  isAdaptive: true,
};

export const NO_SPECULATION: SpeculativeConfig = { ...DEFAULT_SPECULATIVE_CONFIG, method: "none" };
