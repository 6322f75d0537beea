/**
 * Whose grammar is compiled next, and who has had enough of it for now: time of the thread that compiles, counted by tenant. Pure: the clock is the
 * caller's.
 */

/** What a tenant may have compiled at once, having asked for little before. */
export const BUDGET_MS = 120_000;
/** Of each millisecond that goes by, what it gets back. */
export const REFILL = 0.5;
/** Who comes back goes so far ahead of those who have kept the thread busy. */
export const CREDIT_MS = 2000;
/** Tenants with nothing to wait for and their whole budget are forgotten beyond so many. */
const MAX_TENANTS = 4096;

interface Account {
  /** A virtual counter, by which turns are taken: who waited for nothing begins a little before the others. */
  served: number;
  /** Of the budget, and when that was. */
  spentMs: number;
  atMs: number;
  numWaiting: number;
  /** When it last had a turn. */
  turnMs: number;
}

interface Waiter<T> {
  readonly item: T;
  readonly tenant: string;
  readonly sinceMs: number;
}

export class CompileOrder<T> {
  readonly #accounts = new Map<string, Account>();
  /** As they came. */
  #waiting: Waiter<T>[] = [];

  get size(): number {
    return this.#waiting.length;
  }

  /** How long until the tenant may ask for more; 0: at once. */
  pauseMs(tenant: string, nowMs: number): number {
    const account = this.#accounts.get(tenant);
    return account === undefined ? 0 : Math.max(0, (this.#spent(account, nowMs) - BUDGET_MS) / REFILL);
  }

  add(item: T, tenant: string, nowMs: number): void {
    const account = this.#account(tenant, nowMs);
    if (account.numWaiting++ === 0) account.served = Math.max(account.served, this.#level() - CREDIT_MS);
    this.#waiting.push({ item, tenant, sinceMs: nowMs });
  }

  remove(item: T): void {
    const waiter = this.#waiting.find((each) => each.item === item);
    if (waiter !== undefined) this.#take(waiter);
  }

  /** The turn of who was served least, and there of who came first; taken out. */
  next(isEligible: (item: T) => boolean, nowMs: number): T | undefined {
    let best: Waiter<T> | undefined;
    for (const waiter of this.#waiting) {
      const isBetter = best === undefined || this.#servedOf(waiter) < this.#servedOf(best);
      if (isBetter && isEligible(waiter.item)) best = waiter;
    }
    if (best === undefined) return undefined;
    this.#take(best);
    this.#accounts.get(best.tenant)!.turnMs = nowMs;
    return best.item;
  }

  /** Whether somebody else waits who was served less, were the tenant charged for this as well. */
  hasWorthier(tenant: string, runningMs: number, isEligible: (item: T) => boolean): boolean {
    const served = (this.#accounts.get(tenant)?.served ?? 0) + runningMs;
    return this.#waiting.some(
      (waiter) => waiter.tenant !== tenant && this.#servedOf(waiter) < served && isEligible(waiter.item),
    );
  }

  charge(tenant: string, ms: number, nowMs: number): void {
    const account = this.#account(tenant, nowMs);
    account.spentMs = this.#spent(account, nowMs) + ms;
    account.atMs = nowMs;
    account.served += ms;
  }

  /** Takes out all whose tenants have not had a turn for so long. */
  takeStarved(mostMs: number, nowMs: number): T[] {
    const turnOf = ({ tenant, sinceMs }: Waiter<T>) => Math.max(sinceMs, this.#accounts.get(tenant)!.turnMs);
    return this.#takeAll(this.#waiting.filter((waiter) => nowMs - turnOf(waiter) > mostMs));
  }

  /** Takes out all that satisfy the condition. */
  takeWhere(isWanted: (item: T) => boolean): T[] {
    return this.#takeAll(this.#waiting.filter(({ item }) => isWanted(item)));
  }

  #takeAll(taken: readonly Waiter<T>[]): T[] {
    for (const waiter of taken) this.#take(waiter);
    return taken.map(({ item }) => item);
  }

  #take(waiter: Waiter<T>): void {
    this.#waiting = this.#waiting.filter((each) => each !== waiter);
    this.#accounts.get(waiter.tenant)!.numWaiting--;
  }

  #servedOf({ tenant }: Waiter<T>): number {
    return this.#accounts.get(tenant)!.served;
  }

  /** Where those are who wait. */
  #level(): number {
    const levels = this.#waiting.map((waiter) => this.#servedOf(waiter));
    return levels.length === 0 ? 0 : Math.min(...levels);
  }

  #spent({ spentMs, atMs }: Account, nowMs: number): number {
    return Math.max(0, spentMs - REFILL * (nowMs - atMs));
  }

  #account(tenant: string, nowMs: number): Account {
    let account = this.#accounts.get(tenant);
    if (account !== undefined) return account;
    if (this.#accounts.size >= MAX_TENANTS) this.#forgetIdle(nowMs);
    account = { served: 0, spentMs: 0, atMs: nowMs, numWaiting: 0, turnMs: Number.NEGATIVE_INFINITY };
    this.#accounts.set(tenant, account);
    return account;
  }

  #forgetIdle(nowMs: number): void {
    for (const [tenant, account] of this.#accounts) {
      if (account.numWaiting === 0 && this.#spent(account, nowMs) === 0) this.#accounts.delete(tenant);
    }
  }
}
