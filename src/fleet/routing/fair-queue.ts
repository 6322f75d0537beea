/** The order of those who wait: lower priority class first; within one, the tenant that was served least; within a tenant, who came first. */

export interface Waiter {
  /** Lower goes first, as with vLLM. */
  readonly priority: number;
  readonly tenant: string;
  /** Tokens. */
  readonly cost: number;
}

/** Counts what tenants got while there was a queue. A tenant that comes or comes back starts level with the least served one that waits, without a credit from before. */
export class FairQueue<T extends Waiter> {
  /** In order of arrival. */
  readonly #waiters = new Set<T>();
  readonly #served = new Map<string, number>();

  get size(): number {
    return this.#waiters.size;
  }

  push(waiter: T): void {
    let level = Number.POSITIVE_INFINITY;
    for (const each of this.#waiters) level = Math.min(level, this.#servedOf(each));
    // A tenant that waits already is at the level or above it.
    if (this.#waiters.size > 0) this.#served.set(waiter.tenant, Math.max(this.#servedOf(waiter), level));
    this.#waiters.add(waiter);
  }

  /** Who goes next, of those that are not passed over. */
  peek(passedOver: ReadonlySet<T> = new Set()): T | undefined {
    let next: T | undefined;
    for (const waiter of this.#waiters) {
      if (passedOver.has(waiter)) continue;
      if (next === undefined || this.#isBefore(waiter, next)) next = waiter;
    }
    return next;
  }

  /** Takes out one who goes: its cost counts. */
  serve(waiter: T): void {
    if (!this.#waiters.has(waiter)) return;
    this.#served.set(waiter.tenant, this.#servedOf(waiter) + waiter.cost);
    this.remove(waiter);
  }

  /** Takes out one who no longer waits. */
  remove(waiter: T): void {
    this.#waiters.delete(waiter);
    // Without a queue nobody is kept waiting for another, so there is nothing to make good.
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
