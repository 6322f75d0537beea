import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type AutoscaleRules, DEFAULT_AUTOSCALE, NO_MEMORY, type ScaleMemory, scale } from "./autoscale.js";

const RULES: AutoscaleRules = { ...DEFAULT_AUTOSCALE, min: 1, max: 8 };
const SEATS = 8;
const TICK_S = 5;

interface Host {
  readonly rules?: AutoscaleRules;
  readonly instances?: number;
  readonly startS?: number;
  readonly serviceS?: number;
}

interface Moment {
  readonly atS: number;
  readonly ready: number;
  readonly starting: number;
  readonly waiting: number;
  readonly target: number;
}

/**
 * A host of instances with seats: requests arrive (per second), wait, take a seat for `serviceS` and leave; starts take
 * `startS`.
 */
function simulate(
  arrivals: readonly number[],
  { rules = RULES, instances = rules.min, startS = 60, serviceS = 10 }: Host = {},
) {
  let memory: ScaleMemory = NO_MEMORY;
  let ready = instances;
  let waiting = 0;
  let backlog = 0;
  const starts: number[] = [];
  const endsAtS: number[] = [];
  const moments: Moment[] = [];
  for (const [atS, rate] of arrivals.entries()) {
    while (starts[0] !== undefined && starts[0] <= atS) {
      starts.shift();
      ready += 1;
    }
    while (endsAtS[0] !== undefined && endsAtS[0] <= atS) endsAtS.shift();
    backlog += rate;
    waiting += Math.floor(backlog);
    backlog %= 1;
    while (waiting > 0 && endsAtS.length < ready * SEATS) {
      endsAtS.push(atS + serviceS);
      waiting -= 1;
    }
    if (atS % TICK_S !== 0) continue;
    const sample = {
      nowMs: atS * 1000,
      running: endsAtS.length,
      waiting,
      seats: SEATS,
      ready,
      starting: starts.length,
    };
    const decision = scale(rules, memory, sample);
    memory = decision.memory;
    moments.push({ atS, ready, starting: starts.length, waiting, target: decision.target });
    const change = decision.target - ready - starts.length;
    for (let i = 0; i < change; i++) starts.push(atS + startS);
    if (change < 0) ready += change;
  }
  return moments;
}

const repeat = (seconds: number, rate: number): number[] => Array.from({ length: seconds }, () => rate);
const most = (moments: readonly Moment[]): number => Math.max(...moments.map(({ target }) => target));

/** Reversals of the target's direction. */
function turns(moments: readonly Moment[]): number {
  const changes = moments
    .slice(1)
    .map(({ target }, i) => Math.sign(target - moments[i]!.target))
    .filter((sign) => sign !== 0);
  return changes.slice(1).filter((sign, i) => sign !== changes[i]).length;
}

/** Requests per second; an instance serves 0.8 of them. */
const TRACES = {
  burst: [...repeat(120, 0.4), ...repeat(300, 4), ...repeat(1800, 0.4)],
  diurnal: Array.from({ length: 86_400 / 12 }, (_, s) => 2 + 1.8 * Math.sin((2 * Math.PI * s) / 7200)),
  sawtooth: Array.from({ length: 3600 }, (_, s) => (4 * (s % 120)) / 120),
  flashCrowd: [...repeat(60, 0.2), ...repeat(600, 30)],
  idle: repeat(7200, 0),
};

describe("recorded traces", () => {
  test("a burst adds instances, which stay ten minutes and are removed one by one", () => {
    const moments = simulate(TRACES.burst);
    expect(most(moments)).toBeGreaterThan(3);
    expect(turns(moments)).toBe(1);
    const downs = moments.filter(({ target, ready, starting }) => target < ready + starting);
    expect(downs.length).toBeGreaterThan(0);
    for (const { ready, target } of downs) expect(ready - target).toBe(1);
    for (const [i, { atS }] of downs.slice(1).entries()) expect(atS - downs[i]!.atS).toBeGreaterThanOrEqual(600);
  });

  test("a day's wave is followed, once up and once down", () => {
    const moments = simulate(TRACES.diurnal);
    expect(most(moments)).toBeGreaterThan(3);
    expect(turns(moments)).toBeLessThanOrEqual(2);
  });

  test("a sawtooth shorter than the delay for scaling down never removes instances", () => {
    const moments = simulate(TRACES.sawtooth);
    expect(turns(moments)).toBe(0);
    expect(moments.at(-1)!.waiting).toBeLessThanOrEqual(0.8 * SEATS * most(moments));
  });

  test("a flash crowd doubles the steps: all instances are starting within two minutes", () => {
    const moments = simulate(TRACES.flashCrowd, { startS: 180 });
    const [first, all] = [2, 8].map((count) => moments.find(({ target }) => target >= count)!.atS);
    expect(first! - 60).toBeLessThanOrEqual(40);
    expect(all! - first!).toBeLessThanOrEqual(70);
  });

  test("without requests one instance is removed every ten minutes, down to min", () => {
    expect(simulate(TRACES.idle, { instances: 4 }).at(-1)).toMatchObject({ ready: 1, target: 1 });
    const toZero = simulate(TRACES.idle, { instances: 2, rules: { ...RULES, min: 0 } });
    expect(toZero.find(({ target }) => target === 0)?.atS).toBeGreaterThanOrEqual(1200);
  });

  test("from zero the first request starts one instance at once, which is not removed while it loads", () => {
    const rules = { ...RULES, min: 0, downAfterMs: 10_000 };
    const moments = simulate([...repeat(10, 0), 1, ...repeat(300, 0)], { rules, instances: 0, startS: 200 });
    expect(moments.find(({ target }) => target > 0)?.atS).toBe(10);
    for (const { starting, target, ready } of moments)
      if (starting > 0) expect(target).toBeGreaterThanOrEqual(ready + starting);
    expect(moments.at(-1)!.target).toBe(0);
  });
});

test("a queue that the starting instances can seat adds no further instance", () => {
  const sample = { nowMs: 90_000, running: 8, waiting: 10, seats: 8, ready: 1, starting: 1 };
  expect(scale(RULES, { ...NO_MEMORY, saturatedSinceMs: 0 }, sample).target).toBe(2);
  expect(scale(RULES, { ...NO_MEMORY, saturatedSinceMs: 0 }, { ...sample, waiting: 30 }).target).toBe(3);
});

describe("under any load", () => {
  const bounds = fc
    .tuple(fc.nat(4), fc.integer({ min: 1, max: 8 }))
    .map(([min, more]) => ({ ...RULES, min, max: min + more }));
  const host = fc.record({
    rules: bounds,
    startS: fc.integer({ min: 1, max: 300 }),
    serviceS: fc.integer({ min: 1, max: 60 }),
  });

  test("the target stays between min and max and never decreases while an instance starts", () => {
    const trace = fc.array(fc.tuple(fc.integer({ min: 1, max: 900 }), fc.double({ min: 0, max: 20, noNaN: true })), {
      minLength: 1,
      maxLength: 6,
    });
    fc.assert(
      fc.property(trace, host, (parts, where) => {
        const { min, max } = where.rules;
        for (const { target, ready, starting } of simulate(
          parts.flatMap(([s, rate]) => repeat(s, rate)),
          where,
        )) {
          expect(target).toBeGreaterThanOrEqual(min);
          expect(target).toBeLessThanOrEqual(max);
          if (starting > 0) expect(target).toBeGreaterThanOrEqual(ready + starting);
        }
      }),
      { numRuns: 100 },
    );
  });

  test("a constant load changes the target in one direction only", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 400 }), fc.nat(8), (demand, from) => {
        // Each answered client asks again, so the number of requests is constant.
        let memory: ScaleMemory = NO_MEMORY;
        let current = from;
        const targets: number[] = [];
        for (let nowMs = 0; nowMs < 3 * 3_600_000; nowMs += 5000) {
          const running = Math.min(demand, current * SEATS);
          const sample = { nowMs, running, waiting: demand - running, seats: SEATS, ready: current, starting: 0 };
          const decision = scale({ ...RULES, min: 0 }, memory, sample);
          memory = decision.memory;
          current = decision.target;
          targets.push(current);
        }
        const signs = new Set(targets.slice(1).map((target, i) => Math.sign(target - targets[i]!)));
        expect(signs.has(1) && signs.has(-1)).toBe(false);
      }),
      { numRuns: 100 },
    );
  });
});
