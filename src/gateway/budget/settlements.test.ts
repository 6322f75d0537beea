import { expect, test, vi } from "vitest";
import { MillraceError } from "../../core/errors.js";
import { claimsOf } from "./claims.js";
import { Settlements } from "./settlements.js";
import type { BudgetStore } from "./store.js";

const down = new MillraceError("budget_store_failed", "expected a store, got none");
const claims = claimsOf([]);

/** A store that counts how many settlements it has at once, and may be down. */
function start() {
  const said = { lost: 0, leftReserved: 0 };
  const store = { isDown: true, settled: [] as string[], atOnce: 0, most: 0, refuses: "", isSlow: false };
  const settle = async (id: string) => {
    store.most = Math.max(store.most, ++store.atOnce);
    do await new Promise((resolve) => setImmediate(resolve));
    while (store.isSlow);
    store.atOnce--;
    if (store.isDown || id === store.refuses) throw down;
    store.settled.push(id);
    return true;
  };
  const settlements = new Settlements(
    { settle, tend: async () => (store.isDown ? Promise.reject(down) : []) } as unknown as BudgetStore,
    {
      recovered() {},
      failed() {},
      lost: (count) => (said.lost += count),
      leftReserved: (count) => (said.leftReserved += count),
    },
    () => performance.now(),
  );
  return { settlements, store, said };
}

const SOON = { timeout: 20_000 };

test("what waited is booked together when the store is back, and what fails again goes on waiting", async () => {
  const { settlements, store } = start();
  for (let i = 0; i < 1_200; i++) settlements.settle(`r${i}`, claims, 1, 1);
  await vi.waitFor(() => expect([settlements.numWaiting, store.atOnce]).toEqual([1_200, 0]), SOON);
  Object.assign(store, { isDown: false, most: 0, refuses: "r700" });
  await settlements.tend();
  expect(store.most).toBe(500);
  expect([store.settled.length, settlements.numWaiting]).toEqual([999, 201]);
  store.refuses = "";
  await settlements.tend();
  expect([new Set(store.settled).size, settlements.numWaiting]).toEqual([1_200, 0]);
  await settlements.close();
});

test("reservations in doubt are bounded while the store is down, and ended together when it is back", async () => {
  const { settlements, store, said } = start();
  for (let i = 0; i < 10_003; i++) settlements.doubt(`r${i}`);
  expect(said.leftReserved).toBe(3);
  // The first look at the store has failed by then.
  await new Promise((resolve) => setImmediate(resolve));
  Object.assign(store, { isDown: false, most: 0 });
  await settlements.tend();
  expect([store.settled.length, store.most]).toEqual([10_000, 500]);
  await settlements.close();
});

test("a settlement that is being retried when the gateway ends is booked once, and none is dropped", async () => {
  const { settlements, store } = start();
  for (let i = 0; i < 600; i++) settlements.settle(`r${i}`, claims, 1, 1);
  await vi.waitFor(() => expect([settlements.numWaiting, store.atOnce]).toEqual([600, 0]), SOON);
  Object.assign(store, { isDown: false, isSlow: true });
  void settlements.tend();
  await vi.waitFor(() => expect(store.atOnce).toBe(500), SOON);
  const closed = settlements.close();
  await new Promise((resolve) => setImmediate(resolve));
  store.isSlow = false;
  await closed;
  expect([store.settled.length, new Set(store.settled).size, settlements.numWaiting]).toEqual([600, 600, 0]);
});
