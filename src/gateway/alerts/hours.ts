/** The hours of one key, or of all keys together, from the ledger. */
import { HOUR_MS } from "../ledger/hour-sums.js";
import type { Database } from "../store/database.js";

export interface Hour {
  /** Dollars. */
  readonly cost: number;
  readonly requests: number;
  /** Tokens of requests that an upstream answered: prompt and output. */
  readonly tokens: number;
  /**
   * Requests that failed at an upstream or in the gateway, that limits or budgets refused, and that a cache answered.
   */
  readonly errors: number;
  readonly refusals: number;
  readonly hits: number;
  /** All attempts, and retries after the first. */
  readonly attempts: number;
  readonly retries: number;
  /** Attempts whose answer reached its limit of tokens. */
  readonly truncated: number;
}

const NO_HOUR: Hour = {
  cost: 0,
  requests: 0,
  tokens: 0,
  errors: 0,
  refusals: 0,
  hits: 0,
  attempts: 0,
  retries: 0,
  truncated: 0,
};

/** The owner of the hours; undefined: all keys together. */
export interface Series {
  readonly tenant: string;
  readonly key: string;
}

const COLUMNS = `sum(cost) / 1e9 AS cost, sum(requests) AS requests,
  sum(fresh + cache_read + cache_write + output) AS tokens,
  sum(CASE WHEN status >= 500 OR status = 0 THEN requests ELSE 0 END) AS errors,
  sum(CASE WHEN status IN (403, 429) THEN requests ELSE 0 END) AS refusals,
  sum(hits) AS hits, sum(attempts) AS attempts,
  sum(CASE WHEN attempts > 0 THEN max(0, attempts - requests) ELSE 0 END) AS retries,
  sum(truncated) AS truncated`;

/**
 * @returns one entry per hour from the first with a request to the hour of `atMs`, whose entry is the last; empty if
 * there was none
 */
export function hoursOf(
  database: Database.Database,
  series: Series | undefined,
  atMs: number,
  numHours: number,
): Hour[] {
  const last = atMs - (atMs % HOUR_MS);
  const from = last - (numHours - 1) * HOUR_MS;
  const where = series === undefined ? "" : " AND tenant = ? AND key = ?";
  const sql = `SELECT hour, ${COLUMNS} FROM ledger_hours WHERE hour >= ? AND hour <= ?${where} GROUP BY hour ORDER BY hour`;
  const values = series === undefined ? [] : [series.tenant, series.key];
  const rows = database.prepare(sql).all(from, last, ...values) as (Hour & { readonly hour: number })[];
  const [first] = rows;
  if (first === undefined) return [];
  const hours = Array.from({ length: (last - first.hour) / HOUR_MS + 1 }, () => NO_HOUR);
  for (const { hour, ...row } of rows) hours[(hour - first.hour) / HOUR_MS] = row;
  return hours;
}

/** Keys with requests in an hour, those with the highest cost first. */
export function activeSeries(database: Database.Database, hourMs: number, atMost: number): Series[] {
  const sql = `SELECT tenant, key FROM ledger_hours WHERE hour = ? GROUP BY tenant, key
    ORDER BY sum(cost) DESC, sum(requests) DESC LIMIT ?`;
  const rows = database.prepare(sql).all(hourMs, atMost) as Series[];
  return rows.map(({ tenant, key }) => ({ tenant, key }));
}
