/** What routing knows of one process of one instance: its prefixes, the work sent to it, the work of others, and whether it has been failing. */
import type { CachedBlocks } from "../../text/cached-blocks.js";
import type { EngineMetrics } from "../upstream/engine.js";
import type { Capacity, Upstream } from "../upstream/upstream.js";
import { type Breaker, CLOSED } from "./breaker.js";
import { ExactIndex } from "./exact-index.js";
import { GuessedIndex, indexBlocks } from "./guessed-index.js";
import type { PrefixKeys } from "./key-source.js";

/** Where an engine does not say: what load is measured against, not a limit. */
const DEFAULT_SEATS = 16;
/** Where scrapes stop coming, the last one is not believed for ever: it may have seen all seats taken. */
const SCRAPE_HOLDS_MS = 30_000;

export class InstanceRecord {
  readonly id: string;
  /** Of the process that this is about. */
  readonly starts: number;
  /** What it was sent. Kept in any case, as the instance may say nothing of its cache, or not at the moment. */
  readonly index: GuessedIndex;
  readonly #exact: ExactIndex;
  breaker: Breaker = CLOSED;
  /** Sequences of ours. */
  numInFlight = 0;
  /** It failed or stopped, though the process may live on and finish what it has: forgotten once that has ended. */
  isDown = false;
  /** Its health is not as it should be: see Router. */
  isDoubted = false;
  /** Of our requests whose answer has not begun: tells each that it may be better off elsewhere. */
  readonly unanswered = new Set<() => void>();
  /** Tokens that our requests hold or will hold, and prompt tokens to be computed. */
  tokensInFlight = 0;
  /** Sequences that others sent, as of the last scrape. */
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

  /** What the instance says of itself, which may come later than its first request. */
  observe({ capacity, metrics }: Upstream, nowMs: number): void {
    this.#capacity = capacity;
    this.index.maxBlocks = indexBlocks(capacity, this.tokensPerBlock());
    if (metrics !== undefined && metrics !== this.#metrics) {
      this.#scrapedMs = nowMs;
      this.#observeLoad(metrics);
    } else if (nowMs - this.#scrapedMs > SCRAPE_HOLDS_MS) this.numForeign = 0;
  }

  /**
   * A scrape counts our requests too. It was made a moment ago, so it may show some that have ended since: the most we had since the last one is taken off,
   * or they would pass for somebody else's until the next.
   */
  #observeLoad(metrics: EngineMetrics): void {
    this.#metrics = metrics;
    const numPresent = (metrics.numRunning ?? 0) + (metrics.numWaiting ?? 0);
    this.numForeign = Math.max(0, numPresent - this.#mostInFlight);
    this.#mostInFlight = this.numInFlight;
  }

  /** Blocks of a prompt that it has computed before, or will have when this prompt's turn comes. */
  numMatched({ keys, blockSize }: PrefixKeys): number {
    const isTold = blockSize !== undefined && this.#exact.knows(blockSize);
    return (isTold ? this.#exact : this.index).numMatched(keys);
  }

  /** @returns called when the request has ended */
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

  /** A request larger than all seats goes where any is free: what it has beyond them waits in the engine, and nobody behind it for an empty one. */
  hasRoom(numSequences: number, seatFactor: number): boolean {
    const { seats } = this.#capacity;
    if (seats === undefined) return true;
    const numBusy = this.numInFlight + this.numForeign;
    const limit = Math.max(1, Math.floor(seats * seatFactor));
    return numBusy + Math.min(numSequences, limit) <= limit || (numSequences > limit && numBusy < limit);
  }

  /** Share of the seats in use, where a request counts by its size; more than 1 where more is sent than there are seats for. */
  load(meanTokens: number): number {
    const tokens = this.tokensInFlight + this.numForeign * meanTokens;
    return tokens / (meanTokens * (this.#capacity.seats ?? DEFAULT_SEATS));
  }
}
