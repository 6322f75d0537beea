/** Facts about one request that its stages note while it runs, for the ledger and for response headers. */
import type { TieredPrice } from "./price.js";

/** One attempt at one upstream. Times are of `performance.now()`. */
export interface AttemptRecord {
  readonly instance: string;
  readonly engine: string;
  readonly model: string;
  readonly startMs: number;
  firstByteMs?: number;
  endMs?: number;
  /** HTTP status of the answer; undefined: no answer. */
  status?: number | undefined;
  /**
   * answered: the whole answer came; broken: it broke off; refused: no answer came; cancelled: the gateway or the
   * client no longer wanted it.
   */
  outcome?: "answered" | "broken" | "refused" | "cancelled";
  /**
   * Token counts as the upstream reported them, else as estimated, each disjoint from the others. Undefined: nothing
   * was generated.
   */
  usage?: TokenCounts;
  /**
   * Cost of the attempt, set before the policies learn of its end. Undefined: there is no ledger, or the model has no
   * price.
   */
  charge?: Charge;
}

/** Disjoint token counts: the price of an answer is a sum over them. */
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
  /** The answer ended at its limit of tokens. */
  readonly isTruncated?: boolean;
  /**
   * The upstream reported nothing, or the answer was cut: the prompt is estimated from its bytes, the output from the
   * events or bytes.
   */
  readonly isEstimated?: boolean;
  /** The upstream's figures contradicted each other, or were not counts, and have been clamped. */
  readonly isDoubtful?: boolean;
}

/** A cost, with the price table for computing it again. */
export interface Charge {
  readonly nanoDollars: bigint;
  /** `Price.version` */
  readonly price: string;
}

/** Watches each attempt as it begins, answers and ends. Must not throw. */
export interface AttemptWatcher {
  began(attempt: AttemptRecord): void;
  answering(attempt: AttemptRecord): void;
  /** The attempt's last byte has come: `usage` is set, and the sink is about to end. */
  completing(attempt: AttemptRecord): void;
  ended(attempt: AttemptRecord): void;
}

/** Names of notes that the ledger reads; other notes are only shown. */
export const NOTE = {
  /** "hit:" and the kind of hit, if the answer is a kept one. */
  cache: "cache",
  /** Nano-dollars that a policy saved, in decimal digits, a space and the policy's name. */
  saved: "saved",
  /** Id of the batch that the request belongs to. */
  batch: "batch",
} as const;

/**
 * The price list of a request. batch: a line of a batch that the gateway runs itself; provider-batch: a line that the
 * provider's own batch endpoint answers.
 */
export type Rate = "full" | "batch" | "provider-batch";

export class RequestRecord {
  readonly attempts: AttemptRecord[] = [];
  /** Notes of policies by name, each written by the policy of that name; they are shown in the ledger. */
  readonly notes = new Map<string, string>();
  /** Whether answers are searched for token counts. */
  wantsUsage = false;
  /**
   * A policy, not the client, has told the upstream to make at most a number of tokens: an answer that ends there is
   * not a function of its request.
   */
  isBounded = false;
  /** The client forbids keeping its answer. */
  isPrivate = false;
  /** A policy added the request's limit of tokens: the client has given none. */
  isLimitAdded = false;
  /**
   * A budget refused the request only because of other requests' reservations: when these return unused money, the
   * budget may pay for it.
   */
  isPayableLater = false;
  /** The answer comes from a provider's batch endpoint. */
  isHanded = false;
  /** The price when the request was handed over, even if the configuration has changed since. */
  agreedPrice: TieredPrice | undefined;
  watcher: AttemptWatcher | undefined;
  /**
   * The limits policy's reservation. Only the policy's part after the caches reads it. A WeakMap would keep each
   * request until a full collection.
   */
  admitted: unknown;
  /** The kept answer in place of a new one: the cache has saved the cost of its tokens. */
  kept: KeptAnswer | undefined;

  get rate(): Rate {
    if (this.isHanded) return "provider-batch";
    return this.notes.has(NOTE.batch) ? "batch" : "full";
  }
}

interface KeptAnswer {
  /** Own name of the model that made the answer. */
  readonly model: string;
  /** Undefined: not known. */
  readonly usage: TokenCounts | undefined;
}
