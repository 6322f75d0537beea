import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test, vi } from "vitest";
import { budgetOf, budgetStoreConformance, limitsOf } from "../../../test/helpers/budget-store-conformance.js";
import { openDatabase } from "../store/database.js";
import { groupCommitOf } from "../store/group-commit.js";
import { claimsOf } from "./claims.js";
import { EmbeddedStore } from "./embedded-store.js";
import { type SettlementEvents, Settlements } from "./settlements.js";
import { NO_AMOUNTS, UNITS } from "./store.js";

const NO_EVENTS: SettlementEvents = { recovered() {}, failed() {}, lost() {}, leftReserved() {} };
const THIRTY = { money: 30, tokens: 0 };

function makeBench() {
  const folder = mkdtempSync(join(tmpdir(), "millrace-budget-"));
  const open = (now = () => Date.now()) => {
    const database = openDatabase(folder);
    return { database, store: new EmbeddedStore({ database, commits: groupCommitOf(database), now }) };
  };
  return { folder, open, [Symbol.asyncDispose]: async () => rmSync(folder, { recursive: true }) };
}

describe("conformance", () => {
  budgetStoreConformance(async () => {
    const bench = makeBench();
    return { ...bench, open: async (now) => bench.open(now).store };
  }, false);
});

test("a store that is killed keeps money and reservations; one that is tended or closed, buckets too", async () => {
  await using bench = makeBench();
  const now = () => 1_800_000_000_000;
  const before = bench.open(now);
  const claims = claimsOf([budgetOf("a", 100), limitsOf("a", { requestsPerMinute: 3, tokensPerMinute: 50 })]);
  const reservation = { claims, want: THIRTY, least: THIRTY, tokens: 20 };
  await before.store.reserve({ ...reservation, id: "1" });
  await before.store.settle("1", 12, 7);
  await before.store.reserve({ ...reservation, id: "2" });
  const levels = await before.store.read(claims);
  const killed = await bench.open(now).store.read(claims);
  expect(killed).toEqual({ ...levels, requests: [0], tokens: [0] });
  const tended = bench.open(now);
  await tended.store.charge(claims, 0, 5);
  await tended.store.tend();
  expect((await bench.open(now).store.read(claims)).tokens).toEqual([5 * UNITS]);
  const closed = bench.open(now);
  await closed.store.charge(claims, 0, 5);
  await closed.store.close();
  expect((await bench.open(now).store.read(claims)).tokens).toEqual([10 * UNITS]);
});

test.each(["made", "none"] as const)("a charge whose reservation is %s is in its turn's transaction", async (state) => {
  await using bench = makeBench();
  const { database, store } = bench.open();
  const claims = claimsOf([budgetOf("a", 100)]);
  if (state === "made") await store.reserve({ claims, want: THIRTY, least: THIRTY, tokens: 0, id: "1" });
  const settlements = new Settlements(store, NO_EVENTS, () => performance.now());
  await settlements.tend();
  settlements.settle("1", claims, 12, 0, state);
  // kill -9 after this one transaction leaves both the ledger's row and the charge.
  groupCommitOf(database).flush();
  expect(database.prepare("SELECT used FROM budget_meters").all()).toEqual([{ used: 12 }]);
  await settlements.close();
});

test("requests and tokens per minute are not written with each request, nor lost when a write fails", async () => {
  await using bench = makeBench();
  const { database, store } = bench.open(() => 1_800_000_000_000);
  const claims = claimsOf([limitsOf("a", { requestsPerMinute: 3, tokensPerMinute: 50 })]);
  await store.reserve({ claims, want: NO_AMOUNTS, least: NO_AMOUNTS, tokens: 20, id: "1" });
  expect(database.prepare("SELECT count(*) AS n FROM budget_meters").get()).toMatchObject({ n: 0 });
  database.exec("CREATE TRIGGER full BEFORE DELETE ON budget_reservations BEGIN SELECT RAISE(ABORT, 'disk full'); END");
  await expect(store.settle("1", 0, 20)).rejects.toMatchObject({ code: "budget_store_failed" });
  expect(await store.read(claims)).toMatchObject({ requests: [UNITS], tokens: [20 * UNITS] });
});

test("a settlement is committed with what comes next, or soon", async () => {
  await using bench = makeBench();
  const { database, store } = bench.open();
  const claims = claimsOf([budgetOf("a", 100)]);
  vi.useFakeTimers({ toFake: ["setTimeout"] });
  try {
    await store.reserve({ claims, want: THIRTY, least: THIRTY, tokens: 0, id: "1" });
    const settled = store.settle("1", 12, 0);
    await new Promise((resolve) => setImmediate(resolve));
    const used = database.prepare("SELECT sum(used) AS used FROM budget_meters");
    expect(used.get()).toMatchObject({ used: null });
    expect((await store.read(claims)).budgets).toMatchObject([{ used: 12, held: 0 }]);
    expect(used.get()).toMatchObject({ used: 12 });
    expect(await settled).toBe(true);
    await store.reserve({ claims, want: THIRTY, least: THIRTY, tokens: 0, id: "2" });
    const later = store.settle("2", 1, 0);
    await new Promise((resolve) => setImmediate(resolve));
    vi.runAllTimers();
    expect(await later).toBe(true);
    expect(used.get()).toMatchObject({ used: 13 });
  } finally {
    vi.useRealTimers();
  }
});

test("a write that fails changes nothing, and the next one works", async () => {
  await using bench = makeBench();
  const { database, store } = bench.open();
  const claims = claimsOf([budgetOf("a", 100), limitsOf("a", { concurrentRequests: 1 })]);
  const reserve = (id: string) => store.reserve({ id, claims, want: THIRTY, least: THIRTY, tokens: 0 });
  await store.charge(claims, 5, 0);
  database.exec("CREATE TRIGGER full BEFORE INSERT ON budget_reservations BEGIN SELECT RAISE(ABORT, 'disk full'); END");
  await expect(reserve("1")).rejects.toMatchObject({ code: "budget_store_failed" });
  database.exec("DROP TRIGGER full");
  expect((await store.read(claims)).budgets).toMatchObject([{ used: 5, held: 0 }]);
  expect(await reserve("2")).toMatchObject({ kind: "reserved" });
});

test("reservations of one turn share a row, and each outlasts a kill until it is settled", async () => {
  await using bench = makeBench();
  const { database, store } = bench.open();
  const claims = claimsOf([budgetOf("a", 1000)]);
  const reserve = (id: string, money: number) => {
    const amounts = { money, tokens: 0 };
    return store.reserve({ id, claims, want: amounts, least: amounts, tokens: 0 });
  };
  await Promise.all([reserve("1", 10), reserve("2", 20), reserve("3", 40)]);
  const numRows = () => database.prepare("SELECT count(*) AS n FROM budget_reservations").get();
  expect(numRows()).toMatchObject({ n: 1 });
  await store.settle("2", 5, 0);
  expect(await store.resize("3", "money", 50, 50)).toMatchObject({ money: 50 });
  await reserve("4", 80);
  expect(numRows()).toMatchObject({ n: 2 });
  const killed = bench.open();
  expect((await killed.store.read(claims)).budgets).toMatchObject([{ used: 5, held: 140 }]);
  const recovered = await killed.store.tend();
  expect(recovered.map(({ id, money }) => [id, money]).sort()).toEqual([
    ["1", 10],
    ["3", 50],
    ["4", 80],
  ]);
  expect(numRows()).toMatchObject({ n: 0 });
  expect((await killed.store.read(claims)).budgets).toMatchObject([{ used: 145, held: 0 }]);
});

test("a reservation that an earlier version wrote becomes a charge", async () => {
  await using bench = makeBench();
  const { database } = bench.open();
  const held = {
    id: "1",
    owner: "o",
    money: 30,
    tokens: 0,
    moneyKeys: [["key/a/day", 100]],
    tokenKeys: [],
    placeKeys: [],
  };
  database.prepare("INSERT INTO budget_reservations VALUES (?, ?)").run(["1", JSON.stringify(held)]);
  const { store } = bench.open();
  expect(await store.tend()).toEqual([{ id: "1", money: 30, tokens: 0 }]);
  expect(database.prepare("SELECT count(*) AS n FROM budget_reservations").get()).toMatchObject({ n: 0 });
});

test("meters of long ago are gone after a start, and newer ones are not", async () => {
  await using bench = makeBench();
  let nowMs = 1_800_000_000_000;
  const claims = claimsOf([budgetOf("a", 100)]);
  const charged = async (money: number) => {
    const { store, database } = bench.open(() => nowMs);
    await store.charge(claims, money, 0);
    return database.prepare("SELECT count(*) AS n FROM budget_meters").get() as { n: number };
  };
  await charged(5);
  const other = bench.open(() => nowMs);
  await other.store.charge(claimsOf([budgetOf("b", 100)]), 5, 0);
  nowMs += 40 * 24 * 3_600_000;
  expect(await charged(5)).toMatchObject({ n: 2 });
  nowMs += 40 * 24 * 3_600_000;
  expect(await charged(5)).toMatchObject({ n: 1 });
});
