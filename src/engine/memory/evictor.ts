/** Drops entries of sequences between two steps, as `Eviction` chooses them. */
import type { AttentionCounts } from "./attention-counts.js";
import type { Eviction } from "./eviction.js";
import type { KvGroupSpec } from "./groups.js";
import type { KvManager } from "./kv-manager.js";
import type { KvSequence } from "./kv-sequence.js";

export class Evictor {
  /** Groups that evict, each of one layer. */
  readonly #groups: readonly number[];
  /** Tokens evicted so far, averaged over the layers that evict. */
  numEvictedTokens = 0;

  /** @param counts absent: the policy does not observe */
  constructor(
    private readonly eviction: Eviction,
    private readonly kv: KvManager,
    groups: readonly KvGroupSpec[],
    private readonly counts: AttentionCounts | undefined,
  ) {
    this.#groups = groups.flatMap(({ window }, group) => (window === 0 ? [group] : []));
  }

  /**
   * Prepares for the query at `position`: the first one that is counted begins from zero.
   * @returns whether its attention is counted
   */
  observe(sequence: KvSequence, position: number): boolean {
    if (this.counts === undefined) return false;
    const { numPromptTokens, seat } = sequence;
    const first = this.eviction.firstObserved(numPromptTokens, position);
    if (position < first) return false;
    if (position === first) {
      const point = this.eviction.nextPoint(numPromptTokens, position);
      this.counts.clear(seat, Math.max(...this.#numEntries(sequence, point)));
    }
    return true;
  }

  /** Drops entries if the sequence has come to a point where entries are dropped. Call once its step is collected. */
  async evictIfDue(sequence: KvSequence): Promise<void> {
    const { numPromptTokens, numComputedTokens, seat } = sequence;
    if (seat < 0 || !this.eviction.dropsAt(numPromptTokens, numComputedTokens)) return;
    const numEntries = this.#numEntries(sequence, numComputedTokens);
    const observed = (await this.counts?.read(seat, numEntries)) ?? [];
    const before = this.kv.numEvictedTokens(sequence);
    this.kv.evict(sequence, this.#groups, this.eviction.choose(numComputedTokens, numEntries, observed));
    this.numEvictedTokens += this.kv.numEvictedTokens(sequence) - before;
  }

  /** By group that evicts: entries stored once `numTokens` tokens are computed. */
  #numEntries({ numEvicted }: KvSequence, numTokens: number): number[] {
    return this.#groups.map((group) => numTokens - numEvicted[group]! * this.kv.blockSize);
  }
}
