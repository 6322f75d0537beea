/** What adapters and routing both must know of a running engine: where it is and how much it holds. */

/** Where requests go. */
export interface UpstreamTarget {
  /** Without a path, for instance http://127.0.0.1:8101. */
  readonly url: string;
  readonly apiKey: string | undefined;
  /** The name the engine itself answers to, which takes the place of the request's `model`; undefined: sent as it came. */
  readonly modelName: string | undefined;
}

/** What an engine can hold, as far as it says. */
export interface Capacity {
  /** Sequences at once. */
  readonly seats: number | undefined;
  /** Tokens of KV memory, which bound what its prefix cache can know. */
  readonly kvTokens: number | undefined;
  /** Tokens per block of its prefix cache. */
  readonly blockSize: number | undefined;
}
