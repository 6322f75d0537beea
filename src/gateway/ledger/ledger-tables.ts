/**
 * The ledger's tables. A request is a row of its own, with a row for each attempt. The same transaction adds both to
 * the sums of their hour, so that sums need no rows: old rows are deleted, and the sums remain. Rows have no index but
 * their position, which grows with time: an index costs every request, and a thread can search rows.
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

/**
 * Columns whose values a usual request, of one attempt, shares with many others: its row has the id of these words
 * instead, and needs no second row for the attempt.
 */
export const WORD_COLUMNS = [
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
  "instance",
  "engine",
  "model",
  "attempt_status",
  "attempt_outcome",
  "is_estimated",
  "is_priced",
  "price",
] as const;

/** Columns of `ledger_requests` that a usual request's row has of its own; `saved` is 0, and `attempts` 1. */
const USUAL_COLUMNS = [
  "seq",
  "words",
  "id",
  "began_ms",
  "first_byte_ms",
  "total_ms",
  "cost",
  "notes",
  "max_tokens",
  "answers",
  "end_user",
  "attempt_start_ms",
  "attempt_first_byte_ms",
  "attempt_total_ms",
  "fresh",
  "cache_read",
  "cache_write",
  "output",
  "reasoning",
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
    CREATE TABLE IF NOT EXISTS ledger_words (id INTEGER PRIMARY KEY, ${WORD_COLUMNS.map(typed).join(", ")});
    CREATE TABLE IF NOT EXISTS ledger_hours (
      hour INTEGER, tenant TEXT, team TEXT, key TEXT, model TEXT, engine TEXT, status INTEGER,
      ${SUMS.map((name) => `${name} INTEGER NOT NULL`).join(", ")},
      PRIMARY KEY (${DIMENSIONS.join(", ")})) WITHOUT ROWID;
  `);
  addColumn(database, "ledger_hours", "truncated INTEGER NOT NULL DEFAULT 0");
  addColumn(database, "ledger_requests", "max_tokens INTEGER");
  addColumn(database, "ledger_requests", "answers INTEGER");
  addColumn(database, "ledger_requests", "end_user TEXT NOT NULL DEFAULT ''");
  for (const name of ["words", ...USUAL_COLUMNS.slice(11)]) addColumn(database, "ledger_requests", typed(name));
}

const TEXTS: ReadonlySet<string> = new Set<(typeof WORD_COLUMNS)[number]>([
  "tenant",
  "team",
  "key",
  "path",
  "asked",
  "served",
  "outcome",
  "error",
  "instance",
  "engine",
  "model",
  "attempt_outcome",
  "price",
]);

/** A number is a float in a column without a type. */
const typed = (name: string): string =>
  `${name} ${TEXTS.has(name) ? "TEXT" : name.endsWith("_ms") ? "REAL" : "INTEGER"}`;

/** Databases of earlier versions lack the last columns. */
function addColumn(database: Database.Database, table: string, column: string): void {
  const columns = database.prepare(`SELECT name FROM pragma_table_info('${table}')`).all() as { name: string }[];
  if (columns.some(({ name }) => name === column.split(" ")[0])) return;
  database.exec(`ALTER TABLE ${table} ADD COLUMN ${column}`);
}

/** To the microsecond: further digits come from the clock's arithmetic. */
export const milliseconds = (ms: number | undefined): number | null =>
  ms === undefined ? null : Math.round(ms * 1000) / 1000;

const marks = (count: number): string => Array(count).fill("?").join(", ");

/** Names the columns: a later version of the gateway may have added others, beside which an earlier one still works. */
export const insertInto = (table: string, columns: readonly string[], verb = "INSERT"): string =>
  `${verb} INTO ${table} (${columns.join(", ")}) VALUES (${marks(columns.length)})`;

export const INSERT_USUAL = `INSERT INTO ledger_requests (${USUAL_COLUMNS.join(", ")}, saved, saved_by, attempts)
  VALUES (${marks(USUAL_COLUMNS.length)}, 0, '', 1)`;

const OF_WORDS: ReadonlySet<string> = new Set(WORD_COLUMNS);

/**
 * The rows of requests, as a table of REQUEST_COLUMNS and of the columns of the usual request's attempt (named as in
 * ATTEMPT_COLUMNS, after `attempt_`); `words` is null if attempts have rows of their own. It is not a view, since a
 * view would bind the columns of the table.
 */
export const REQUESTS = `(SELECT ${[
  ...REQUEST_COLUMNS.map((name) => (OF_WORDS.has(name) ? `coalesce(w.${name}, r.${name}) AS ${name}` : `r.${name}`)),
  "r.words",
  ...ATTEMPT_COLUMNS.slice(2).map((name) => `${usualColumn(name)} AS attempt_${name}`),
].join(", ")} FROM ledger_requests r LEFT JOIN ledger_words w ON w.id = r.words)`;

/** Attempts of the requests at some positions. Bind the positions twice, in order. */
export const attemptsAt = (numSeqs: number): string => `
  SELECT ${ATTEMPT_COLUMNS.join(", ")} FROM ledger_attempts WHERE seq IN (${marks(numSeqs)}) UNION ALL
  SELECT r.seq, 0, ${ATTEMPT_COLUMNS.slice(2).map(usualColumn).join(", ")}
    FROM ledger_requests r JOIN ledger_words w ON w.id = r.words WHERE r.seq IN (${marks(numSeqs)})
  ORDER BY 1, 2`;

/** A column of the usual request's attempt. */
function usualColumn(name: string): string {
  if (name === "cost") return "CASE WHEN w.is_priced THEN r.cost END";
  if (name === "drafted" || name === "accepted") return "NULL";
  if (name === "status" || name === "outcome") return `w.attempt_${name}`;
  return OF_WORDS.has(name) ? `w.${name}` : `r.${name.endsWith("_ms") ? `attempt_${name}` : name}`;
}

export const ADD_TO_HOUR = `${insertInto("ledger_hours", [...DIMENSIONS, ...SUMS])}
  ON CONFLICT DO UPDATE SET ${SUMS.map((name) => `${name} = ${name} + excluded.${name}`).join(", ")}`;

/** Rows of one hour up to a limit, in the order of the table's key. */
export const ROWS_OF_HOUR = `SELECT ${[...DIMENSIONS, ...SUMS].join(", ")} FROM ledger_hours WHERE hour = ?
  ORDER BY ${DIMENSIONS.slice(1).join(", ")} LIMIT ?`;

/** Deletes the rows of one hour up to the given dimensions. */
export const DELETE_ROWS_OF_HOUR = `DELETE FROM ledger_hours WHERE hour = ?
  AND (${DIMENSIONS.slice(1).join(", ")}) <= (${marks(DIMENSIONS.length - 1)})`;
