/**
 * Turns under attack, on a clock of the test's own: an attacker's grammar takes ten seconds, everybody else's fifty
 * milliseconds.
 */
import { describe, expect, test } from "vitest";
import { BUDGET_MS, CompileOrder, CREDIT_MS, REFILL } from "./compile-order.js";

interface Asked {
  readonly tenant: string;
  readonly costMs: number;
}

const [SLOW_MS, QUICK_MS] = [10_000, 50];

/** One thread, no interruptions: what is worst for those who wait. */
class Thread {
  readonly order = new CompileOrder<Asked>(SLOW_MS);
  readonly done: { readonly asked: Asked; readonly endMs: number }[] = [];
  readonly refused: Asked[] = [];
  nowMs = 0;

  ask(tenant: string, costMs: number): void {
    const asked = { tenant, costMs };
    if (this.order.pauseMs(tenant, this.nowMs) > 0) this.refused.push(asked);
    else this.order.add(asked, tenant, this.nowMs);
  }

  compileNext(): Asked | undefined {
    const asked = this.order.next(() => true, this.nowMs);
    if (asked === undefined) return undefined;
    this.nowMs += asked.costMs;
    this.order.charge(asked.tenant, asked.costMs, this.nowMs);
    this.done.push({ asked, endMs: this.nowMs });
    return asked;
  }
}

describe("under the grammar attack", () => {
  test.each([
    ["one attacker with two connections", ["x", "x"]],
    ["two attackers", ["x", "y"]],
    ["two attackers with four connections", ["x", "y", "x", "y"]],
  ])("another key waits for what runs, and for nothing else: %s", (_, attackers) => {
    const thread = new Thread();
    for (const tenant of attackers) thread.ask(tenant, SLOW_MS);
    // Before their first grammars nobody knows them.
    for (const _ of new Set(attackers)) thread.ask(thread.compileNext()!.tenant, SLOW_MS);
    for (let round = 0; round < 4; round++) {
      // Each sends another as soon as one is done, and is always waiting.
      const { tenant } = thread.compileNext()!;
      thread.ask(tenant, SLOW_MS);
      thread.ask("z", QUICK_MS);
      expect(thread.compileNext()).toEqual({ tenant: "z", costMs: QUICK_MS });
    }
  });

  test("what runs makes room for whoever was served less, and for nobody else", () => {
    const { order } = new Thread();
    const isAny = () => true;
    order.add({ tenant: "x", costMs: SLOW_MS }, "x", 0);
    expect(order.hasWorthier("x", 300, isAny, 0)).toBe(false);
    order.charge("y", 1000, 0);
    order.add({ tenant: "y", costMs: SLOW_MS }, "y", 0);
    expect(order.hasWorthier("x", 300, isAny, 0)).toBe(false);
    expect(order.hasWorthier("x", 1500, isAny, 0)).toBe(true);
    order.add({ tenant: "z", costMs: QUICK_MS }, "z", 0);
    expect(order.hasWorthier("x", 300, isAny, 0)).toBe(true);
    expect(order.hasWorthier("x", 300, ({ costMs }) => costMs > QUICK_MS, 0)).toBe(false);
  });

  test("a key's budget ends the attack, whatever its digits; it comes back with time", () => {
    const thread = new Thread();
    for (let i = 0; thread.refused.length === 0; i++) {
      thread.ask("x", SLOW_MS + i);
      thread.compileNext();
    }
    // What came back meanwhile counts as well.
    expect(thread.done.length).toBeLessThanOrEqual(Math.ceil(BUDGET_MS / SLOW_MS / (1 - REFILL)) + 1);
    const pauseMs = thread.order.pauseMs("x", thread.nowMs);
    expect(pauseMs).toBeGreaterThan(0);
    expect(thread.order.pauseMs("z", thread.nowMs)).toBe(0);
    expect(thread.order.pauseMs("x", thread.nowMs + pauseMs)).toBe(0);
  });
});

test("keys that ask alike are served alike, whoever comes first", () => {
  const thread = new Thread();
  for (let i = 0; i < 30; i++) for (const tenant of ["a", "a", "a", "b"]) thread.ask(tenant, 100);
  for (let i = 0; i < 40; i++) thread.compileNext();
  const numOf = (name: string) => thread.done.filter(({ asked }) => asked.tenant === name).length;
  expect([numOf("a"), numOf("b")]).toEqual([20, 20]);
});

test("who asked long ago has no more than a little credit", () => {
  const thread = new Thread();
  for (let i = 0; i < 100; i++) thread.ask("busy", 100);
  for (let i = 0; i < 50; i++) thread.compileNext();
  for (let i = 0; i < 100; i++) thread.ask("back", 100);
  for (let i = 0; i < 40; i++) thread.compileNext();
  const last = thread.done.slice(-10).map(({ asked }) => asked.tenant);
  expect(last.filter((tenant) => tenant === "busy")).toHaveLength(5);
});

test("a key that had much compiled while nobody else asked does not wait for a fresh key's whole queue", () => {
  const thread = new Thread();
  thread.order.charge("old", 100_000, 0);
  for (let i = 0; i < 100; i++) thread.ask("fresh", 1000);
  thread.ask("old", QUICK_MS);
  for (let i = 0; i < 100; i++) thread.compileNext();
  const turn = thread.done.findIndex(({ asked }) => asked.tenant === "old");
  expect(turn).toBe(CREDIT_MS / 1000);
});

test("what was asked for within the budget has no turn beyond it, and is told apart from what starved", () => {
  const thread = new Thread();
  for (let i = 0; i < 100; i++) thread.ask("x", SLOW_MS);
  thread.ask("z", QUICK_MS);
  const numOf = (name: string) => thread.done.filter(({ asked }) => asked.tenant === name).length;
  while (thread.compileNext() !== undefined);
  // Time went by meanwhile, and gave some of the budget back.
  expect(numOf("x")).toBeLessThanOrEqual(Math.ceil(BUDGET_MS / SLOW_MS / (1 - REFILL)) + 1);
  expect(numOf("z")).toBe(1);
  expect(thread.order.hasWorthier("z", SLOW_MS, () => true, thread.nowMs)).toBe(false);
  thread.ask("z", QUICK_MS);
  expect(thread.order.takeOverBudget(thread.nowMs)).toHaveLength(100 - numOf("x"));
  expect(thread.order.size).toBe(1);
});

test("what is taken out is not waited for", () => {
  const { order } = new Thread();
  const [a, b] = [
    { tenant: "a", costMs: 1 },
    { tenant: "a", costMs: 2 },
  ] as const;
  order.add(a, "a", 0);
  order.add(b, "a", 40);
  expect(order.takeStarved(50, 60)).toEqual([a]);
  order.remove(b);
  expect([order.size, order.next(() => true, 0)]).toEqual([0, undefined]);
});
