import { describe, expect, test } from "vitest";
import { request } from "../../test/helpers/engine-requests.js";
import { createPolicy } from "./scheduling-policy.js";
import { Sequence } from "./step/sequence.js";

const BURST = 2048;
let nextId = 1;
const sequenceOf = (tenant: string, priority = 0, length = 10): Sequence =>
  new Sequence(nextId++, { ...request(new Array<number>(length).fill(1)), tenant, priority }, 1, 0);

const order = (policy: ReturnType<typeof createPolicy>, sequences: readonly Sequence[]): readonly number[] =>
  [...sequences].sort((a, b) => policy.compare(a, b)).map((sequence) => sequences.indexOf(sequence));

describe("priority", () => {
  test("lower numbers first, then who came first; only lower numbers displace", () => {
    const policy = createPolicy("priority");
    const sequences = [sequenceOf("", 1), sequenceOf("", 0), sequenceOf("", 0), sequenceOf("", -1)];
    expect(order(policy, sequences)).toEqual([3, 1, 2, 0]);
    expect(policy.mayDisplace(sequences[3]!, sequences[1]!, sequences, true)).toBe(true);
    expect(policy.mayDisplace(sequences[1]!, sequences[2]!, sequences, true)).toBe(false);
  });
});

describe("fair", () => {
  test("the tenant served least goes first, whoever came first", () => {
    const policy = createPolicy("fair");
    const sequences = [sequenceOf("a"), sequenceOf("a"), sequenceOf("b")];
    for (const sequence of sequences) policy.add(sequence);
    expect(order(policy, sequences)).toEqual([0, 1, 2]);
    policy.charge(sequences[0]!, 100, 0);
    expect(order(policy, sequences)).toEqual([2, 0, 1]);
    // An output token counts twice.
    policy.charge(sequences[2]!, 0, 51);
    expect(order(policy, sequences)).toEqual([0, 1, 2]);
  });

  test("who comes, or comes back, starts a burst behind the least served of those present, and no further", () => {
    const policy = createPolicy("fair");
    const [busy, late] = [sequenceOf("a"), sequenceOf("b")];
    policy.add(busy);
    policy.charge(busy, 100_000, 0);
    policy.add(late);
    policy.charge(late, BURST - 1, 0);
    expect(policy.compare(busy, late)).toBeGreaterThan(0);
    policy.charge(late, 1, 0);
    expect(policy.compare(busy, late)).toBeLessThan(0);
    policy.remove(late);
    policy.charge(busy, 50_000, 0);
    const back = sequenceOf("b");
    policy.add(back);
    policy.charge(back, BURST + 1, 0);
    expect(policy.compare(busy, back)).toBeLessThan(0);
  });

  test("coming and going wins nothing beyond a tenant's share", () => {
    const policy = createPolicy("fair");
    const busy = sequenceOf("a");
    policy.add(busy);
    const served = { a: 0, b: 0 };
    // Both always have work, but one of them never has it for longer than a step.
    for (let step = 0; step < 1000; step++) {
      const visitor = sequenceOf("b");
      policy.add(visitor);
      const [chosen, name] = policy.compare(busy, visitor) < 0 ? [busy, "a" as const] : [visitor, "b" as const];
      policy.charge(chosen, 128, 0);
      served[name] += 128;
      policy.remove(visitor);
    }
    expect(served.b - served.a).toBeLessThanOrEqual(BURST + 128);
  });

  test("who comes while nobody is there starts a burst behind who left last", () => {
    const policy = createPolicy("fair");
    const first = sequenceOf("a");
    policy.add(first);
    policy.charge(first, 500_000, 0);
    policy.remove(first);
    const [newcomer, back] = [sequenceOf("b"), sequenceOf("a")];
    policy.add(newcomer);
    policy.add(back);
    policy.charge(newcomer, BURST + 1, 0);
    expect(policy.compare(back, newcomer)).toBeLessThan(0);
  });

  test("displaces another tenant only when it stays behind it afterwards", () => {
    const policy = createPolicy("fair");
    const [greedy, modest] = [sequenceOf("a"), sequenceOf("b")];
    policy.add(greedy);
    policy.add(modest);
    policy.charge(greedy, 20, 0);
    expect(policy.mayDisplace(modest, greedy, [greedy], true)).toBe(false);
    policy.charge(greedy, 2000, 0);
    expect(policy.mayDisplace(modest, greedy, [greedy], true)).toBe(true);
    expect(policy.mayDisplace(greedy, modest, [modest], true)).toBe(false);
    const own = sequenceOf("a");
    policy.add(own);
    expect(policy.mayDisplace(own, greedy, [greedy], true)).toBe(false);
  });

  test("a tenant that runs nothing gets one of several seats of another at once, and no more", () => {
    const policy = createPolicy("fair");
    const [first, second, newcomer, next] = [sequenceOf("a"), sequenceOf("a"), sequenceOf("b"), sequenceOf("b")];
    for (const sequence of [first, second, newcomer, next]) policy.add(sequence);
    policy.charge(first, 1, 0);
    expect(policy.mayDisplace(newcomer, second, [first, second], true)).toBe(true);
    expect(policy.mayDisplace(newcomer, first, [first], true)).toBe(false);
    expect(policy.mayDisplace(next, first, [first, newcomer], true)).toBe(false);
    expect(policy.mayDisplace(next, second, [first, second, newcomer], true)).toBe(false);
  });
});
