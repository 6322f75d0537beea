import { describe, expect, test } from "vitest";
import { type SimulatedRequest, simulate } from "../../../test/helpers/fleet-simulation.js";
import { TestRng } from "../../../test/helpers/rng.js";

interface Traffic {
  readonly numRequests: number;
  readonly everyMs: number;
  /** Blocks that all requests of a group begin with. */
  readonly sharedBlocks: number;
  readonly ownBlocks: number;
  readonly outputTokens: number;
  /** Draws the group of a request. */
  readonly groupOf: (random: () => number) => number;
}

function requestsOf(traffic: Traffic, seed = 1): SimulatedRequest[] {
  const rng = new TestRng(seed);
  const random = () => rng.next();
  let arrivalMs = 0;
  return Array.from({ length: traffic.numRequests }, (_, i) => {
    arrivalMs += -Math.log(1 - random()) * traffic.everyMs;
    const group = traffic.groupOf(random);
    const shared = Array.from({ length: traffic.sharedBlocks }, (_, block) => 1e6 + group * 1000 + block);
    const own = Array.from({ length: traffic.ownBlocks }, (_, block) => 1e9 + i * 1000 + block);
    return { arrivalMs, keys: [...shared, ...own], outputTokens: traffic.outputTokens };
  });
}

const worst = (values: readonly number[]) => Math.max(...values);

describe("thirty long system prompts on three instances, too many for one instance's cache", () => {
  const requests = requestsOf({
    numRequests: 3000,
    everyMs: 60,
    sharedBlocks: 120,
    ownBlocks: 4,
    outputTokens: 60,
    groupOf: (random) => Math.floor(random() * 30),
  });
  const roundRobin = simulate(requests, { policy: "round-robin", numInstances: 3 });
  const prefix = simulate(requests, { policy: "prefix", numInstances: 3 });

  test("are mostly found cached with prefix routing, but not with round-robin", () => {
    expect(prefix.hitRate).toBeGreaterThan(0.85);
    expect(roundRobin.hitRate).toBeLessThan(0.6);
    expect(prefix.meanFirstTokenMs).toBeLessThan(roundRobin.meanFirstTokenMs / 2);
  });

  test("are served without loss of balance", () => {
    expect(worst(prefix.relativeLoad)).toBeLessThan(1.3);
  });
});

describe("with one prefix in 60 % of all requests", () => {
  const skewed = (everyMs: number) =>
    requestsOf({
      numRequests: 3000,
      everyMs,
      sharedBlocks: 60,
      ownBlocks: 4,
      outputTokens: 100,
      groupOf: (random) => (random() < 0.6 ? 0 : 1 + Math.floor(random() * 20)),
    });

  test.each([
    ["a quarter of the seats", 85],
    ["half of them", 45],
    ["most of them", 28],
  ])("with %s in use, no instance has 1.2 times the mean load", (_, everyMs) => {
    const result = simulate(skewed(everyMs), { policy: "prefix", numInstances: 3 });
    expect(worst(result.relativeLoad)).toBeLessThan(1.2);
    expect(worst(result.relativeWork)).toBeLessThan(1.2);
    expect(result.hitRate).toBeGreaterThan(0.8);
  });

  test("matching without load gives one instance a monopoly, which β prevents", () => {
    expect(worst(simulate(skewed(28), { policy: "prefix", numInstances: 3, beta: 0 }).relativeLoad)).toBeGreaterThan(
      1.7,
    );
  });
});

test("traffic without shared prefixes is spread as with least-load", () => {
  const requests = requestsOf({
    numRequests: 2000,
    everyMs: 40,
    sharedBlocks: 0,
    ownBlocks: 20,
    outputTokens: 80,
    groupOf: () => 0,
  });
  const [prefix, leastLoad] = [
    simulate(requests, { policy: "prefix", numInstances: 4 }),
    simulate(requests, { policy: "least-load", numInstances: 4 }),
  ];
  expect(worst(prefix.relativeLoad)).toBeLessThan(1.1);
  expect(Math.abs(prefix.meanFirstTokenMs / leastLoad.meanFirstTokenMs - 1)).toBeLessThan(0.1);
});

describe("a new instance among warm ones", () => {
  const requests = requestsOf({
    numRequests: 3000,
    everyMs: 45,
    sharedBlocks: 60,
    ownBlocks: 4,
    outputTokens: 100,
    groupOf: (random) => Math.floor(random() * 20),
  });

  test("gets its share, although its cache is empty", () => {
    const readyAtMs = requests[1000]!.arrivalMs;
    const result = simulate(requests, { policy: "prefix", numInstances: 3, lastReadyAtMs: readyAtMs });
    const later = result.chosen.slice(1500);
    const share = later.filter(({ instance }) => instance === 2).length / later.length;
    expect(share).toBeGreaterThan(0.2);
    expect(share).toBeLessThan(0.5);
    expect(result.hitRate).toBeGreaterThan(0.85);
  });

  test("is not overloaded in its first second", () => {
    const readyAtMs = requests[1000]!.arrivalMs;
    const { chosen } = simulate(requests, { policy: "least-load", numInstances: 3, lastReadyAtMs: readyAtMs });
    const first = chosen.filter(({ atMs }) => atMs >= readyAtMs && atMs < readyAtMs + 1000);
    // All of them would be a second's worth; the instance only fills up to the others' level.
    expect(first.filter(({ instance }) => instance === 2).length).toBeLessThan(0.9 * first.length);
  });
});

test("gateways that see each other only in scrapes every second do not all choose the same idle instance", () => {
  const requests = requestsOf({
    numRequests: 3000,
    everyMs: 28,
    sharedBlocks: 60,
    ownBlocks: 4,
    outputTokens: 100,
    groupOf: (random) => Math.floor(random() * 30),
  });
  const one = simulate(requests, { policy: "prefix", numInstances: 3 });
  const three = simulate(requests, { policy: "prefix", numInstances: 3, numGateways: 3, scrapeEveryMs: 1000 });
  expect(worst(three.relativeLoad)).toBeLessThan(1.3);
  expect(three.hitRate).toBeGreaterThan(one.hitRate - 0.05);
});
