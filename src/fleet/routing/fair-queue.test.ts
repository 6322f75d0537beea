import fc from "fast-check";
import { expect, test } from "vitest";
import { FairQueue, type Waiter } from "./fair-queue.js";

const waiter = (tenant: string, priority = 0, cost = 10): Waiter => ({ tenant, priority, cost });

function drain(queue: FairQueue<Waiter>): Waiter[] {
  const order: Waiter[] = [];
  for (let next = queue.peek(); next !== undefined; next = queue.peek()) {
    order.push(next);
    queue.serve(next);
  }
  return order;
}

test("requests are ordered by class, then by turns between tenants, then by arrival", () => {
  const queue = new FairQueue<Waiter>();
  const [a1, a2, a3, b1, urgent] = [waiter("a"), waiter("a"), waiter("a"), waiter("b"), waiter("c", -1)];
  for (const each of [a1, a2, a3, b1, urgent]) queue.push(each);
  expect(drain(queue)).toEqual([urgent, a1, b1, a2, a3]);
});

test("a tenant with large requests gets fewer of them", () => {
  const queue = new FairQueue<Waiter>();
  for (let i = 0; i < 4; i++) queue.push(waiter("large", 0, 100));
  for (let i = 0; i < 12; i++) queue.push(waiter("small", 0, 25));
  const first = drain(queue).slice(0, 10);
  expect(first.filter(({ tenant }) => tenant === "large")).toHaveLength(2);
});

test("a new tenant starts level, without credit for the past", () => {
  const queue = new FairQueue<Waiter>();
  for (let i = 0; i < 20; i++) queue.push(waiter("early"));
  for (let i = 0; i < 10; i++) queue.serve(queue.peek()!);
  for (let i = 0; i < 10; i++) queue.push(waiter("late"));
  const next = drain(queue).slice(0, 10);
  expect(next.filter(({ tenant }) => tenant === "late")).toHaveLength(5);
});

test("a tenant that returns while others wait starts level, without credit for the past", () => {
  const queue = new FairQueue<Waiter>();
  for (let i = 0; i < 40; i++) queue.push(waiter("stays"));
  queue.push(waiter("back"));
  for (let i = 0; i < 20; i++) queue.serve(queue.peek()!);
  for (let i = 0; i < 20; i++) queue.push(waiter("back"));
  const next = drain(queue).slice(0, 10);
  expect(next.filter(({ tenant }) => tenant === "back")).toHaveLength(5);
});

test("every request is served once, and lower classes never before higher ones", () => {
  const arbitrary = fc.record({ tenant: fc.constantFrom("a", "b", "c"), priority: fc.integer(), cost: fc.nat(100) });
  fc.assert(
    fc.property(fc.array(arbitrary, { maxLength: 60 }), (waiters) => {
      const queue = new FairQueue<Waiter>();
      for (const each of waiters) queue.push(each);
      const order = drain(queue);
      expect(new Set(order)).toEqual(new Set(waiters));
      expect(order.map(({ priority }) => priority)).toEqual(
        waiters.map(({ priority }) => priority).sort((x, y) => x - y),
      );
      expect(queue.size).toBe(0);
    }),
  );
});
