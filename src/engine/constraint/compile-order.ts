/**
 * Chooses the next grammar to compile, and tells which tenants have used up their share of the thread's time. Pure: the
 * caller passes the time.
 */
import { FairTurns } from "../../core/fair-turns.js";

/** Largest budget of a tenant, in milliseconds: a tenant that asked for little may use it at once. */
export const BUDGET_MS = 120_000;
/** Share of elapsed time by which a tenant's budget grows back. */
export const REFILL = 0.5;
/**
 * Head start of a returning tenant over tenants that kept the thread busy, so that its small grammars do not wait for
 * their large ones.
 */
export const CREDIT_MS = 2000;
/** Beyond this number, tenants with nothing waiting and a full budget are forgotten. */
const MAX_TENANTS = 4096;

interface Budget {
  /** Spent budget in milliseconds, and the time of that value. */
  spentMs: number;
  atMs: number;
  /** Time of the tenant's last turn. */
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

  /** @param mostTurnMs longest turn */
  constructor(mostTurnMs: number) {
    this.#turns = new FairTurns(CREDIT_MS, mostTurnMs);
  }

  get size(): number {
    return this.#turns.size;
  }

  /** Milliseconds until the tenant may compile again; 0: at once. */
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

  /** Takes out the next item. Tenants beyond their budget get no turn, however old their items are. */
  next(isEligible: (item: T) => boolean, nowMs: number): T | undefined {
    const waiter = this.#turns.next((each) => isEligible(each.item) && this.pauseMs(each.tenant, nowMs) === 0);
    if (waiter === undefined) return undefined;
    this.#budget(waiter.tenant, nowMs).turnMs = nowMs;
    return waiter.item;
  }

  /** Would another tenant get the next turn, once this tenant is charged for the running compile? */
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

  /** Takes out all items whose tenants have waited longer than `mostMs` for a turn. */
  takeStarved(mostMs: number, nowMs: number): T[] {
    const turnMs = (tenant: string) => this.#budgets.get(tenant)?.turnMs ?? Number.NEGATIVE_INFINITY;
    return this.#take(({ tenant, sinceMs }) => nowMs - Math.max(sinceMs, turnMs(tenant)) > mostMs);
  }

  /** Takes out all items of tenants with an exhausted budget. */
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
