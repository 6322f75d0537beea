/**
 * Limits that several gateways share in PostgreSQL: each turn is one transaction, and a lock lets one gateway at a time
 * have its turn.
 */
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import type pg from "pg";
import { MillraceError } from "../../core/errors.js";
import { BatchedStore } from "./batched-store.js";
import type { Claims } from "./claims.js";
import type { Operation, Result } from "./operations.js";
import type { SharedStoreOptions } from "./redis-store.js";
import { isLasting } from "./reservation-id.js";
import { LEASE_MS, STALE_MS } from "./store.js";
import { applyTurn, type Held, type Meter, NEW_METER, type TurnState } from "./turn.js";

const SCHEMA = `
CREATE TABLE IF NOT EXISTS millrace_budget_owners (owner text PRIMARY KEY, expires_ms bigint NOT NULL);
CREATE TABLE IF NOT EXISTS millrace_budget_meters (
  key text PRIMARY KEY, at bigint NOT NULL, used bigint NOT NULL, held bigint NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS millrace_budget_reservations (
  id text PRIMARY KEY, owner text NOT NULL, keys text[] NOT NULL, held jsonb NOT NULL
);
CREATE INDEX IF NOT EXISTS millrace_budget_reservations_owner ON millrace_budget_reservations (owner);
`;

const DELETE_STALE = `DELETE FROM millrace_budget_meters
WHERE held = 0 AND (at > 0 OR used = 0)
  AND at < floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - ${STALE_MS}`;

/** Any number that the database's other programs do not use. */
const LOCK = 7_305_118_246;
const BEGIN = `BEGIN; SELECT pg_advisory_xact_lock(${LOCK})`;

/**
 * $1: keys of meters, $2: ids of reservations, $3: whether to read abandoned ones, $4: the time or null, $5: this owner
 */
const READ = `
WITH clock AS (SELECT coalesce($4::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now_ms),
found AS (
  SELECT id, owner, keys, held, owner <> $5 AND NOT EXISTS (
    SELECT 1 FROM millrace_budget_owners o, clock WHERE o.owner = r.owner AND o.expires_ms > now_ms
  ) AS is_abandoned
  FROM millrace_budget_reservations r
  WHERE id = ANY($2) OR ($3 AND owner <> $5)
)
SELECT now_ms,
  (SELECT json_agg(json_build_object('held', held, 'isAbandoned', is_abandoned)) FROM found) AS reservations,
  (SELECT json_agg(m) FROM millrace_budget_meters m
    WHERE key = ANY($1) OR key IN (SELECT unnest(keys) FROM found)) AS meters,
  CASE WHEN $6 THEN (SELECT count(*) FROM millrace_budget_reservations) END AS num_open
FROM clock`;

/**
 * $1: meters as JSON, $2: ids of ended reservations, $3: new and changed ones as JSON, $4: this owner, $5: when its
 * lease ends, $6: the time
 */
const WRITE = `
WITH lease AS (
  INSERT INTO millrace_budget_owners (owner, expires_ms) VALUES ($4, $5)
  ON CONFLICT (owner) DO UPDATE SET expires_ms = greatest(millrace_budget_owners.expires_ms, excluded.expires_ms)
), over AS (
  DELETE FROM millrace_budget_owners WHERE expires_ms <= $6 AND owner <> $4 AND $7
), written AS (
  INSERT INTO millrace_budget_meters (key, at, used, held)
  SELECT key, at, used, held FROM json_to_recordset($1) AS m(key text, at bigint, used bigint, held bigint)
  ON CONFLICT (key) DO UPDATE SET at = excluded.at, used = excluded.used, held = excluded.held
), ended AS (
  DELETE FROM millrace_budget_reservations WHERE id = ANY($2)
)
INSERT INTO millrace_budget_reservations (id, owner, keys, held)
SELECT id, owner, keys, held FROM json_to_recordset($3) AS r(id text, owner text, keys text[], held jsonb)
ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, keys = excluded.keys, held = excluded.held`;

interface ReadRow {
  readonly now_ms: string;
  readonly reservations: readonly { readonly held: Held; readonly isAbandoned: boolean }[] | null;
  readonly meters: readonly ({ readonly key: string } & Meter)[] | null;
  readonly num_open: string | null;
}

export class PostgresStore extends BatchedStore {
  readonly #owner = randomUUID();
  readonly #pool: pg.Pool;
  #isPrepared = false;

  constructor(private readonly options: SharedStoreOptions) {
    // The next turn gathers operations while this one commits.
    super(1);
    const { url, timeoutMs, namespace } = options;
    // Loaded at the first use, as Redis's client is.
    const { Pool } = createRequire(import.meta.url)("pg") as typeof pg;
    this.#pool = new Pool({
      connectionString: url,
      max: 1,
      connectionTimeoutMillis: timeoutMs,
      query_timeout: timeoutMs,
      statement_timeout: timeoutMs,
      // A gateway that hangs in the middle of a turn must not block the others.
      idle_in_transaction_session_timeout: timeoutMs,
      application_name: "millrace",
      ...(namespace === undefined ? {} : { options: `-c search_path=${namespace}` }),
    });
    // Each failed operation reports its own error.
    this.#pool.on("error", () => {});
  }

  protected override async turn(take: () => readonly Operation[]): Promise<readonly Result[]> {
    let client: pg.PoolClient | undefined;
    try {
      client = await this.#pool.connect();
      // A connection that ends between two queries reports it here, and in the next query.
      client.on("error", ignore);
      if (!this.#isPrepared) await this.#prepare(client);
      await client.query(BEGIN);
      const results = await this.#transact(client, take());
      await client.query("COMMIT");
      client.off("error", ignore);
      client.release();
      return results;
    } catch (cause) {
      // The server undoes the transaction of a connection that ends.
      client?.release(true);
      const message = `expected PostgreSQL to answer, got ${(cause as Error).message}`;
      throw new MillraceError("budget_store_failed", message, {
        hint: "check PostgreSQL and the key `budgets`",
        cause,
      });
    }
  }

  async #prepare(client: pg.PoolClient): Promise<void> {
    const { namespace } = this.options;
    // Two gateways that start at the same moment must not create the same table: that fails.
    await client.query(BEGIN);
    if (namespace !== undefined) await client.query(`CREATE SCHEMA IF NOT EXISTS ${namespace}`);
    await client.query(SCHEMA);
    await client.query(DELETE_STALE);
    await client.query("COMMIT");
    this.#isPrepared = true;
  }

  async #transact(client: pg.PoolClient, operations: readonly Operation[]): Promise<readonly Result[]> {
    const keys = [...new Set(operations.flatMap(keysOf))];
    const ids = operations.flatMap(idsOf);
    const recovers = operations.some(({ op }) => op === "recover");
    const counts = operations.some(({ op }) => op === "count");
    const now = this.options.now?.() ?? null;
    const { rows } = await client.query({
      name: "budget-read",
      text: READ,
      values: [keys, ids, recovers, now, this.#owner, counts],
    });
    const row = rows[0] as ReadRow;
    const nowMs = Number(row.now_ms);
    const state = new LoadedState(row);
    const results = applyTurn(state, operations, this.#owner, nowMs);
    const lease = nowMs + (this.options.leaseMs ?? LEASE_MS);
    await client.query({
      name: "budget-write",
      text: WRITE,
      values: [
        JSON.stringify(state.changedMeters()),
        state.ended(),
        JSON.stringify(state.changedReservations()),
        this.#owner,
        lease,
        nowMs,
        recovers,
      ],
    });
    return results;
  }

  async close(): Promise<void> {
    await this.#pool.end();
  }
}

const ignore = (): void => {};

const keyOf = ({ key }: { readonly key: string }): string => key;

function keysOfClaims({ budgets, requests, tokens, concurrent }: Claims): string[] {
  return [...budgets.map(keyOf), ...requests.map(keyOf), ...tokens.map(keyOf), ...concurrent.map(keyOf)];
}

function keysOf(operation: Operation): string[] {
  if (operation.op === "reserve") return keysOfClaims(operation.reservation.claims);
  return operation.op === "charge" || operation.op === "read" ? keysOfClaims(operation.claims) : [];
}

function idsOf(operation: Operation): string[] {
  if (operation.op === "reserve") return [operation.reservation.id];
  return operation.op === "resize" || operation.op === "settle" ? [operation.id] : [];
}

/** The rows of the database that a turn reads and writes. */
class LoadedState implements TurnState {
  readonly #meters = new Map<string, Meter>();
  readonly #changedMeters = new Set<string>();
  readonly #reservations = new Map<string, Held>();
  readonly #changedReservations = new Set<string>();
  readonly #abandoned: string[] = [];
  #numOpen: number;

  constructor({ meters, reservations, num_open: numOpen }: ReadRow) {
    for (const { key, at, used, held } of meters ?? []) this.#meters.set(key, { at, used, held });
    for (const { held, isAbandoned } of reservations ?? []) {
      this.#reservations.set(held.id, held);
      if (isAbandoned && !isLasting(held.id)) this.#abandoned.push(held.id);
    }
    this.#numOpen = Number(numOpen ?? 0);
  }

  changedMeters(): object[] {
    return [...this.#changedMeters].map((key) => ({ key, ...this.meter(key) }));
  }

  changedReservations(): object[] {
    return [...this.#changedReservations].flatMap((id) => {
      const held = this.#reservations.get(id);
      if (held === undefined) return [];
      const keys = [...held.moneyKeys.map(first), ...held.tokenKeys.map(first), ...held.placeKeys];
      return [{ id, owner: held.owner, keys, held }];
    });
  }

  ended(): string[] {
    return [...this.#changedReservations].filter((id) => !this.#reservations.has(id));
  }

  meter(key: string): Meter {
    return this.#meters.get(key) ?? NEW_METER;
  }

  set(key: string, meter: Meter): void {
    this.#meters.set(key, meter);
    this.#changedMeters.add(key);
  }

  reservation(id: string): Held | undefined {
    return this.#reservations.get(id);
  }

  put(held: Held): void {
    if (!this.#reservations.has(held.id)) this.#numOpen++;
    this.#reservations.set(held.id, held);
    this.#changedReservations.add(held.id);
  }

  remove(id: string): void {
    this.#numOpen--;
    this.#reservations.delete(id);
    this.#changedReservations.add(id);
  }

  numOpen(): number {
    return this.#numOpen;
  }

  abandoned(): readonly Held[] {
    return this.#abandoned.flatMap((id) => this.#reservations.get(id) ?? []);
  }
}

const first = ([key]: readonly [string, number]): string => key;
