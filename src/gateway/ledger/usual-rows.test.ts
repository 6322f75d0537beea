/** Rows with shared words are read like rows with all columns of their own. */
import fc from "fast-check";
import { pino } from "pino";
import { expect, test } from "vitest";
import { formatCost } from "../money.js";
import { openDatabase } from "../store/database.js";
import { GroupCommit } from "../store/group-commit.js";
import { exportRows, requestPage } from "./ledger-queries.js";
import type { AttemptRow, RequestRow } from "./ledger-rows.js";
import { LedgerStore } from "./ledger-store.js";

const logger = pino({ level: "silent" });
const NEWEST = Number.MAX_SAFE_INTEGER;

function open() {
  const database = openDatabase(undefined);
  const commits = new GroupCommit(database);
  const count = (table: string) => (database.prepare(`SELECT count(*) AS n FROM ${table}`).get([]) as { n: number }).n;
  return { database, commits, count, store: new LedgerStore(database, commits, logger) };
}

const word = fc.constantFrom("", "a", "b");
const number = fc.nat(1000);
const status = fc.constantFrom(0, 200, 503);
const counts = fc.record(
  {
    fresh: number,
    cacheRead: number,
    cacheWrite: number,
    output: number,
    reasoning: number,
    drafted: number,
    accepted: number,
    isEstimated: fc.boolean(),
  },
  { requiredKeys: ["fresh", "cacheRead", "cacheWrite", "output", "reasoning"] },
);
const attempt = fc.record({
  instance: word,
  engine: word,
  model: word,
  startMs: number,
  firstByteMs: fc.option(number, { nil: undefined }),
  totalMs: number,
  status,
  outcome: word,
  price: word,
  counts: fc.option(counts, { nil: undefined }),
  cost: fc.option(fc.bigInt(0n, 2n ** 60n), { nil: undefined }),
});
const request = fc.record({
  id: word,
  beganMs: number,
  tenant: word,
  team: word,
  key: word,
  path: word,
  asked: word,
  isStream: fc.boolean(),
  served: word,
  outcome: fc.constantFrom("answered", "broken", "cancelled"),
  status,
  error: word,
  firstByteMs: fc.option(number, { nil: undefined }),
  totalMs: number,
  saved: fc.constantFrom(0n, 7n),
  savedBy: word,
  notes: fc.constantFrom("", '{"cache":"miss"}'),
  maxTokens: fc.option(number, { nil: undefined }),
  numAnswers: fc.option(number, { nil: undefined }),
  endUser: word,
  attempts: fc.array(attempt, { minLength: 0, maxLength: 2 }),
});

const costsOf = ({ attempts }: RequestRow): bigint => attempts.reduce((sum, { cost }) => sum + (cost ?? 0n), 0n);

const shownAttempt = (each: AttemptRow) => ({
  instance: each.instance,
  engine: each.engine,
  model: each.model,
  outcome: each.outcome,
  status: each.status,
  start_ms: each.startMs,
  first_byte_ms: each.firstByteMs ?? null,
  total_ms: each.totalMs,
  fresh: each.counts?.fresh ?? null,
  cache_read: each.counts?.cacheRead ?? null,
  cache_write: each.counts?.cacheWrite ?? null,
  output: each.counts?.output ?? null,
  reasoning: each.counts?.reasoning ?? null,
  drafted: each.counts?.drafted ?? null,
  accepted: each.counts?.accepted ?? null,
  estimated: each.counts?.isEstimated === true,
  cost: each.cost === undefined ? null : formatCost(each.cost),
  price: each.price,
});

const shown = (row: RequestRow) => ({
  id: row.id,
  began: new Date(row.beganMs).toISOString(),
  tenant: row.tenant,
  team: row.team,
  key: row.key,
  end_user: row.endUser,
  path: row.path,
  model: row.asked,
  served: row.served,
  stream: row.isStream,
  outcome: row.outcome,
  status: row.status,
  error: row.error,
  first_byte_ms: row.firstByteMs ?? null,
  total_ms: row.totalMs,
  cost: formatCost(costsOf(row)),
  saved: formatCost(row.saved),
  saved_by: row.savedBy,
  notes: row.notes === "" ? {} : JSON.parse(row.notes),
  attempts: row.attempts.map(shownAttempt),
});

test("every column of every row is read as it was written, and an export has the same", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(request, { maxLength: 12 }), async (given) => {
      const { database, commits, store } = open();
      const rows = given.map((each, i) => ({ ...each, seq: i + 1 }) as RequestRow);
      for (const row of rows) store.close(row);
      commits.flush();
      const { data } = await requestPage(database, {}, NEWEST, 100);
      expect(data).toEqual(rows.map(shown).reverse());
      const exported: unknown[] = [];
      for await (const page of exportRows(database, { fromMs: 0, toMs: NEWEST })) exported.push(...page);
      const lines = rows.flatMap((row) =>
        (row.attempts.length === 0 ? [undefined] : row.attempts).map((each, i) => ({
          cursor: BigInt(row.seq),
          tenant: row.tenant,
          status: BigInt(row.status),
          saved: row.saved,
          attempt_number: each === undefined ? null : BigInt(i),
          attempt_model: each?.model ?? null,
          attempt_status: each === undefined ? null : BigInt(each.status),
          attempt_output: each?.counts === undefined ? null : BigInt(each.counts.output),
          attempt_cost: each?.cost ?? null,
          attempt_is_estimated: each === undefined ? null : BigInt(each.counts?.isEstimated === true),
        })),
      );
      expect(exported).toMatchObject(lines);
      expect(exported).toHaveLength(lines.length);
      const of = (tenant: string) => rows.filter((row) => row.tenant === tenant).length;
      expect((await requestPage(database, { tenant: "a" }, NEWEST, 100)).data).toHaveLength(of("a"));
    }),
    { numRuns: 100 },
  );
});

const usual = (seq: number): RequestRow => ({
  ...(fc.sample(request, { numRuns: 1, seed: 1 })[0] as Omit<RequestRow, "seq">),
  seq,
  id: `r${seq}`,
  saved: 0n,
  savedBy: "",
  attempts: [{ ...fc.sample(attempt, { numRuns: 1, seed: 1 })[0]!, counts: undefined, outcome: "answered" }],
});

test("requests of one kind share their words, which go with the last row of a hundred thousand", async () => {
  const { commits, count, store, database } = open();
  for (const seq of [99_997, 99_998, 100_000, 100_001, 99_999]) store.close(usual(seq));
  commits.flush();
  // The request that ended after the border has a row of all columns.
  expect([count("ledger_words"), count("ledger_attempts"), count("ledger_requests")]).toEqual([2, 1, 5]);
  expect(store.prune(NEWEST, 3, 2)).toBe(true);
  expect([count("ledger_words"), count("ledger_requests")]).toEqual([2, 3]);
  expect(store.prune(NEWEST, 2, 1)).toBe(true);
  expect([count("ledger_words"), count("ledger_requests")]).toEqual([1, 2]);
  const { data } = await requestPage(database, {}, NEWEST, 10);
  expect(data).toEqual([usual(100_001), usual(100_000)].map(shown));
});

test("words that an undone transaction wrote are written again", async () => {
  const { database, commits, store } = open();
  database.exec("ALTER TABLE ledger_hours RENAME TO elsewhere");
  store.close(usual(1));
  commits.flush();
  await Promise.resolve();
  database.exec("ALTER TABLE elsewhere RENAME TO ledger_hours");
  store.close(usual(2));
  store.flush();
  const { data } = await requestPage(database, {}, NEWEST, 10);
  expect(data).toEqual([usual(2), usual(1)].map(shown));
});
