/** Facts about one request that its stages note while it runs, for the ledger and for response headers. */
import type { TieredPrice } from "./price.js";

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
  /**
   * answered: the whole answer came; broken: it broke off; refused: none came; cancelled: the gateway or the client no
   * longer wanted it.
   */
  outcome?: "answered" | "broken" | "refused" | "cancelled";
  /**
   * Token counts as the upstream reported them, else as estimated, each disjoint from the others. Undefined: nothing
   * was made.
   */
  usage?: TokenCounts;
  /**
   * Cost of the attempt, set before the policies learn that it ended. Undefined: there is no ledger, or the model has
   * no price.
   */
  charge?: Charge;
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
  /** Tokens that a drafter or the client proposed, and those that became part of the answer. Absent: not reported. */
  readonly drafted?: number;
  readonly accepted?: number;
  /** The answer ended because it reached its limit of tokens. */
  readonly isTruncated?: boolean;
  /**
   * The upstream reported nothing, or the answer was cut: the prompt is estimated from its bytes, the output from the
   * events or bytes.
   */
  readonly isEstimated?: boolean;
  /** The upstream's figures contradicted each other, or were no counts, and have been clamped. */
  readonly isDoubtful?: boolean;
}

/** A cost, with the price table by which it can be computed again. */
export interface Charge {
  readonly nanoDollars: bigint;
  /** `Price.version` */
  readonly price: string;
}

/** Told of each attempt as it begins, answers and ends. Must not throw. */
export interface AttemptWatcher {
  began(attempt: AttemptRecord): void;
  answering(attempt: AttemptRecord): void;
  /** Its last byte has come: `usage` is set, and the sink is about to end. */
  completing(attempt: AttemptRecord): void;
  ended(attempt: AttemptRecord): void;
}

/** Names of notes that the ledger reads; other notes are only shown. */
export const NOTE = {
  /** "hit:" and how, if the answer is one that was kept. */
  cache: "cache",
  /** Nano-dollars that a policy saved, in decimal digits, a space and the policy's name. */
  saved: "saved",
  /** Id of the batch that the request belongs to. */
  batch: "batch",
} as const;

/**
 * The price list that a request pays by. batch: a line of a batch that the gateway runs itself; provider-batch: one
 * that the provider's own batch endpoint answers.
 */
export type Rate = "full" | "batch" | "provider-batch";

export class RequestRecord {
  readonly attempts: AttemptRecord[] = [];
  /** Notes of policies by name, each written by the policy of that name; they are shown in the ledger. */
  readonly notes = new Map<string, string>();
  /** Whether answers are searched for token counts. */
  wantsUsage = false;
  /**
   * A policy has told the upstream to make at most so many tokens, which the client has not: an answer that ends there
   * is no function of its request.
   */
  isBounded = false;
  /** The client says that its answer is not to be kept. */
  isPrivate = false;
  /** The limit of tokens in the request is a policy's: the client has given none. */
  isLimitAdded = false;
  /**
   * A budget refused the request only because of other requests' reservations: when these return unused money, the
   * budget may pay for it.
   */
  isPayableLater = false;
  /** The answer comes from a provider's batch endpoint. */
  isHanded = false;
  /** The price when the request was handed over, whatever the configuration says since. */
  agreedPrice: TieredPrice | undefined;
  watcher: AttemptWatcher | undefined;
  /**
   * Reservation of the policy of limits. Only the policy's part behind the caches reads it. A WeakMap would keep each
   * request until a full collection.
   */
  admitted: unknown;
  /** The kept answer that was given instead of a new one: the cache has saved the cost of its tokens. */
  kept: KeptAnswer | undefined;

  get rate(): Rate {
    if (this.isHanded) return "provider-batch";
    return this.notes.has(NOTE.batch) ? "batch" : "full";
  }
}

interface KeptAnswer {
  /** Own name of the model that made it. */
  readonly model: string;
  /** Undefined: not known. */
  readonly usage: TokenCounts | undefined;
}
