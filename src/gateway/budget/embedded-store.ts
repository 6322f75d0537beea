/**
 * Limits of a single gateway. Meters are counted in memory. Every change of a budget is written to the gateway's
 * database before its operation resolves: a killed process loses nothing. Buckets of requests and tokens per minute are
 * written every few seconds and at the end. The newest gateway that opens a database owns it. The previous owner can no
 * longer write, and so lets no request pass.
 */
import { randomUUID } from "node:crypto";
import type Database from "libsql";
import { MillraceError } from "../../core/errors.js";
import { type GroupCommit, SOON_MS } from "../store/group-commit.js";
import { BatchedStore } from "./batched-store.js";
import { unitOfKey } from "./claims.js";
import type { Operation, Result } from "./operations.js";
import { isLasting, requestIdOf } from "./reservation-id.js";
import { RESERVATIONS_SCHEMA, ReservationRows, readReservations } from "./reservation-rows.js";
import { STALE_MS } from "./store.js";
import { amountsOf, applyTurn, type Held, type Meter, NEW_METER, type TurnState } from "./turn.js";

const SCHEMA = `
CREATE TABLE IF NOT EXISTS budget_owner (id INTEGER PRIMARY KEY CHECK (id = 1), owner TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS budget_meters (
  key TEXT PRIMARY KEY, at INTEGER NOT NULL, used INTEGER NOT NULL
) WITHOUT ROWID;
${RESERVATIONS_SCHEMA}
`;

interface EmbeddedStoreOptions {
  readonly database: Database.Database;
  readonly commits: GroupCommit;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

export class EmbeddedStore extends BatchedStore {
  readonly #owner = randomUUID();
  readonly #state: MemoryState;
  readonly #readOwner;
  /** Memory may be ahead of the database, since a transaction failed. */
  #isStale = true;
  #isClosed = false;

  constructor(private readonly options: EmbeddedStoreOptions) {
    // The database commits in turns of its own.
    super(Number.POSITIVE_INFINITY);
    const { database } = options;
    database.exec(SCHEMA);
    database.prepare("DELETE FROM budget_meters WHERE at BETWEEN 1 AND ?").run(options.now() - STALE_MS);
    this.#state = new MemoryState(database, this.#owner);
    this.#readOwner = database.prepare("SELECT owner FROM budget_owner");
    database.prepare("INSERT OR REPLACE INTO budget_owner (id, owner) VALUES (1, ?)").run(this.#owner);
  }

  protected override async turn(take: () => readonly Operation[]): Promise<readonly Result[]> {
    try {
      // A settlement alone waits for the next transaction.
      return await this.options.commits.run(() => this.#write(take()), { waitMs: SOON_MS });
    } catch (cause) {
      this.#isStale = true;
      if (cause instanceof MillraceError) throw cause;
      const message = `expected the database to take the limits of requests, got ${(cause as Error).message}`;
      throw new MillraceError("budget_store_failed", message, { hint: "check the data folder's space", cause });
    }
  }

  protected override hurry(): void {
    this.options.commits.rush();
  }

  async close(): Promise<void> {
    // Buckets refill within minutes, so a failed write loses little.
    if (!this.#isClosed) await this.options.commits.run(() => this.#write([], true)).catch(() => {});
    this.#isClosed = true;
  }

  #write(operations: readonly Operation[], hasBuckets = operations.some(isTending)): readonly Result[] {
    if (this.#isClosed || (this.#readOwner.get([]) as { owner: string } | undefined)?.owner !== this.#owner) {
      throw new MillraceError(
        "budget_store_failed",
        "expected a database of this gateway, got one that another gateway has opened",
        { hint: "give each gateway a data-folder of its own, or let them share Redis or PostgreSQL" },
      );
    }
    if (this.#isStale) this.#state.load();
    // Until all is written, an exception leaves memory ahead of the database.
    this.#isStale = true;
    const results = applyTurn(this.#state, operations, this.#owner, this.options.now());
    this.#state.write(hasBuckets);
    this.#isStale = false;
    return results;
  }
}

const isTending = ({ op }: Operation): boolean => op === "recover";

/** Whether a meter counts requests or tokens per minute. */
const isBucket = (key: string): boolean => key.endsWith("/requests") || key.endsWith("/tokens");

/** All meters and open reservations, and which of them are not written yet. */
class MemoryState implements TurnState {
  readonly #meters = new Map<string, Meter>();
  readonly #reservations = new Map<string, Held>();
  readonly #changedMeters = new Set<string>();
  readonly #changedBuckets = new Set<string>();
  readonly #rows: ReservationRows;
  readonly #putMeter;

  constructor(
    private readonly database: Database.Database,
    private readonly owner: string,
  ) {
    this.#putMeter = database.prepare("INSERT OR REPLACE INTO budget_meters (key, at, used) VALUES (?, ?, ?)");
    this.#rows = new ReservationRows(database, owner);
  }

  /** Known buckets stay unchanged: the database's are older. */
  load(): void {
    for (const each of [this.#reservations, this.#changedMeters]) each.clear();
    for (const key of this.#meters.keys()) if (!isBucket(key)) this.#meters.delete(key);
    const meters = this.database.prepare("SELECT key, at, used FROM budget_meters").all();
    for (const { key, at, used } of meters as { key: string; at: number; used: number }[]) {
      if (!this.#meters.has(key)) this.#meters.set(key, { at, used, held: 0 });
    }
    for (const held of this.#rows.load()) {
      this.#reservations.set(held.id, held);
      const amounts = amountsOf(held);
      for (const [key] of held.moneyKeys) this.#hold(key, amounts[unitOfKey(key)]);
      for (const key of held.placeKeys) this.#hold(key, 1);
    }
  }

  #hold(key: string, by: number): void {
    const { at, used, held } = this.meter(key);
    this.#meters.set(key, { at, used, held: held + by });
  }

  /** Meters first: if the rest cannot be written, a charge counts twice rather than never. */
  write(hasBuckets: boolean): void {
    this.#writeMeters(this.#changedMeters);
    if (hasBuckets) this.#writeMeters(this.#changedBuckets);
    this.#rows.write();
  }

  #writeMeters(keys: Set<string>): void {
    for (const key of keys) {
      const { at, used } = this.meter(key);
      this.#putMeter.run([key, at, used]);
    }
    keys.clear();
  }

  meter(key: string): Meter {
    return this.#meters.get(key) ?? NEW_METER;
  }

  /** The held amount is the sum of the reservations, so only these are written. */
  set(key: string, meter: Meter): void {
    const { at, used } = this.meter(key);
    this.#meters.set(key, meter);
    if (meter.used === used && (meter.at === at || used === 0)) return;
    (isBucket(key) ? this.#changedBuckets : this.#changedMeters).add(key);
  }

  reservation(id: string): Held | undefined {
    return this.#reservations.get(id);
  }

  put(held: Held): void {
    this.#reservations.set(held.id, held);
    this.#rows.put(held);
  }

  remove(id: string): void {
    this.#reservations.delete(id);
    this.#rows.remove(id);
  }

  numOpen(): number {
    return this.#reservations.size;
  }

  abandoned(): readonly Held[] {
    return [...this.#reservations.values()].filter(({ id, owner }) => owner !== this.owner && !isLasting(id));
  }
}

/**
 * Nano-dollars that an earlier process had reserved and that become charges, by the ids of its requests. Empty if the
 * database has no budgets yet.
 */
export function abandonedCharges(database: Database.Database): (requestId: string) => bigint | undefined {
  database.exec(SCHEMA);
  const charges = new Map<string, bigint[]>();
  for (const { id, money } of readReservations(database)) {
    const requestId = requestIdOf(id);
    charges.set(requestId, [...(charges.get(requestId) ?? []), BigInt(money)]);
  }
  return (requestId) => charges.get(requestId)?.shift();
}
