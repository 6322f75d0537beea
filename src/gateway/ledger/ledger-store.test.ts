import fc from "fast-check";
import { pino } from "pino";
import { expect, test } from "vitest";
import { openDatabase } from "../store/database.js";
import { GroupCommit } from "../store/group-commit.js";
import { requestPage, spend } from "./ledger-queries.js";
import type { AttemptRow, RequestRow } from "./ledger-rows.js";
import { DAY_MS, LedgerStore } from "./ledger-store.js";
import { SUMS } from "./ledger-tables.js";

const logger = pino({ level: "silent" });

function open() {
  const database = openDatabase(undefined);
  const commits = new GroupCommit(database);
  return { database, commits, store: new LedgerStore(database, commits, logger) };
}

const name = (prefix: string) => fc.constantFrom(`${prefix}1`, `${prefix}2`);
const tokens = fc.nat(1000);
const counts = fc.record({ fresh: tokens, cacheRead: tokens, cacheWrite: tokens, output: tokens, reasoning: tokens });
const attempt: fc.Arbitrary<AttemptRow> = fc.record({
  instance: name("i"),
  engine: name("e"),
  model: name("m"),
  startMs: tokens,
  firstByteMs: tokens,
  totalMs: tokens,
  status: fc.constantFrom(0, 200, 503),
  outcome: name("o"),
  price: name("p"),
  counts: fc.option(counts, { nil: undefined }),
  cost: fc.option(fc.bigInt(0n, 10n ** 15n), { nil: undefined }),
});
const row = fc.record({
  id: name("r"),
  beganMs: fc.nat(20 * DAY_MS),
  tenant: name("t"),
  team: name("g"),
  key: name("k"),
  asked: name("m"),
  served: fc.constantFrom("", "m1"),
  isStream: fc.boolean(),
  status: fc.constantFrom(200, 429, 499),
  saved: fc.bigInt(0n, 10n ** 12n),
  savedBy: fc.constantFrom("", "cache"),
  attempts: fc.array(attempt, { maxLength: 3 }),
});

const REST = {
  path: "/v1/completions",
  outcome: "answered",
  error: "",
  firstByteMs: undefined,
  totalMs: 1,
  notes: "",
  maxTokens: 9,
  numAnswers: 1,
  endUser: "",
};

test("sums are exact, whatever is deleted and rolled up", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(row, { maxLength: 40 }), fc.nat(20 * DAY_MS), fc.nat(20), async (given, cut, maxRows) => {
      const { database, commits, store } = open();
      const rows = given.toSorted((a, b) => a.beganMs - b.beganMs);
      for (const [seq, each] of rows.entries()) {
        const whole = { ...REST, ...each, seq: seq + 1 } as RequestRow;
        store.open(whole);
        if (seq % 3 === 0) commits.flush();
        store.close(whole);
        if (seq % 2 === 0) commits.flush();
      }
      commits.flush();
      const by = ["tenant", "team", "key", "model", "engine", "status", "day"] as const;
      const before = await spend(database, {}, by);
      while (store.prune(cut, maxRows, 3));
      while (store.rollUp(cut, 2));
      expect(await spend(database, {}, by)).toEqual(before);
      const kept = (await requestPage(database, {}, Number.MAX_SAFE_INTEGER, 100)).data;
      expect(kept.length).toBeLessThanOrEqual(maxRows);
      expect(kept.length).toBe(Math.min(maxRows, rows.filter(({ beganMs }) => beganMs >= cut).length));
      const orphans = "SELECT count(*) AS n FROM ledger_attempts WHERE seq NOT IN (SELECT seq FROM ledger_requests)";
      expect(database.prepare(orphans).get()).toMatchObject({ n: 0 });
      const hours = "SELECT count(*) AS n FROM ledger_hours WHERE hour < ? AND hour % ? <> 0";
      expect(database.prepare(hours).get(cut - (cut % DAY_MS), DAY_MS)).toMatchObject({ n: 0 });
      // The sums are those of the rows, computed in another way.
      const sumOf = (pick: (each: AttemptRow) => number | bigint): bigint =>
        rows.reduce((sum, { attempts }) => sum + attempts.reduce((part, each) => part + BigInt(pick(each)), 0n), 0n);
      const [all] = await spend(database, {}, []);
      expect(all).toMatchObject({
        requests: rows.length,
        attempts: Number(sumOf(() => 1)),
        output: Number(sumOf((each) => each.counts?.output ?? 0)),
        unpriced: Number(sumOf((each) => Number(each.counts !== undefined && each.cost === undefined))),
        hits: rows.filter(({ savedBy }) => savedBy !== "").length,
      });
      const nano = (text: unknown): bigint => BigInt(String(text).replace(".", ""));
      expect(nano(all!.cost)).toBe(sumOf((each) => each.cost ?? 0n));
      expect(nano(all!.saved)).toBe(rows.reduce((sum, { saved }) => sum + saved, 0n));
    }),
    { numRuns: 60 },
  );
});

const plain = (seq: number, change: Partial<RequestRow> = {}): RequestRow =>
  ({
    ...REST,
    seq,
    id: `r${seq}`,
    beganMs: seq * 1000,
    tenant: "t",
    team: "",
    key: "",
    asked: "m",
    served: "m",
    isStream: false,
    status: 200,
    saved: 0n,
    savedBy: "",
    attempts: [],
    ...change,
  }) as RequestRow;

test("a request that was open at a kill is lost, with what the budgets charged, and positions go on behind it", async () => {
  const { database, commits, store } = open();
  store.open(plain(1));
  store.open(plain(2));
  commits.flush();
  store.close(plain(1));
  commits.flush();
  const next = new LedgerStore(database, commits, logger);
  expect(next.nextSeq()).toBe(3);
  expect(next.recover(10_000, (id) => (id === "r2" ? 7n : undefined))).toBe(1);
  expect(next.recover(10_000)).toBe(0);
  const [lost] = (await requestPage(database, { outcome: "lost" }, 100, 10)).data;
  expect(lost).toMatchObject({ id: "r2", status: 0, total_ms: 8000, cost: "0.000000007" });
  expect(await spend(database, {}, ["status"])).toMatchObject([
    { status: 0, requests: 1, cost: "0.000000007" },
    { status: 200 },
  ]);
});

test("a database of an earlier version gets the column of end users, and keeps its rows", async () => {
  const { database, commits, store } = open();
  store.close(plain(1));
  commits.flush();
  database.exec("ALTER TABLE ledger_requests DROP COLUMN end_user");
  new LedgerStore(database, commits, logger).close(plain(2, { endUser: "ann" }));
  commits.flush();
  const { data } = await requestPage(database, {}, 100, 10);
  expect(data.map(({ end_user: user }) => user)).toEqual(["ann", ""]);
});

test("requests that begin together share a note; the rows of those that have ended may be deleted before the last ends", async () => {
  const { database, commits, store } = open();
  const notes = () => database.prepare("SELECT last_seq FROM ledger_notes").all();
  for (const seq of [1, 2, 3]) store.open(plain(seq));
  commits.flush();
  expect(notes()).toEqual([{ last_seq: 3 }]);
  for (const seq of [1, 2]) store.close(plain(seq));
  commits.flush();
  await new Promise((resolve) => setImmediate(resolve));
  expect(store.prune(Number.MAX_SAFE_INTEGER, 0, 10)).toBe(true);
  const killed = new LedgerStore(database, commits, logger);
  expect(killed.recover(10_000)).toBe(1);
  expect((await requestPage(database, {}, 100, 10)).data).toMatchObject([{ id: "r3", outcome: "lost" }]);
  expect(notes()).toEqual([]);
});

test("an end whose transaction fails deletes the note when its row is written", async () => {
  const { database, commits, store } = open();
  store.open(plain(1));
  commits.flush();
  database.exec("ALTER TABLE ledger_hours RENAME TO elsewhere");
  store.close(plain(1));
  commits.flush();
  await new Promise((resolve) => setImmediate(resolve));
  const numNotes = () => (database.prepare("SELECT count(*) AS n FROM ledger_notes").get([]) as { n: number }).n;
  expect(numNotes()).toBe(1);
  database.exec("ALTER TABLE elsewhere RENAME TO ledger_hours");
  store.flush();
  expect(numNotes()).toBe(0);
});

test("a kill between two ends of one note loses none of them, where the first could not be written", async () => {
  const { database, commits, store } = open();
  store.open(plain(1));
  store.open(plain(2));
  commits.flush();
  database.exec("ALTER TABLE ledger_hours RENAME TO elsewhere");
  store.close(plain(1));
  commits.flush();
  await new Promise((resolve) => setImmediate(resolve));
  database.exec("ALTER TABLE elsewhere RENAME TO ledger_hours");
  store.close(plain(2));
  commits.flush();
  await new Promise((resolve) => setImmediate(resolve));
  const next = new LedgerStore(database, commits, logger);
  expect(next.recover(10_000)).toBe(1);
  const outcomes = (await requestPage(database, {}, 100, 10)).data.map(({ id, outcome }) => [id, outcome]);
  expect(outcomes.sort()).toEqual([
    ["r1", "lost"],
    ["r2", plain(2).outcome],
  ]);
});

test("requests that an earlier version left open are lost", async () => {
  const { database, commits } = open();
  database.exec(`CREATE TABLE ledger_open (seq INTEGER PRIMARY KEY, id TEXT, began_ms INTEGER, tenant TEXT, team TEXT,
    key TEXT, path TEXT, asked TEXT, is_stream INTEGER);
    INSERT INTO ledger_open VALUES (7, 'r7', 7000, 't', '', '', '/v1/completions', 'm', 1)`);
  const store = new LedgerStore(database, commits, logger);
  expect(store.nextSeq()).toBe(8);
  expect(store.recover(10_000)).toBe(1);
  const [lost] = (await requestPage(database, {}, 100, 10)).data;
  expect(lost).toMatchObject({ id: "r7", outcome: "lost", total_ms: 3000 });
  expect(new LedgerStore(database, commits, logger).recover(10_000)).toBe(0);
});

test("an earlier version goes on with the database of a later one, which has further columns", async () => {
  const { database, commits } = open();
  for (const table of ["ledger_requests", "ledger_attempts", "ledger_hours"]) {
    database.exec(`ALTER TABLE ${table} ADD COLUMN later INTEGER NOT NULL DEFAULT 0`);
  }
  const store = new LedgerStore(database, commits, logger);
  store.close(plain(1));
  commits.flush();
  expect(store.rollUp(Number.MAX_SAFE_INTEGER, 2)).toBeTypeOf("boolean");
  expect(await spend(database, {}, [])).toMatchObject([{ requests: 1 }]);
});

test("rows that the database refuses are kept and written later", async () => {
  const { database, commits, store } = open();
  database.exec("ALTER TABLE ledger_hours RENAME TO elsewhere");
  store.close(plain(1));
  store.close(plain(2));
  commits.flush();
  await Promise.resolve();
  database.exec("ALTER TABLE elsewhere RENAME TO ledger_hours");
  store.flush();
  expect((await requestPage(database, {}, 100, 10)).data.map(({ id }) => id)).toEqual(["r2", "r1"]);
  expect(await spend(database, {}, [])).toMatchObject([{ requests: 2 }]);
});

test("a page that looks at enough requests ends, and leads to the next", async () => {
  const { database, commits, store } = open();
  for (let seq = 1; seq <= 20_050; seq++) store.close(plain(seq, { tenant: seq < 3 ? "rare" : "t" }));
  commits.flush();
  const first = await requestPage(database, { tenant: "rare" }, Number.MAX_SAFE_INTEGER, 10);
  expect(first).toEqual({ data: [], next: 51 });
  const second = await requestPage(database, { tenant: "rare" }, first.next!, 10);
  expect([second.data.map(({ id }) => id), second.next]).toEqual([["r2", "r1"], null]);
  expect(await requestPage(database, { fromMs: 20_049_000 }, Number.MAX_SAFE_INTEGER, 10)).toMatchObject({
    next: null,
  });
});

test("sums cover every column", async () => {
  const { database } = open();
  expect(Object.keys((await spend(database, {}, []))[0]!)).toEqual([...SUMS]);
});

test("a row that is in the database already, though its transaction seemed to fail, counts once", async () => {
  const { database, commits, store } = open();
  const { run } = commits;
  commits.run = (write, options) =>
    run.call(commits, write, options).then(() => Promise.reject(new Error("disk"))) as never;
  store.close(plain(1));
  commits.flush();
  await new Promise((resolve) => setImmediate(resolve));
  commits.run = run;
  store.close(plain(2));
  store.flush();
  expect((await requestPage(database, {}, 100, 10)).data.map(({ id }) => id)).toEqual(["r2", "r1"]);
  expect(await spend(database, {}, [])).toMatchObject([{ requests: 2 }]);
});

test("after the disk was full, what shared the ledger's turn is written once or not at all", async () => {
  const { database, commits, store } = open();
  database.exec(`CREATE TABLE other (a INTEGER);
    CREATE TRIGGER full BEFORE INSERT ON ledger_hours BEGIN SELECT RAISE(ROLLBACK, 'disk full'); END`);
  store.close(plain(1));
  const other = commits.run(() => database.exec("INSERT INTO other VALUES (1)"));
  await expect(other).rejects.toThrow("disk full");
  expect(
    database.prepare("SELECT (SELECT count(*) FROM other) + (SELECT count(*) FROM ledger_requests) AS n").get(),
  ).toMatchObject({ n: 0 });
  database.exec("DROP TRIGGER full");
  store.flush();
  expect(await spend(database, {}, [])).toMatchObject([{ requests: 1 }]);
});
