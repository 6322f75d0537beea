/**
 * What every store of limits must do, whatever keeps its numbers.
 *
 * size: one list of demands, which three stores run
 */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Claims, claimsOf, type LimitedScope, MAX_AMOUNT } from "../../src/gateway/budget/claims.js";
import { LASTING } from "../../src/gateway/budget/reservation-id.js";
import type { BudgetStore, ReserveResult } from "../../src/gateway/budget/store.js";
import { budget, HOUR, NOON, randomTurns, type StoreBench } from "./budget-store-turns.js";
import type { DatabaseServer } from "./database-servers.js";

const MINUTE = 60_000;

export const budgetOf = (id: string, hard: number, kind: LimitedScope["kind"] = "key"): LimitedScope => ({
  kind,
  id,
  limits: { budgets: [{ unit: "money", window: "day", hard: BigInt(hard) }] },
});
export const limitsOf = (id: string, limits: Partial<LimitedScope["limits"]>): LimitedScope => ({
  kind: "key",
  id,
  limits: { budgets: [], ...limits },
});

/** @param isShared several gateways use one store at a time; else the newest takes over */
export function budgetStoreConformance(makeBench: () => Promise<StoreBench>, isShared: boolean): void {
  let bench: StoreBench;
  let store: BudgetStore;
  let nowMs = NOON;
  const opened: BudgetStore[] = [];
  const open = async (now = () => nowMs) => {
    const another = await bench.open(now);
    opened.push(another);
    return another;
  };
  const reserve = (id: string, claims: Claims, money: number, least = money, tokens = 0, from = store) =>
    from.reserve({ id, claims, want: { money, tokens: 0 }, least: { money: least, tokens: 0 }, tokens });
  const spentOf = async (claims: Claims, from = store) =>
    (await from.read(claims)).budgets.map(({ used, held }) => [used, held]);

  beforeEach(async () => {
    nowMs = NOON;
    bench = await makeBench();
    store = await open();
  });
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((each) => each.close()));
    await bench[Symbol.asyncDispose]();
  });

  test("what is reserved and not used comes back, what is used stays", async () => {
    const claims = claimsOf([budgetOf("a", 100)]);
    expect(await reserve("1", claims, 60)).toMatchObject({ kind: "reserved", amounts: { money: 60 } });
    expect(await spentOf(claims)).toEqual([[0, 60]]);
    expect(await store.settle("1", 25, 0)).toBe(true);
    expect(await spentOf(claims)).toEqual([[25, 0]]);
    expect(await store.settle("1", 25, 0)).toBe(false);
    expect(await spentOf(claims)).toEqual([[25, 0]]);
    expect(await store.numOpen()).toBe(0);
  });

  test("all scopes of a request are reserved, or none", async () => {
    const both = claimsOf([budgetOf("acme", 1000, "org"), budgetOf("a", 100)]);
    const places = limitsOf("a", { concurrentRequests: 1, requestsPerMinute: 5, tokensPerMinute: 100 });
    const all = claimsOf([budgetOf("acme", 1000, "org"), places]);
    expect(await reserve("1", both, 80)).toMatchObject({ kind: "reserved" });
    expect(await reserve("2", both, 80)).toMatchObject({ kind: "refused", limit: "budget", index: 1 });
    expect(await spentOf(both)).toEqual([
      [0, 80],
      [0, 80],
    ]);
    await reserve("3", all, 5, 5, 10);
    expect(await reserve("4", all, 5, 5, 10)).toMatchObject({ kind: "refused", limit: "concurrent", index: 0 });
    expect((await store.read(all)).requests).toEqual([MINUTE]);
    expect((await store.read(all)).tokens).toEqual([10 * MINUTE]);
    expect(await spentOf(all)).toEqual([[0, 85]]);
  });

  test("as much is reserved as all budgets have, but not less than the least", async () => {
    const claims = claimsOf([budgetOf("acme", 100, "org"), budgetOf("a", 70)]);
    expect(await reserve("1", claims, 200, 50)).toMatchObject({ kind: "reserved", amounts: { money: 70 } });
    expect(await reserve("2", claims, 200, 1)).toMatchObject({ kind: "refused", limit: "budget", index: 1 });
    expect(await store.settle("1", 20, 0)).toBe(true);
    expect(await reserve("3", claims, 200, 51)).toMatchObject({ kind: "refused", index: 1 });
    expect(await reserve("3", claims, 200, 50)).toMatchObject({ kind: "reserved", amounts: { money: 50 } });
  });

  test("a reservation is made once, however often it is asked for", async () => {
    const claims = claimsOf([budgetOf("a", 100), limitsOf("a", { concurrentRequests: 1 })]);
    const results = await Promise.all([reserve("1", claims, 60), reserve("1", claims, 60), reserve("1", claims, 60)]);
    expect(results.map(({ kind }) => kind)).toEqual(["reserved", "reserved", "reserved"]);
    expect(await spentOf(claims)).toEqual([[0, 60]]);
    expect(await store.numOpen()).toBe(1);
  });

  test("a reservation grows while there is money, and shrinks", async () => {
    const claims = claimsOf([budgetOf("a", 100)]);
    await reserve("1", claims, 40);
    expect(await store.resize("1", "money", 70, 50)).toEqual({ kind: "resized", money: 70 });
    expect(await store.resize("1", "money", 150, 80)).toEqual({ kind: "resized", money: 100 });
    expect(await store.resize("1", "money", 150, 101)).toEqual({ kind: "refused", isHeld: false });
    expect(await store.resize("1", "money", 30, 30)).toEqual({ kind: "resized", money: 30 });
    await reserve("2", claims, 70);
    expect(await store.resize("1", "money", 60, 31)).toEqual({ kind: "refused", isHeld: true });
    expect(await spentOf(claims)).toEqual([[0, 100]]);
    expect(await store.resize("none", "money", 1, 1)).toEqual({ kind: "gone" });
  });

  test("a new window begins with nothing spent and what is reserved, and never an old one", async () => {
    const claims = claimsOf([
      { kind: "key", id: "a", limits: { budgets: ["hour", "day", "month"].map((window) => budget(window)) } },
    ]);
    await reserve("1", claims, 30);
    await reserve("2", claims, 40);
    await store.settle("1", 30, 0);
    nowMs += HOUR;
    expect(await spentOf(claims)).toEqual([
      [0, 40],
      [30, 40],
      [30, 40],
    ]);
    await store.settle("2", 40, 0);
    nowMs -= 2 * HOUR;
    expect(await spentOf(claims)).toEqual([
      [40, 0],
      [70, 0],
      [70, 0],
    ]);
    nowMs = Date.UTC(2026, 11, 1);
    const levels = await store.read(claims);
    expect(levels.budgets.map(({ startMs }) => startMs)).toEqual([nowMs, nowMs, nowMs]);
    expect(levels.budgets.map(({ used }) => used)).toEqual([0, 0, 0]);
  });

  test("a budget of tokens holds as one of money does, each for itself", async () => {
    const claims = claimsOf([
      { kind: "team", id: "t", limits: { budgets: [budget("day"), budget("day", 50, "tokens")] } },
      { kind: "key", id: "a", limits: { budgets: [budget("hour", 45, "tokens")] } },
    ]);
    const ask = (id: string, money: number, tokens: number, more = 0) => {
      const want = { money, tokens: tokens + more };
      return store.reserve({ id, claims, want, least: { money, tokens }, tokens: 0 });
    };
    expect(await ask("1", 60, 30, 30)).toMatchObject({ kind: "reserved", amounts: { money: 60, tokens: 45 } });
    expect(await ask("2", 10, 1)).toMatchObject({ kind: "refused", limit: "budget", index: 2, retryAfterMs: HOUR });
    expect(await ask("2", 41, 0)).toMatchObject({ kind: "refused", limit: "budget", index: 0 });
    expect(await store.resize("1", "tokens", 20, 20)).toEqual({ kind: "resized", money: 20 });
    expect(await store.resize("1", "tokens", 90, 46)).toEqual({ kind: "refused", isHeld: false });
    expect(await spentOf(claims)).toEqual([
      [0, 60],
      [0, 20],
      [0, 20],
    ]);
    await store.settle("1", 25, 30);
    await store.charge(claims, 1, 2);
    expect(await spentOf(claims)).toEqual([
      [26, 0],
      [32, 0],
      [32, 0],
    ]);
    await ask("3", 5, 13);
    const heir = await open();
    if (isShared) nowMs += 31_000;
    expect(await heir.tend()).toEqual([{ id: "3", money: 5, tokens: 0 }]);
    expect(await spentOf(claims, heir)).toEqual([
      [31, 0],
      [45, 0],
      [45, 0],
    ]);
  });

  test("a total counts for ever, whatever has begun since, and nobody waits for its end", async () => {
    const claims = claimsOf([
      { kind: "key", id: "a", limits: { budgets: [budget("total"), budget("total", 50, "tokens")] } },
    ]);
    await store.charge(claims, 60, 20);
    nowMs += 400 * 24 * HOUR;
    const later = await open();
    expect(await reserve("1", claims, 41, 41, 0, later)).toMatchObject({ limit: "budget", index: 0, retryAfterMs: 0 });
    expect(await reserve("2", claims, 40, 40, 0, later)).toMatchObject({ kind: "reserved" });
    await later.settle("2", 40, 30);
    expect(await later.read(claims)).toMatchObject({
      budgets: [
        { used: 100, held: 0, startMs: 0 },
        { used: 50, held: 0, startMs: 0 },
      ],
    });
  });

  test("windows are the calendar's for a century", async () => {
    const claims = claimsOf([
      { kind: "key", id: "a", limits: { budgets: ["hour", "day", "month"].map((window) => budget(window)) } },
    ]);
    let last = 0;
    for (let i = 0; i < 150; i++) {
      nowMs = Date.UTC(2024, i * 8, (i * 7) % 31, i % 24, 17, 5);
      if (nowMs < last) continue;
      last = nowMs;
      const { budgets } = await store.read(claims);
      const at = new Date(nowMs);
      const [year, month, day] = [at.getUTCFullYear(), at.getUTCMonth(), at.getUTCDate()];
      const starts = [Date.UTC(year, month, day, at.getUTCHours()), Date.UTC(year, month, day), Date.UTC(year, month)];
      expect(budgets.map(({ startMs }) => startMs)).toEqual(starts);
      const full = await reserve(`${i}`, claims, 101);
      expect(full).toMatchObject({ retryAfterMs: Date.UTC(year, month, day, at.getUTCHours() + 1) - nowMs });
    }
  });

  test("a budget of a month tells when the next month begins", async () => {
    const claims = claimsOf([{ kind: "key", id: "a", limits: { budgets: [budget("month")] } }]);
    for (let month = 0; month < 30; month++) {
      nowMs = Date.UTC(2027, month, 15);
      const refused = await reserve(`${month}`, claims, 101);
      expect(refused).toMatchObject({ retryAfterMs: Date.UTC(2027, month + 1, 1) - nowMs });
    }
  });

  test("a bucket refills evenly, and tells when it has enough", async () => {
    const claims = claimsOf([limitsOf("a", { requestsPerMinute: 2 })]);
    const ask = async (id: string) => {
      const result = await reserve(id, claims, 0);
      return result.kind === "reserved" ? "reserved" : result.retryAfterMs;
    };
    expect([await ask("1"), await ask("2"), await ask("3")]).toEqual(["reserved", "reserved", 30_000]);
    nowMs += 29_999;
    expect(await ask("4")).toBe(1);
    nowMs += 1;
    expect([await ask("5"), await ask("6")]).toEqual(["reserved", 30_000]);
    nowMs -= HOUR;
    expect(await ask("7")).toBe(30_000);
    nowMs += HOUR + 10 * MINUTE;
    expect([await ask("8"), await ask("9"), await ask("10")]).toEqual(["reserved", "reserved", 30_000]);
    expect(await reserve("11", claimsOf([limitsOf("b", { requestsPerMinute: 0 })]), 0)).toMatchObject({
      kind: "refused",
    });
  });

  test("tokens are taken as estimated, and corrected when they are known", async () => {
    const claims = claimsOf([limitsOf("a", { tokensPerMinute: 100 })]);
    const ask = (id: string, tokens: number) => reserve(id, claims, 0, 0, tokens);
    await ask("1", 80);
    expect(await ask("2", 30)).toMatchObject({ kind: "refused", limit: "tokens", retryAfterMs: 6_000 });
    await store.settle("1", 0, 10);
    expect(await ask("3", 90)).toMatchObject({ kind: "reserved" });
    await store.settle("3", 0, 190);
    expect(await ask("4", 1)).toMatchObject({ kind: "refused", retryAfterMs: 60_600 });
    nowMs += 10 * MINUTE;
    // More than a minute's tokens at once: it waits for a full bucket.
    expect(await ask("5", 1000)).toMatchObject({ kind: "reserved" });
    expect(await ask("6", 1)).toMatchObject({ kind: "refused", retryAfterMs: 9 * MINUTE + 600 });
  });

  test("a place is free when its request ends", async () => {
    const claims = claimsOf([limitsOf("a", { concurrentRequests: 2 })]);
    await Promise.all([reserve("1", claims, 0), reserve("2", claims, 0)]);
    expect(await reserve("3", claims, 0)).toMatchObject({ kind: "refused", limit: "concurrent" });
    await store.settle("1", 0, 0);
    expect(await reserve("3", claims, 0)).toMatchObject({ kind: "reserved" });
  });

  test("a charge without a reservation counts, whatever the limits", async () => {
    const claims = claimsOf([budgetOf("a", 100), limitsOf("a", { tokensPerMinute: 100, requestsPerMinute: 1 })]);
    await store.charge(claims, 150, 50);
    await store.charge(claims, 1, 0);
    const { budgets, tokens, requests } = await store.read(claims);
    expect([budgets[0]!.used, tokens[0], requests[0]]).toEqual([151, 50 * MINUTE, 2 * MINUTE]);
    expect(await reserve("1", claims, 1)).toMatchObject({ kind: "refused", limit: "budget" });
  });

  test("large amounts are exact", async () => {
    const claims = claimsOf([budgetOf("a", MAX_AMOUNT)]);
    expect(await reserve("1", claims, MAX_AMOUNT - 1)).toMatchObject({ amounts: { money: MAX_AMOUNT - 1 } });
    expect(await reserve("2", claims, 2)).toMatchObject({ kind: "refused" });
    expect(await reserve("3", claims, 1)).toMatchObject({ amounts: { money: 1 } });
    await store.settle("1", MAX_AMOUNT - 2, 0);
    expect(await spentOf(claims)).toEqual([[MAX_AMOUNT - 2, 1]]);
    await store.charge(claims, MAX_AMOUNT, 0);
    expect(await spentOf(claims)).toEqual([[MAX_AMOUNT, 1]]);
  });

  test("ids and names may be anything", async () => {
    const id = `a/"\\'\u0007 é{}:*`;
    const claims = claimsOf([budgetOf(id, 100, "team")]);
    expect(await reserve(id, claims, 60)).toMatchObject({ kind: "reserved" });
    expect(await store.settle(id, 60, 0)).toBe(true);
    expect(await spentOf(claims)).toEqual([[60, 0]]);
  });

  test("a lasting reservation stays when its gateway is gone, until another settles it", async () => {
    const claims = claimsOf([budgetOf("a", 100)]);
    await reserve(`${LASTING}1`, claims, 60);
    const heir = await open();
    nowMs += 40_000;
    expect(await heir.tend()).toEqual([]);
    expect(await spentOf(claims, heir)).toEqual([[0, 60]]);
    expect(await reserve(`${LASTING}1`, claims, 60, 60, 0, heir)).toMatchObject({ kind: "reserved" });
    expect(await heir.resize(`${LASTING}1`, "money", 20, 0)).toEqual({ kind: "resized", money: 20 });
    expect(await heir.settle(`${LASTING}1`, 5, 0)).toBe(true);
    expect(await spentOf(claims, heir)).toEqual([[5, 0]]);
  });

  test("reservations of a gateway that died become charges, once", async () => {
    const claims = claimsOf([budgetOf("a", 100), limitsOf("a", { concurrentRequests: 1, tokensPerMinute: 60 })]);
    await reserve("1", claims, 60, 60, 20);
    const heir = await open();
    if (isShared) {
      nowMs += 29_000;
      expect(await heir.tend()).toEqual([]);
      await heir.read(claims);
      nowMs += 2_000;
    }
    expect(await heir.tend()).toEqual([{ id: "1", money: 60, tokens: 20 }]);
    expect(await heir.tend()).toEqual([]);
    expect(await spentOf(claims, heir)).toEqual([[60, 0]]);
    expect(await heir.numOpen()).toBe(0);
    expect(await reserve("2", claims, 40, 40, 0, heir)).toMatchObject({ kind: "reserved" });
    if (isShared) {
      // The gateway was only silent.
      expect(await store.resize("1", "money", 70, 70)).toEqual({ kind: "gone" });
      expect(await store.settle("1", 10, 10)).toBe(false);
      expect(await spentOf(claims)).toEqual([[60, 40]]);
    } else {
      const failed = { code: "budget_store_failed" };
      await expect(store.settle("1", 10, 10)).rejects.toMatchObject(failed);
      await expect(reserve("3", claims, 1)).rejects.toMatchObject(failed);
      expect(await spentOf(claims, heir)).toEqual([[60, 40]]);
    }
  });

  if (isShared)
    test("a gateway that is tended keeps its reservations", async () => {
      const claims = claimsOf([budgetOf("a", 100)]);
      await reserve("1", claims, 60);
      const other = await open();
      for (let i = 0; i < 10; i++) {
        nowMs += 20_000;
        await store.tend();
        expect(await other.tend()).toEqual([]);
      }
      expect(await store.settle("1", 10, 0)).toBe(true);
      expect(await spentOf(claims, other)).toEqual([[10, 0]]);
    });

  test("an id that ends and begins anew in one turn, under other limits, is settled under those", async () => {
    const [one, other] = [claimsOf([budgetOf("a", 100)]), claimsOf([budgetOf("b", 100)])];
    await reserve("1", one, 60);
    await reserve("2", other, 20);
    await Promise.all([store.settle("1", 10, 0), reserve("1", other, 30)]);
    expect(await spentOf(other)).toEqual([[0, 50]]);
    await store.settle("1", 5, 0);
    expect(await spentOf(one)).toEqual([[10, 0]]);
    expect(await spentOf(other)).toEqual([[5, 20]]);
  });

  test("however many ask at once, no budget is overspent", async () => {
    const claims = claimsOf([budgetOf("acme", 1000, "org"), budgetOf("a", 777)]);
    const gateways = isShared ? [store, await open()] : [store];
    const results: ReserveResult[] = [];
    const spend = async (i: number) => {
      const from = gateways[i % gateways.length]!;
      const result = await reserve(`r${i}`, claims, 7 + (i % 5), 3, 0, from);
      results.push(result);
      if (result.kind !== "reserved") return;
      const granted = result.amounts.money;
      const grown = await from.resize(`r${i}`, "money", granted + 5, granted + 1);
      const money = grown.kind === "resized" ? grown.money : granted;
      await from.settle(`r${i}`, money, 0);
    };
    await Promise.all(Array.from({ length: 300 }, (_, i) => spend(i)));
    const [org, key] = await spentOf(claims);
    expect(org).toEqual(key);
    expect(key![1]).toBe(0);
    expect(key![0]).toBeLessThanOrEqual(777);
    expect(key![0]).toBeGreaterThan(770);
    expect(results.some(({ kind }) => kind === "refused")).toBe(true);
  });

  describe("random turns", () => randomTurns(makeBench));
}

/** What a store in a server of its own does when that server is gone. */
export function goneServerConformance(server: () => DatabaseServer, open: (url: string) => BudgetStore): void {
  test("a server that is gone is told at once, and one that is back is used", async () => {
    const store = open(server().url);
    const claims = claimsOf([budgetOf("a", 100)]);
    const amounts = { money: 60, tokens: 0 };
    const reserve = (id: string) => store.reserve({ id, claims, want: amounts, least: amounts, tokens: 0 });
    expect(await reserve("1")).toMatchObject({ kind: "reserved" });
    await server().kill();
    await expect(reserve("2")).rejects.toMatchObject({ code: "budget_store_failed" });
    await expect(store.settle("1", 60, 0)).rejects.toMatchObject({ code: "budget_store_failed" });
    await server().restart();
    const settle = async (): Promise<boolean> => store.settle("1", 60, 0).catch(settle);
    expect(await settle()).toBe(true);
    expect(await reserve("3")).toMatchObject({ kind: "refused" });
    await store.close();
  });
}
