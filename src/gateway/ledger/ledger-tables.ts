/**
 * The ledger's tables. A request is a row of its own, with a row for each attempt. The same transaction adds them to
 * the sums of their hour, so that sums need no rows: rows are deleted when they are old, and the sums remain. Rows have
 * no index but their position, which grows with time: an index costs every request, and a thread can search rows.
 */
import type { Database } from "../store/database.js";

/** Every sum of an hour. */
export const SUMS = [
  "requests",
  "attempts",
  "fresh",
  "cache_read",
  "cache_write",
  "output",
  "reasoning",
  "drafted",
  "accepted",
  "cost",
  "saved",
  "unpriced",
  "estimated",
  "hits",
  "total_ms",
  "truncated",
] as const;

/** Columns that sums are grouped by. An hour is its first millisecond since 1970; older hours are joined into days. */
export const DIMENSIONS = ["hour", "tenant", "team", "key", "model", "engine", "status"] as const;

/** Columns of `ledger_requests`, in the order of the table. */
export const REQUEST_COLUMNS = [
  "seq",
  "id",
  "began_ms",
  "tenant",
  "team",
  "key",
  "path",
  "asked",
  "is_stream",
  "served",
  "outcome",
  "status",
  "error",
  "first_byte_ms",
  "total_ms",
  "saved",
  "saved_by",
  "notes",
  "cost",
  "attempts",
  "max_tokens",
  "answers",
  "end_user",
] as const;

/** Columns of `ledger_attempts`, in the order of the table. */
export const ATTEMPT_COLUMNS = [
  "seq",
  "attempt",
  "instance",
  "engine",
  "model",
  "start_ms",
  "first_byte_ms",
  "total_ms",
  "status",
  "outcome",
  "fresh",
  "cache_read",
  "cache_write",
  "output",
  "reasoning",
  "drafted",
  "accepted",
  "is_estimated",
  "cost",
  "price",
] as const;

export function createLedgerTables(database: Database.Database): void {
  database.exec(`
    CREATE TABLE IF NOT EXISTS ledger_requests (
      seq INTEGER PRIMARY KEY, id TEXT, began_ms INTEGER, tenant TEXT, team TEXT, key TEXT, path TEXT, asked TEXT,
      is_stream INTEGER, served TEXT, outcome TEXT, status INTEGER, error TEXT, first_byte_ms REAL, total_ms REAL,
      saved INTEGER, saved_by TEXT, notes TEXT, cost INTEGER, attempts INTEGER,
      max_tokens INTEGER, answers INTEGER, end_user TEXT NOT NULL DEFAULT '');
    DROP INDEX IF EXISTS ledger_requests_began;
    DROP INDEX IF EXISTS ledger_requests_id;
    CREATE TABLE IF NOT EXISTS ledger_attempts (
      seq INTEGER, attempt INTEGER, instance TEXT, engine TEXT, model TEXT, start_ms REAL, first_byte_ms REAL,
      total_ms REAL, status INTEGER, outcome TEXT, fresh INTEGER, cache_read INTEGER, cache_write INTEGER,
      output INTEGER, reasoning INTEGER, drafted INTEGER, accepted INTEGER, is_estimated INTEGER, cost INTEGER,
      price TEXT, PRIMARY KEY (seq, attempt)) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS ledger_hours (
      hour INTEGER, tenant TEXT, team TEXT, key TEXT, model TEXT, engine TEXT, status INTEGER,
      ${SUMS.map((name) => `${name} INTEGER NOT NULL`).join(", ")},
      PRIMARY KEY (${DIMENSIONS.join(", ")})) WITHOUT ROWID;
  `);
  addColumn(database, "ledger_hours", "truncated INTEGER NOT NULL DEFAULT 0");
  addColumn(database, "ledger_requests", "max_tokens INTEGER");
  addColumn(database, "ledger_requests", "answers INTEGER");
  addColumn(database, "ledger_requests", "end_user TEXT NOT NULL DEFAULT ''");
}

/** Databases of earlier versions lack the last columns. */
function addColumn(database: Database.Database, table: string, column: string): void {
  const columns = database.prepare(`SELECT name FROM pragma_table_info('${table}')`).all() as { name: string }[];
  if (columns.some(({ name }) => name === column.split(" ")[0])) return;
  database.exec(`ALTER TABLE ${table} ADD COLUMN ${column}`);
}

export const marks = (count: number): string => Array(count).fill("?").join(", ");

/** By the names of columns: a later version of the gateway may have added others, and an earlier one goes on. */
export const insertInto = (table: string, columns: readonly string[]): string =>
  `INSERT INTO ${table} (${columns.join(", ")}) VALUES (${marks(columns.length)})`;

export const ADD_TO_HOUR = `${insertInto("ledger_hours", [...DIMENSIONS, ...SUMS])}
  ON CONFLICT DO UPDATE SET ${SUMS.map((name) => `${name} = ${name} + excluded.${name}`).join(", ")}`;

/** Rows of one hour, at most so many, in the order of the table's key. */
export const ROWS_OF_HOUR = `SELECT ${[...DIMENSIONS, ...SUMS].join(", ")} FROM ledger_hours WHERE hour = ?
  ORDER BY ${DIMENSIONS.slice(1).join(", ")} LIMIT ?`;

/** Deletes those rows; values: the dimensions of the last one. */
export const DELETE_ROWS_OF_HOUR = `DELETE FROM ledger_hours WHERE hour = ?
  AND (${DIMENSIONS.slice(1).join(", ")}) <= (${marks(DIMENSIONS.length - 1)})`;
