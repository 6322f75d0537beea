/**
 * Reads the ledger: pages of requests, and sums over hours. The queries run in a thread, beside the gateway's requests.
 */
import { MillraceError } from "../../core/errors.js";
import { formatCost } from "../money.js";
import type { Database } from "../store/database.js";
import { type Row, sideOf } from "../store/side-connection.js";
import { ATTEMPT_COLUMNS, attemptsAt, REQUESTS, SUMS } from "./ledger-tables.js";

/** Milliseconds since 1970; `to` is not included. */
interface Period {
  readonly fromMs: number;
  readonly toMs: number;
}

/** A period that may be open at its ends. */
interface OpenPeriod {
  readonly fromMs?: number | undefined;
  readonly toMs?: number | undefined;
}

interface RequestFilter extends OpenPeriod {
  readonly id?: string | undefined;
  readonly tenant?: string | undefined;
  readonly team?: string | undefined;
  readonly key?: string | undefined;
  readonly end_user?: string | undefined;
  readonly model?: string | undefined;
  readonly outcome?: string | undefined;
  readonly status?: number | undefined;
}

interface RequestPage {
  /** Requests from the newest to the oldest. */
  readonly data: readonly Row[];
  /** Cursor of the next page; null: none. A page may be shorter than its limit and still have a next one. */
  readonly next: number | null;
}

/** Requests that one page reads: a filter without matches must not keep other queries waiting. */
const MAX_LOOKED_AT = 20_000;

/** Requests before a cursor, with their attempts. */
export async function requestPage(
  database: Database.Database,
  filter: RequestFilter,
  before: number,
  limit: number,
): Promise<RequestPage> {
  const { first, end } = await positions(database, filter);
  const top = Math.min(before, end);
  // A query for an id finds its request, however old it is.
  const bottom = filter.id === undefined ? Math.max(first, top - MAX_LOOKED_AT) : first;
  const { where, values } = conditions(filter);
  const sql = `SELECT * FROM ${REQUESTS} WHERE seq < ? AND seq >= ?${where} ORDER BY seq DESC LIMIT ?`;
  const rows = await sideOf(database).read(sql, [top, bottom, ...values, limit], { isExact: true });
  const seqs = rows.map(({ seq }) => seq);
  const attempts =
    seqs.length === 0
      ? []
      : await sideOf(database).read(attemptsAt(seqs.length), [...seqs, ...seqs], { isExact: true });
  const bySeq = new Map(seqs.map((seq): [unknown, Row[]] => [seq, []]));
  for (const attempt of attempts) bySeq.get(attempt.seq)!.push(shownAttempt(attempt));
  const data = rows.map((row) => ({ ...shownRequest(row), attempts: bySeq.get(row.seq)! }));
  if (rows.length === limit) return { data, next: Number(rows.at(-1)!.seq) };
  return { data, next: bottom <= first ? null : bottom };
}

/** Positions of a period's first request, and after its last one. */
async function positions(
  database: Database.Database,
  { fromMs, toMs }: OpenPeriod,
): Promise<{ readonly first: number; readonly end: number }> {
  const edge = async (name: "min" | "max") => {
    const [row] = await sideOf(database).read(`SELECT ${name}(seq) AS seq FROM ledger_requests`, []);
    return (row?.seq ?? undefined) as number | undefined;
  };
  const [oldest, newest] = [await edge("min"), await edge("max")];
  if (oldest === undefined || newest === undefined) return { first: 0, end: 0 };
  const first = fromMs === undefined ? oldest : await positionAt(database, fromMs, oldest, newest + 1);
  const end = toMs === undefined ? newest + 1 : await positionAt(database, toMs, oldest, newest + 1);
  return { first, end };
}

/**
 * The first position from `low` whose request began at `atMs` or later; `end`: none. Positions grow with time, so a
 * binary search finds it.
 */
async function positionAt(database: Database.Database, atMs: number, low: number, end: number): Promise<number> {
  const sql = "SELECT seq, began_ms FROM ledger_requests WHERE seq >= ? ORDER BY seq LIMIT 1";
  let [from, to] = [low, end];
  while (from < to) {
    const middle = Math.floor((from + to) / 2);
    const [row] = (await sideOf(database).read(sql, [middle])) as readonly { seq: number; began_ms: number }[];
    if (row !== undefined && row.began_ms < atMs) from = row.seq + 1;
    else to = middle;
  }
  return from;
}

function conditions({ fromMs, toMs, model, ...equal }: RequestFilter) {
  const parts: [string, string | number][] = [];
  if (fromMs !== undefined) parts.push(["began_ms >= ?", fromMs]);
  if (toMs !== undefined) parts.push(["began_ms < ?", toMs]);
  for (const [column, value] of Object.entries(equal)) if (value !== undefined) parts.push([`${column} = ?`, value]);
  const values = parts.map(([, value]) => value);
  const model2 = model === undefined ? "" : " AND (asked = ? OR served = ?)";
  if (model !== undefined) values.push(model, model);
  return { where: parts.map(([part]) => ` AND ${part}`).join("") + model2, values };
}

const numberOf = (value: unknown): number | null => (value === null ? null : Number(value));
const costOrNull = (value: unknown): string | null => (value === null ? null : formatCost(value as bigint));
const timeOf = (value: unknown): string => new Date(Number(value)).toISOString();

function shownRequest(row: Row): Row {
  return {
    id: row.id,
    began: timeOf(row.began_ms),
    tenant: row.tenant,
    team: row.team,
    key: row.key,
    end_user: row.end_user,
    path: row.path,
    model: row.asked,
    served: row.served,
    stream: Number(row.is_stream) === 1,
    outcome: row.outcome,
    status: Number(row.status),
    error: row.error,
    first_byte_ms: row.first_byte_ms,
    total_ms: row.total_ms,
    cost: formatCost(row.cost as bigint),
    saved: formatCost(row.saved as bigint),
    saved_by: row.saved_by,
    notes: row.notes === "" ? {} : JSON.parse(row.notes as string),
  };
}

function shownAttempt(row: Row): Row {
  return {
    instance: row.instance,
    engine: row.engine,
    model: row.model,
    outcome: row.outcome,
    status: Number(row.status),
    start_ms: row.start_ms,
    first_byte_ms: row.first_byte_ms,
    total_ms: row.total_ms,
    ...Object.fromEntries(TOKENS.map((name) => [name, numberOf(row[name])])),
    estimated: Number(row.is_estimated) === 1,
    cost: costOrNull(row.cost),
    price: row.price,
  };
}

const TOKENS = ["fresh", "cache_read", "cache_write", "output", "reasoning", "drafted", "accepted"] as const;

/** The columns that sums may be grouped by, as SQL. */
const GROUPS = {
  tenant: "tenant",
  team: "team",
  key: "key",
  model: "model",
  engine: "engine",
  status: "status",
  hour: "strftime('%Y-%m-%dT%H:00Z', hour / 1000, 'unixepoch')",
  day: "strftime('%Y-%m-%d', hour / 1000, 'unixepoch')",
  month: "strftime('%Y-%m', hour / 1000, 'unixepoch')",
} as const;
export type SpendGroup = keyof typeof GROUPS;
export const SPEND_GROUPS = Object.keys(GROUPS) as readonly SpendGroup[];

interface SpendFilter extends OpenPeriod {
  readonly tenant?: string | undefined;
  readonly team?: string | undefined;
  readonly key?: string | undefined;
  readonly model?: string | undefined;
}

const MAX_GROUPS = 10_000;

/**
 * Sums over the hours that begin in a period, by groups: the most expensive first, or in the order of time.
 *
 * @param asker the tenant in whose turn the query runs; "": the administrator
 */
export async function spend(
  database: Database.Database,
  filter: SpendFilter,
  groups: readonly SpendGroup[],
  asker = "",
): Promise<readonly Row[]> {
  const { fromMs = 0, toMs = Number.MAX_SAFE_INTEGER, ...equal } = filter;
  const parts = Object.entries(equal).filter(([, value]) => value !== undefined) as [string, string][];
  const where = parts.map(([column]) => ` AND ${column} = ?`).join("");
  const columns = groups.map((group) => `${GROUPS[group]} AS by_${group}`);
  const sums = SUMS.map((name) => `CAST(coalesce(sum(${name}), 0) AS TEXT) AS ${name}`);
  const by = groups.length === 0 ? "" : ` GROUP BY ${groups.map((group) => `by_${group}`).join(", ")}`;
  const times = groups.filter((group) => ["hour", "day", "month"].includes(group)).map((group) => `by_${group}`);
  const sql = `SELECT ${[...columns, ...sums].join(", ")} FROM ledger_hours WHERE hour >= ? AND hour < ?${where}${by}
    ORDER BY ${[...times, "sum(cost) DESC", "sum(requests) DESC"].join(", ")} LIMIT ${MAX_GROUPS + 1}`;
  const values = [fromMs, toMs, ...parts.map(([, value]) => value)];
  const rows = await sideOf(database).read(sql, values, { tenant: asker });
  if (rows.length > MAX_GROUPS) {
    throw new MillraceError("invalid_parameter", `expected at most ${MAX_GROUPS} groups, got more`, {
      param: "group_by",
      hint: "group by less, or ask for a shorter time",
    });
  }
  return rows.map((row) => shownSums(row, groups));
}

function shownSums(row: Row, groups: readonly SpendGroup[]): Row {
  const money = ["cost", "saved"];
  return {
    ...Object.fromEntries(groups.map((group) => [group, row[`by_${group}`]])),
    ...Object.fromEntries(
      SUMS.map((name) => [name, money.includes(name) ? formatCost(BigInt(row[name] as string)) : Number(row[name])]),
    ),
  };
}

const EXPORT_PAGE = 500;

/**
 * Columns of an export, in order: a row for each attempt, with its request's columns; a request without attempts has
 * one row.
 */
const exportSql = (
  where: string,
): string => `SELECT r.seq AS cursor, r.id, r.began_ms, r.tenant, r.team, r.key, r.end_user, r.path, r.asked AS model_asked,
  r.served AS model_served, r.is_stream, r.outcome, r.status, r.error, r.first_byte_ms, r.total_ms, r.saved, r.saved_by,
  r.notes, iif(r.words IS NULL, a.attempt, 0) AS attempt_number, ${ATTEMPT_COLUMNS.slice(2)
    .map((name) => `iif(r.words IS NULL, a.${name}, r.attempt_${name}) AS attempt_${name}`)
    .join(", ")}
  FROM (SELECT * FROM ${REQUESTS} WHERE seq > ? AND seq < ? AND began_ms >= ? AND began_ms < ?${where}
    ORDER BY seq LIMIT ${EXPORT_PAGE}) r
  LEFT JOIN ledger_attempts a ON a.seq = r.seq ORDER BY r.seq, a.attempt`;

/** All rows of a period that pass the filter, one page at a time. */
export async function* exportRows(
  database: Database.Database,
  { fromMs, toMs, ...equal }: Period & Pick<RequestFilter, "tenant" | "team" | "key" | "end_user">,
): AsyncGenerator<readonly Row[]> {
  const { first, end } = await positions(database, { fromMs, toMs });
  const { where, values } = conditions(equal);
  const sql = exportSql(where);
  for (let cursor = first - 1; cursor < end - 1; ) {
    const rows = await sideOf(database).read(sql, [cursor, end, fromMs, toMs, ...values], { isExact: true });
    if (rows.length === 0) return;
    yield rows;
    cursor = Number(rows.at(-1)!.cursor);
  }
}

/**
 * The model that answered a tenant's newest request with the id.
 * @returns undefined if the ledger has no such answer
 */
export async function servedModel(
  database: Database.Database,
  requestId: string,
  tenant: string,
): Promise<string | undefined> {
  const sql = `SELECT served FROM ${REQUESTS} WHERE id = ? AND tenant = ? AND outcome = 'answered'
    ORDER BY seq DESC LIMIT 1`;
  const [row] = await sideOf(database).read(sql, [requestId, tenant], { tenant });
  return row?.served as string | undefined;
}
