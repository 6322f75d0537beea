/**
 * Whose grammar is compiled next, and which keys have used up their time for now: the thread's time, counted by tenant. Pure: the clock is the
 * caller's.
 */
import { FairTurns } from "../../core/fair-turns.js";

/** A tenant that asked for little before may have so much compiled at once. */
export const BUDGET_MS = 120_000;
/** Of each millisecond that goes by, a tenant's budget gets back this part. */
export const REFILL = 0.5;
/** A tenant that comes back goes so far ahead of those that kept the thread busy: its small grammars then do not wait for their large ones. */
export const CREDIT_MS = 2000;
/** Tenants that have nothing waiting and their whole budget are forgotten beyond so many. */
const MAX_TENANTS = 4096;

interface Budget {
  /** Spent of the budget, and when that was so. */
  spentMs: number;
  atMs: number;
  /** When the tenant last had a turn. */
  turnMs: number;
}

interface Waiter<T> {
  readonly item: T;
  readonly tenant: string;
  readonly sinceMs: number;
}

export class CompileOrder<T> {
  readonly #turns: FairTurns<Waiter<T>>;
  readonly #budgets = new Map<string, Budget>();

  /** @param mostTurnMs the longest that a turn may take */
  constructor(mostTurnMs: number) {
    this.#turns = new FairTurns(CREDIT_MS, mostTurnMs);
  }

  get size(): number {
    return this.#turns.size;
  }

  /** How long until the tenant may have more compiled; 0: at once. */
  pauseMs(tenant: string, nowMs: number): number {
    const budget = this.#budgets.get(tenant);
    return budget === undefined ? 0 : Math.max(0, (spentMs(budget, nowMs) - BUDGET_MS) / REFILL);
  }

  add(item: T, tenant: string, nowMs: number): void {
    this.#turns.add({ item, tenant, sinceMs: nowMs }, tenant);
  }

  remove(item: T): void {
    this.takeWhere((each) => each === item);
  }

  /** Gives a turn and takes the item out. Tenants beyond their budget get none, however long ago their items came. */
  next(isEligible: (item: T) => boolean, nowMs: number): T | undefined {
    const waiter = this.#turns.next((each) => isEligible(each.item) && this.pauseMs(each.tenant, nowMs) === 0);
    if (waiter === undefined) return undefined;
    this.#budget(waiter.tenant, nowMs).turnMs = nowMs;
    return waiter.item;
  }

  /** Whether another tenant's item would have a turn before this tenant's, were this tenant charged for what runs now. */
  hasWorthier(tenant: string, runningMs: number, isEligible: (item: T) => boolean, nowMs: number): boolean {
    const mayHaveTurn = (each: Waiter<T>) => isEligible(each.item) && this.pauseMs(each.tenant, nowMs) === 0;
    return this.#turns.hasWorthier(tenant, runningMs, mayHaveTurn);
  }

  charge(tenant: string, ms: number, nowMs: number): void {
    const budget = this.#budget(tenant, nowMs);
    budget.spentMs = spentMs(budget, nowMs) + ms;
    budget.atMs = nowMs;
    this.#turns.charge(tenant, ms);
  }

  /** Takes out all items whose tenants have not had a turn for so long. */
  takeStarved(mostMs: number, nowMs: number): T[] {
    const turnMs = (tenant: string) => this.#budgets.get(tenant)?.turnMs ?? Number.NEGATIVE_INFINITY;
    return this.#take(({ tenant, sinceMs }) => nowMs - Math.max(sinceMs, turnMs(tenant)) > mostMs);
  }

  /** Takes out all items whose tenants have used their budgets up. */
  takeOverBudget(nowMs: number): T[] {
    return this.#take(({ tenant }) => this.pauseMs(tenant, nowMs) > 0);
  }

  /** Takes out all items that satisfy the condition. */
  takeWhere(isWanted: (item: T) => boolean): T[] {
    return this.#take(({ item }) => isWanted(item));
  }

  #take(isWanted: (waiter: Waiter<T>) => boolean): T[] {
    return this.#turns.takeWhere(isWanted).map(({ item }) => item);
  }

  #budget(tenant: string, nowMs: number): Budget {
    let budget = this.#budgets.get(tenant);
    if (budget !== undefined) return budget;
    if (this.#budgets.size >= MAX_TENANTS) this.#forgetIdle(nowMs);
    budget = { spentMs: 0, atMs: nowMs, turnMs: Number.NEGATIVE_INFINITY };
    this.#budgets.set(tenant, budget);
    return budget;
  }

  #forgetIdle(nowMs: number): void {
    for (const [tenant, budget] of this.#budgets) {
      if (spentMs(budget, nowMs) === 0 && this.#turns.waitingOf(tenant).length === 0) this.#budgets.delete(tenant);
    }
  }
}

const spentMs = ({ spentMs, atMs }: Budget, nowMs: number): number => Math.max(0, spentMs - REFILL * (nowMs - atMs));
