/** What guesses tokens ahead, and how far. */
/** Of trained heads. */
export const HEAD_KINDS = ["medusa", "eagle"] as const;
export type HeadKind = (typeof HEAD_KINDS)[number];
const METHODS_WITH_MODEL = ["draft_model", "heads", ...HEAD_KINDS] as const;
export const SPECULATIVE_METHODS = ["none", "auto", "ngram", "suffix", ...METHODS_WITH_MODEL] as const;
export type SpeculativeMethod = (typeof SPECULATIVE_METHODS)[number];

/** Whether the method is a model's (or heads') guesses and nothing else. */
export const isModelMethod = (method: SpeculativeMethod): boolean =>
  (METHODS_WITH_MODEL as readonly string[]).includes(method);

export interface SpeculativeConfig {
  /** auto: every drafter that needs no model of its own, and whether to draft is decided step by step. none: plain decoding. */
  readonly method: SpeculativeMethod;
  /** Longest draft. */
  readonly numSpeculativeTokens: number;
  /** Tokens that must match at least before what followed them is proposed. */
  readonly promptLookupMin: number;
  /** Requests whose outputs `suffix` remembers, for each cache salt. */
  readonly suffixMaxCachedRequests: number;
  /** A draft ends where its drafter thinks it less likely than this. */
  readonly suffixMinTokenProb: number;
  /** A model of the same vocabulary, or heads trained on the model, that guess too: alone with a method of their own, after the others with auto. */
  readonly draftModelPath: string | undefined;
  /** true: as many tokens as pay off, none if need be; false: always as many as there are. */
  readonly isAdaptive: boolean;
}

export const DEFAULT_SPECULATIVE_CONFIG: SpeculativeConfig = {
  method: "auto",
  numSpeculativeTokens: 15,
  promptLookupMin: 1,
  suffixMaxCachedRequests: 10_000,
  suffixMinTokenProb: 0.1,
  draftModelPath: undefined,
  isAdaptive: true,
};

export const NO_SPECULATION: SpeculativeConfig = { ...DEFAULT_SPECULATIVE_CONFIG, method: "none" };
