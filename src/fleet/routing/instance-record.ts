/**
 * Routing's knowledge of one process of an instance: its cached prefixes, its load from this fleet and from others, and
 * its recent failures.
 */
import type { CachedBlocks } from "../../text/cached-blocks.js";
import type { EngineMetrics } from "../upstream/engine.js";
import type { Capacity, Upstream } from "../upstream/upstream.js";
import { type Breaker, CLOSED } from "./breaker.js";
import { ExactIndex } from "./exact-index.js";
import { GuessedIndex, indexBlocks } from "./guessed-index.js";
import { KeyLimits } from "./key-limits.js";
import type { PrefixKeys } from "./key-source.js";

/** Seats assumed for engines that report none. Load is measured against it; it limits nothing. */
const DEFAULT_SEATS = 16;
/** A scrape older than this is ignored: if scrapes stop, the last one might have shown every seat taken. */
const SCRAPE_HOLDS_MS = 30_000;

export class InstanceRecord {
  readonly id: string;
  /** Number of the process start that this record describes. */
  readonly starts: number;
  /** Blocks sent to the instance. Kept even if the instance reports its cache, since the report may stop. */
  readonly index: GuessedIndex;
  readonly #exact: ExactIndex;
  breaker: Breaker = CLOSED;
  /** Limits of a paid API's key. */
  readonly limits = new KeyLimits();
  /** Sequences of this fleet on the instance. */
  numInFlight = 0;
  /**
   * The instance failed or stopped. Its process may still finish running requests; the record is dropped after the last
   * one.
   */
  isDown = false;
  /** The instance is suspect or failed. */
  isDoubted = false;
  /** One callback per request whose answer has not begun; the call means that another instance may serve it better. */
  readonly unanswered = new Set<() => void>();
  /** Tokens that this fleet's requests hold or will hold, plus the prompt tokens still to compute. */
  tokensInFlight = 0;
  /** Sequences from other clients of the instance, as of the last scrape. */
  numForeign = 0;
  #capacity: Capacity;
  #mostInFlight = 0;
  #metrics: EngineMetrics | undefined;
  #scrapedMs = 0;

  constructor(
    upstream: Upstream,
    private readonly tokensPerBlock: () => number,
    blocks: () => CachedBlocks | undefined,
    nowMs: number,
  ) {
    this.id = upstream.id;
    this.starts = upstream.starts;
    this.#capacity = upstream.capacity;
    this.index = new GuessedIndex(indexBlocks(upstream.capacity, tokensPerBlock()));
    this.#exact = new ExactIndex(blocks);
    this.observe(upstream, nowMs);
  }

  /** Takes over the reported capacity and metrics, which may arrive after the first request. */
  observe({ capacity, metrics }: Upstream, nowMs: number): void {
    this.#capacity = capacity;
    this.index.maxBlocks = indexBlocks(capacity, this.tokensPerBlock());
    if (metrics !== undefined && metrics !== this.#metrics) {
      this.#scrapedMs = nowMs;
      this.#observeLoad(metrics);
    } else if (nowMs - this.#scrapedMs > SCRAPE_HOLDS_MS) this.numForeign = 0;
  }

  /**
   * A scrape also counts this fleet's requests, including some that have ended since. Subtracting the most that were in
   * flight since the last scrape keeps those from counting as foreign ones.
   */
  #observeLoad(metrics: EngineMetrics): void {
    this.#metrics = metrics;
    const numPresent = (metrics.numRunning ?? 0) + (metrics.numWaiting ?? 0);
    this.numForeign = Math.max(0, numPresent - this.#mostInFlight);
    this.#mostInFlight = this.numInFlight;
  }

  /** Sequences that the instance computes at once, or a guess. */
  get seats(): number {
    return this.#capacity.seats ?? DEFAULT_SEATS;
  }

  /** Length of the prompt's prefix, in blocks, that is cached or will be when the prompt's turn comes. */
  numMatched({ keys, blockSize }: PrefixKeys): number {
    const isTold = blockSize !== undefined && this.#exact.knows(blockSize);
    return (isTold ? this.#exact : this.index).numMatched(keys);
  }

  /** @returns a function to call at the request's end */
  credit({ keys, blockSize }: PrefixKeys): () => void {
    this.index.credit(keys);
    return blockSize === undefined ? () => {} : this.#exact.credit(keys);
  }

  tellLost(): void {
    for (const tell of [...this.unanswered]) tell();
  }

  begin(numSequences: number, tokens: number): void {
    this.numInFlight += numSequences;
    this.tokensInFlight += tokens;
    this.#mostInFlight = Math.max(this.#mostInFlight, this.numInFlight);
  }

  end(numSequences: number, tokens: number): void {
    this.numInFlight -= numSequences;
    this.tokensInFlight -= tokens;
  }

  /**
   * A request with more sequences than seats needs one free seat: the others wait in the engine, so that later requests
   * need not wait for an empty instance.
   */
  hasRoom(numSequences: number, seatFactor: number): boolean {
    const { seats } = this.#capacity;
    if (seats === undefined) return true;
    const numBusy = this.numInFlight + this.numForeign;
    const limit = Math.max(1, Math.floor(seats * seatFactor));
    return numBusy + Math.min(numSequences, limit) <= limit || (numSequences > limit && numBusy < limit);
  }

  /**
   * Share of the seats in use, where requests count by their tokens; above 1 if more is sent than there are seats for.
   */
  load(meanTokens: number): number {
    const tokens = this.tokensInFlight + this.numForeign * meanTokens;
    return tokens / (meanTokens * this.seats);
  }
}
