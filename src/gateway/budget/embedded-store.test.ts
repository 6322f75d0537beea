import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { budgetOf, budgetStoreConformance, limitsOf } from "../../../test/helpers/budget-store-conformance.js";
import { openDatabase } from "../store/database.js";
import { GroupCommit } from "../store/group-commit.js";
import { claimsOf } from "./claims.js";
import { EmbeddedStore } from "./embedded-store.js";

function makeBench() {
  const folder = mkdtempSync(join(tmpdir(), "millrace-budget-"));
  const open = (now = () => Date.now()) => {
    const database = openDatabase(folder);
    return { database, store: new EmbeddedStore({ database, commits: new GroupCommit(database), now }) };
  };
  return { folder, open, [Symbol.asyncDispose]: async () => rmSync(folder, { recursive: true }) };
}

describe("conformance", () => {
  budgetStoreConformance(async () => {
    const bench = makeBench();
    return { ...bench, open: async (now) => bench.open(now).store };
  }, false);
});

test("a store that is opened again has all meters, buckets included", async () => {
  await using bench = makeBench();
  const now = () => 1_800_000_000_000;
  const before = bench.open(now);
  const claims = claimsOf([budgetOf("a", 100), limitsOf("a", { requestsPerMinute: 3, tokensPerMinute: 50 })]);
  const reservation = { claims, wantMoney: 30, leastMoney: 30, tokens: 20 };
  await before.store.reserve({ ...reservation, id: "1" });
  await before.store.settle("1", 12, 7);
  await before.store.reserve({ ...reservation, id: "2" });
  const levels = await before.store.read(claims);
  expect(await bench.open(now).store.read(claims)).toEqual(levels);
});

test("a write that fails changes nothing, and the next one works", async () => {
  await using bench = makeBench();
  const { database, store } = bench.open();
  const claims = claimsOf([budgetOf("a", 100), limitsOf("a", { concurrentRequests: 1 })]);
  const reserve = (id: string) => store.reserve({ id, claims, wantMoney: 60, leastMoney: 60, tokens: 0 });
  await store.charge(claims, 5, 0);
  database.exec("CREATE TRIGGER full BEFORE INSERT ON budget_reservations BEGIN SELECT RAISE(ABORT, 'disk full'); END");
  await expect(reserve("1")).rejects.toMatchObject({ code: "budget_store_failed" });
  database.exec("DROP TRIGGER full");
  expect((await store.read(claims)).money).toMatchObject([{ used: 5, held: 0 }]);
  expect(await reserve("2")).toMatchObject({ kind: "reserved" });
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
