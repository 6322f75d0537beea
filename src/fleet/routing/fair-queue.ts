/** The order of waiting requests: by priority class, then by least served tenant, then by arrival. */

export interface Waiter {
  /** A lower number goes first, as in vLLM. */
  readonly priority: number;
  readonly tenant: string;
  /** Prompt and output tokens. */
  readonly cost: number;
}

/**
 * Counts the tokens that each tenant was served while there was a queue. A tenant that joins starts level with the
 * least
 * served waiting tenant, and gets no credit for time without requests.
 */
export class FairQueue<T extends Waiter> {
  /** Waiting requests in order of arrival. */
  readonly #waiters = new Set<T>();
  readonly #served = new Map<string, number>();

  get size(): number {
    return this.#waiters.size;
  }

  push(waiter: T): void {
    let level = Number.POSITIVE_INFINITY;
    for (const each of this.#waiters) level = Math.min(level, this.#servedOf(each));
    // A tenant with waiting requests is already at this level or above.
    if (this.#waiters.size > 0) this.#served.set(waiter.tenant, Math.max(this.#servedOf(waiter), level));
    this.#waiters.add(waiter);
  }

  /** The next request in order, except `passedOver`. */
  peek(passedOver: ReadonlySet<T> = new Set()): T | undefined {
    let next: T | undefined;
    for (const waiter of this.#waiters) {
      if (passedOver.has(waiter)) continue;
      if (next === undefined || this.#isBefore(waiter, next)) next = waiter;
    }
    return next;
  }

  /** Removes a request that is about to be sent, and charges its cost to the tenant. */
  serve(waiter: T): void {
    if (!this.#waiters.has(waiter)) return;
    this.#served.set(waiter.tenant, this.#servedOf(waiter) + waiter.cost);
    this.remove(waiter);
  }

  /** Removes a request that no longer waits. */
  remove(waiter: T): void {
    this.#waiters.delete(waiter);
    // An empty queue resets the counts, so that past service delays no tenant.
    if (this.#waiters.size === 0) this.#served.clear();
  }

  [Symbol.iterator](): IterableIterator<T> {
    return this.#waiters.values();
  }

  #isBefore(a: T, b: T): boolean {
    if (a.priority !== b.priority) return a.priority < b.priority;
    return this.#servedOf(a) < this.#servedOf(b);
  }

  #servedOf(waiter: T): number {
    return this.#served.get(waiter.tenant) ?? 0;
  }
}
