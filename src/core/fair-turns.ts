/**
 * Takes turns between tenants at one resource, by start-time fair queueing (Goyal, Vin, Cheng, 1996). It only decides
 * the order: the caller uses the resource and charges the cost afterwards.
 */

interface Account<T> {
  /** Virtual time: the cost of the tenant's turns, plus corrections at its returns. */
  served: number;
  /** The number of its last turn; 0: none yet. */
  lastTurn: number;
  /** In order of arrival. */
  readonly waiting: T[];
}

/** Idle tenants beyond this number are forgotten. */
const MAX_TENANTS = 4096;

/**
 * The least served tenant has the next turn. A tenant that returns is compared with the others through a floor, the
 * virtual time that all waiting tenants have reached. It starts at most `credit` below the floor, so that no tenant
 * saves
 * up turns, and no tenant is charged to more than `mostDebt` above it, so that no history keeps a tenant waiting. While
 * a
 * tenant waits, each other one is thus served for at most `credit + mostDebt` plus one turn.
 *
 * `mostDebt` matters only if several resources each serve some of the items. With a single resource, a tenant begins
 * each
 * turn at the floor, so its debt is the cost of one turn, as in the paper. Without the bound, a tenant alone at a
 * second
 * resource would rise far above the floor, and would later wait for all the time that no other tenant wanted.
 */
export class FairTurns<T> {
  readonly #accounts = new Map<string, Account<T>>();
  #floor = 0;
  #numTurns = 0;
  #size = 0;

  /** @param mostDebt at least the cost of the most expensive turn */
  constructor(
    private readonly credit: number,
    private readonly mostDebt: number,
  ) {}

  /** Number of waiting items. */
  get size(): number {
    return this.#size;
  }

  /** The tenant's waiting items, in order of arrival. */
  waitingOf(tenant: string): readonly T[] {
    return this.#accounts.get(tenant)?.waiting ?? [];
  }

  add(item: T, tenant: string): void {
    const account = this.#account(tenant);
    if (account.waiting.length === 0) account.served = Math.max(account.served, this.#floor - this.credit);
    account.waiting.push(item);
    this.#size++;
  }

  /** Gives a turn and takes its item out. @param isEligible whether an item may have this turn */
  next(isEligible: (item: T) => boolean = () => true): T | undefined {
    let best: { readonly account: Account<T>; readonly item: T } | undefined;
    let level = Number.POSITIVE_INFINITY;
    for (const account of this.#accounts.values()) {
      if (account.waiting.length === 0) continue;
      level = Math.min(level, account.served);
      if (best !== undefined && !isBefore(account, best.account)) continue;
      const item = account.waiting.find(isEligible);
      if (item !== undefined) best = { account, item };
    }
    if (best === undefined) return undefined;
    this.#floor = Math.max(this.#floor, level);
    best.account.lastTurn = ++this.#numTurns;
    this.#take(best.account, best.item);
    return best.item;
  }

  /** Charges the tenant for its turn. */
  charge(tenant: string, cost: number): void {
    const account = this.#account(tenant);
    account.served = Math.min(account.served + cost, this.#floor + this.mostDebt);
    if (this.#size > 0) return;
    // No tenant waits, so none is owed a turn: the next one starts level with the most served.
    for (const { served } of this.#accounts.values()) this.#floor = Math.max(this.#floor, served);
  }

  /** Whether another tenant would have its turn before this one, once this one is charged for its present turn. */
  hasWorthier(tenant: string, cost: number, isEligible: (item: T) => boolean): boolean {
    const own = (this.#accounts.get(tenant)?.served ?? 0) + cost;
    for (const [name, { served, waiting }] of this.#accounts) {
      if (name !== tenant && served < own && waiting.some(isEligible)) return true;
    }
    return false;
  }

  /** @returns whether the item was waiting */
  remove(item: T): boolean {
    return this.takeWhere((each) => each === item).length > 0;
  }

  /** Takes out all items that satisfy the condition. */
  takeWhere(isWanted: (item: T, tenant: string) => boolean): T[] {
    const taken: T[] = [];
    for (const [tenant, account] of this.#accounts) {
      for (const item of account.waiting.filter((each) => isWanted(each, tenant))) {
        this.#take(account, item);
        taken.push(item);
      }
    }
    return taken;
  }

  #take({ waiting }: Account<T>, item: T): void {
    waiting.splice(waiting.indexOf(item), 1);
    this.#size--;
  }

  #account(tenant: string): Account<T> {
    let account = this.#accounts.get(tenant);
    if (account !== undefined) return account;
    if (this.#accounts.size >= MAX_TENANTS) this.#forgetIdle();
    account = { served: this.#floor - this.credit, lastTurn: 0, waiting: [] };
    this.#accounts.set(tenant, account);
    return account;
  }

  #forgetIdle(): void {
    for (const [tenant, { waiting }] of this.#accounts) if (waiting.length === 0) this.#accounts.delete(tenant);
  }
}

/** Equally served tenants take turns. */
function isBefore<T>(a: Account<T>, b: Account<T>): boolean {
  return a.served === b.served ? a.lastTurn < b.lastTurn : a.served < b.served;
}
