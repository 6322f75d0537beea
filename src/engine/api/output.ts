/** What the engine reports of a request after each step. */

export interface TokenLogprob {
  readonly tokenId: number;
  readonly logprob: number;
  /** 1 = most likely. */
  readonly rank: number;
  /** Most likely tokens, best first; does not necessarily contain the token itself. */
  readonly top: readonly { readonly tokenId: number; readonly logprob: number }[];
}

/** stop: a stop token came; length: maxTokens or the context is full. */
export type FinishReason = "stop" | "length";

/** One step's news of one request. */
export interface EngineOutput {
  readonly tokenIds: readonly number[];
  /** Parallel to tokenIds when log-probabilities were asked for. */
  readonly logprobs?: readonly TokenLogprob[];
  /** For each prompt position (null for the first), once, with or before the first token. */
  readonly promptLogprobs?: readonly (TokenLogprob | null)[];
  /** [embeddingWidth], not normalised; once, at the end, when asked for. */
  readonly pooled?: Float64Array;
  readonly finishReason?: FinishReason;
  /** The stop token that ended the sequence. */
  readonly stopTokenId?: number;
  /** Prompt tokens that came from the prefix cache at first admission. */
  readonly numCachedTokens: number;
  /** Milliseconds from arrival at the engine to first admission. */
  readonly queueMs: number;
}
