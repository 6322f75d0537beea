/** Facts about one request that its stages note while it runs, for the ledger and for response headers. */

/** One try at one upstream. Times are of `performance.now()`. */
export interface AttemptRecord {
  readonly instance: string;
  readonly engine: string;
  readonly model: string;
  readonly startMs: number;
  firstByteMs?: number;
  endMs?: number;
  /** HTTP status of the answer; undefined if there was none. */
  status?: number | undefined;
  /** answered: the whole answer came; broken: it broke off; refused: none came; cancelled: the gateway or the client no longer wanted it. */
  outcome?: "answered" | "broken" | "refused" | "cancelled";
  /** Token counts as the upstream reported them, each disjoint from the others. Undefined: it reported none. */
  usage?: TokenCounts;
}

/** Disjoint token counts, of which the price of an answer is a sum. */
export interface TokenCounts {
  /** Prompt tokens that were computed. */
  readonly fresh: number;
  readonly cacheRead: number;
  readonly cacheWrite: number;
  readonly output: number;
  /** Part of `output`. */
  readonly reasoning: number;
}

export class RequestRecord {
  readonly attempts: AttemptRecord[] = [];
  /** Notes of policies by name, each written by the policy of that name; they are shown in the ledger. */
  readonly notes = new Map<string, string>();
  /** Token counts of a kept answer that was given instead of a new one: what it would have cost is what the cache saved. */
  savedUsage?: TokenCounts;
}
