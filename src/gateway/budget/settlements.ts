/** Ends reservations even while the store is down: a failed booking is repeated when the store is back. */
import type { Claims } from "./claims.js";
import { type BudgetStore, type Recovered, TEND_MS } from "./store.js";

/**
 * Whether the store has the reservation. If this is unknown and the store has none, the used amount is charged without
 * one.
 */
type ReservationState = "made" | "doubtful" | "none";

interface Settlement {
  readonly id: string;
  readonly claims: Claims;
  readonly money: number;
  readonly tokens: number;
  readonly reservation: ReservationState;
  /** When the settlement was handed over. */
  readonly atMs: number;
}

export interface SettlementEvents {
  /** Reservations of a gateway that died have become charges. */
  recovered(charges: readonly Recovered[]): void;
  /** Settlements wait for the store. */
  failed(error: Error, numWaiting: number): void;
  /** This many settlements were given up, since the store was away too long. */
  lost(count: number): void;
  /**
   * This many reservations were not ended, since the store was away too long. Those that exist stay until this gateway
   * ends.
   */
  leftReserved(count: number): void;
}

/**
 * At most this many settlements wait. Beyond it, a reservation stays until this gateway ends, and then becomes a
 * charge; a request that passed without a reservation is never charged.
 */
const MAX_WAITING = 100_000;
/**
 * At most this many reservations are remembered as doubtful: the first ones, since the store was already down when the
 * later ones were made.
 */
const MAX_DOUBTFUL = 10_000;
/** Operations handed to the store at once, which does them in one turn. */
const AT_ONCE = 500;
/** A doubtful reservation may still reach the store within this time, so it is ended again until then. */
const DOUBT_MS = 60_000;

export class Settlements {
  readonly #waiting: Settlement[] = [];
  /** Reservations that may exist although their request was refused. */
  readonly #doubtful = new Map<string, number>();
  readonly #running = new Set<Settlement>();
  /** Callers that wait for the settlements that ran when they called. */
  readonly #watches = new Set<{ readonly left: Set<Settlement>; readonly resolve: () => void }>();
  #timer: NodeJS.Timeout | undefined;
  #tending: Promise<void> | undefined;

  /** @param now milliseconds that only grow */
  constructor(
    private readonly store: BudgetStore,
    private readonly events: SettlementEvents,
    private readonly now: () => number,
  ) {
    this.#timer = setInterval(() => void this.tend(), TEND_MS).unref();
    // Charges of a gateway that died are booked before the first request.
    void this.tend();
  }

  get numWaiting(): number {
    return this.#waiting.length;
  }

  /** Ends a reservation. Never rejects, and need not be awaited. */
  settle(id: string, claims: Claims, money: number, tokens: number, reservation: ReservationState = "made"): void {
    const settlement: Settlement = { id, claims, money, tokens, reservation, atMs: this.now() };
    this.#running.add(settlement);
    this.#book(settlement).then(
      () => this.#over(settlement),
      (thrown: unknown) => {
        if (this.#waiting.length >= MAX_WAITING) this.events.lost(1);
        else this.#waiting.push(settlement);
        this.events.failed(thrown as Error, this.#waiting.length);
        this.#over(settlement);
      },
    );
  }

  #over(settlement: Settlement): void {
    this.#running.delete(settlement);
    for (const watch of this.#watches) {
      watch.left.delete(settlement);
      if (watch.left.size > 0) continue;
      this.#watches.delete(watch);
      watch.resolve();
    }
  }

  /** Resolves when the settlements so far are booked, or wait for a failed store. */
  tried(): Promise<void> {
    if (this.#running.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#watches.add({ left: new Set(this.#running), resolve }));
  }

  /** The reservation's request was refused, but the store may have made it. */
  doubt(id: string): void {
    if (this.#doubtful.size < MAX_DOUBTFUL) this.#doubtful.set(id, this.now());
    else this.events.leftReserved(1);
  }

  /** Tries waiting settlements, one call at a time: two retries of a settlement would book it twice. */
  tend(): Promise<void> {
    this.#tending ??= this.#tend().finally(() => {
      this.#tending = undefined;
    });
    return this.#tending;
  }

  async #tend(): Promise<void> {
    try {
      const recovered = await this.store.tend();
      if (recovered.length > 0) this.events.recovered(recovered);
      await this.#retry();
      await this.#endDoubts();
    } catch (thrown) {
      this.events.failed(thrown as Error, this.#waiting.length);
    }
  }

  /**
   * Waits for running settlements. A settlement that still fails stays reserved, and another gateway turns it into a
   * charge.
   */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.tried();
    await this.#tending;
    if (this.#waiting.length > 0) await this.#retry().catch(() => {});
  }

  /** Not async: with a sure reservation, the store's promise is enough. */
  #book({ id, claims, money, tokens, reservation }: Settlement): Promise<unknown> {
    if (reservation === "none") return this.store.charge(claims, money, tokens);
    const settled = this.store.settle(id, money, tokens);
    if (reservation === "made") return settled;
    return settled.then((isSettled) => (isSettled ? undefined : this.store.charge(claims, money, tokens)));
  }

  /** Rejects if one of them fails; the others are booked. */
  async #retry(): Promise<void> {
    while (this.#waiting.length > 0) {
      // More may be appended meanwhile.
      const some = this.#waiting.slice(0, AT_ONCE);
      const { failed, error } = await together(some, (each) => this.#book(each));
      this.#waiting.splice(0, some.length, ...failed);
      if (error !== undefined) throw error;
    }
  }

  async #endDoubts(): Promise<void> {
    const doubts = [...this.#doubtful];
    for (let i = 0; i < doubts.length; i += AT_ONCE) {
      const { error } = await together(doubts.slice(i, i + AT_ONCE), async ([id, sinceMs]) => {
        const isSettled = await this.store.settle(id, 0, 0);
        if (isSettled || this.now() - sinceMs > DOUBT_MS) this.#doubtful.delete(id);
      });
      if (error !== undefined) throw error;
    }
  }
}

/** Runs all at once. @returns the failed ones, and the first error */
async function together<T>(all: readonly T[], run: (each: T) => Promise<unknown>) {
  const failed: T[] = [];
  let error: unknown;
  await Promise.all(
    all.map((each) =>
      run(each).catch((thrown: unknown) => {
        failed.push(each);
        error ??= thrown;
      }),
    ),
  );
  return { failed, error };
}
