/**
 * The dashboard's figures as the server sends them, and its messages about them. A figure is absent where the server
 * does not know it.
 */

interface Quantiles {
  readonly p50?: number;
  readonly p95?: number;
  readonly p99?: number;
}

/** An event on the server. */
export interface ServerEvent {
  readonly atMs: number;
  readonly kind: string;
  readonly text: string;
}

/** The server's bottleneck. */
export interface Binding {
  readonly name: "memory" | "seats" | "queue" | "host" | "prefill" | "decode" | "steps" | "nothing";
  /** The metric that shows the bottleneck, with its value. */
  readonly evidence: string;
  /** A change that would help. */
  readonly advice: string;
}

/** The operator's targets for 95 requests in 100, in milliseconds. */
export interface Targets {
  readonly ttftMs?: number;
  readonly tpotMs?: number;
}

export interface Load {
  readonly atMs: number;
  readonly tokensInPerS?: number;
  readonly tokensOutPerS?: number;
  readonly requestsPerS?: number;
  readonly refusedPerS?: number;
  readonly running?: number;
  readonly waiting?: number;
  readonly seats?: number;
  readonly memoryBytes?: number;
  /** Shares, 0 to 1. */
  readonly kvUse?: number;
  readonly prefixHits?: number;
  readonly acceptance?: number;
  /** Shares of the steps' time: for prompts (the rest is for answers), and outside the kernels. */
  readonly promptShare?: number;
  readonly hostShare?: number;
  readonly preemptionsPerS?: number;
  /** Tokens: dropped from KV memory, found in the prefix cache, and given by drafts. */
  readonly evictedPerS?: number;
  readonly prefixSavedPerS?: number;
  readonly draftedPerS?: number;
  readonly savedPerS?: number;
  /** Dollars per hour of a tenant. */
  readonly costPerH?: number;
  readonly savedCostPerH?: number;
  /** Milliseconds. */
  readonly ttft: Quantiles;
  readonly tpot: Quantiles;
  readonly queue: Quantiles;
  /** Events since the previous figures; absent: none. */
  readonly events?: readonly ServerEvent[];
  /** Only in live figures of the whole server or of a part other than a tenant. */
  readonly binding?: Binding;
  /** Only in live figures. */
  readonly targets?: Targets;
}

/** Share of the answers' tokens that came from drafts. */
export const draftedShare = ({ draftedPerS, tokensOutPerS }: Load): number | undefined =>
  draftedPerS === undefined || tokensOutPerS === undefined || tokensOutPerS === 0
    ? undefined
    : Math.min(1, draftedPerS / tokensOutPerS);

/** Share of the steps' time for answers. */
export const answerShare = ({ promptShare }: Load): number | undefined =>
  promptShare === undefined ? undefined : 1 - promptShare;
