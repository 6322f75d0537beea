/** Results of a request, as the engine reports them step by step. */

export interface TokenLogprob {
  readonly tokenId: number;
  readonly logprob: number;
  /** 1 = most likely. */
  readonly rank: number;
  /** Most likely tokens, best first; need not contain the token itself. */
  readonly top: readonly { readonly tokenId: number; readonly logprob: number }[];
}

/** stop: a stop token was sampled; length: maxTokens or the context is used up. */
export type FinishReason = "stop" | "length";

/** Results of one request in one step. */
export interface EngineOutput {
  readonly tokenIds: readonly number[];
  /** Parallel to tokenIds when log-probabilities were asked for. */
  readonly logprobs?: readonly TokenLogprob[];
  /** One for each prompt position (null for the first); sent once, with or before the first token. */
  readonly promptLogprobs?: readonly (TokenLogprob | null)[];
  /** [embeddingWidth], not normalised, or a reranker's scores; sent once, at the end. */
  readonly pooled?: Float64Array;
  readonly finishReason?: FinishReason;
  /** The stop token that ended the sequence. */
  readonly stopTokenId?: number;
  /** Prompt tokens found in the prefix cache at first admission. */
  readonly numCachedTokens: number;
  /** Tokens whose keys and values have been evicted, averaged over the layers; absent where nothing is evicted. */
  readonly numEvictedTokens?: number;
  /** Milliseconds from arrival at the engine to first admission. */
  readonly queueMs: number;
}
