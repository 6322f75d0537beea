import { expect, test } from "vitest";
import { uniform } from "../../core/random.js";
import { Arm, breachOf, type Sample, verdictOf } from "./comparison.js";

const LIMITS = { maxSlowdown: 1.1, maxFailures: 0.01 };

/** Times with a spread of 0.5 on a logarithmic scale, as real answers have. */
function samplesOf(seed: number, factor: number): () => Sample {
  const next = uniform(seed);
  const spread = (): number => Math.exp(0.5 * Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next()));
  return () => ({
    hasFailed: false,
    ttftMs: 100 * factor * spread(),
    tpotMs: 20 * factor * spread(),
    durationMs: 1000 * factor * spread(),
  });
}

/** Looks after every tenth request. @returns requests until the breach; undefined: none in `most` */
function requestsUntilBreach(seed: number, factor: number, most: number): number | undefined {
  const [canary, stable] = [new Arm(), new Arm()];
  const [ofCanary, ofStable] = [samplesOf(2 * seed, factor), samplesOf(2 * seed + 1, 1)];
  for (let count = 1; count <= most; count++) {
    canary.add(ofCanary());
    for (let i = 0; i < 3; i++) stable.add(ofStable());
    if (count % 10 === 0 && breachOf(canary, stable, LIMITS) !== undefined) return count;
  }
  return undefined;
}

test("a canary at the limit itself is stopped in less than one of twenty, however often it is looked at", () => {
  const stopped = Array.from({ length: 100 }, (_, seed) => requestsUntilBreach(seed, 1.1, 1000));
  expect(stopped.filter((count) => count !== undefined).length).toBeLessThanOrEqual(5);
});

test("a canary that takes one and a half times as long is stopped within some hundred requests", () => {
  for (let seed = 0; seed < 20; seed++) expect(requestsUntilBreach(seed, 1.5, 300)).toBeGreaterThan(0);
});

test("failures stop a canary, unless the others fail as often", () => {
  const [canary, stable] = [new Arm(), new Arm()];
  const [good, bad] = [samplesOf(1, 1), (): Sample => ({ ...samplesOf(2, 1)(), hasFailed: true })];
  for (let i = 0; i < 80; i++) {
    if (i < 40) canary.add(i < 12 ? bad() : good());
    stable.add(good());
  }
  const because = "12 of 40 requests failed, 0.0 % of the others";
  expect(breachOf(canary, stable, LIMITS)).toEqual({ kind: "failing", because });
  for (let i = 0; i < 20; i++) stable.add(bad());
  expect(breachOf(canary, stable, LIMITS)).toBeUndefined();
  // Nothing is known about others without a request.
  expect(breachOf(canary, new Arm(), LIMITS)).toBeUndefined();
});

test("failures within the bounds of chance are no breach, and do not pass", () => {
  const [canary, stable] = [new Arm(), new Arm()];
  const [ofCanary, ofStable] = [samplesOf(7, 0.8), samplesOf(8, 1)];
  for (let i = 0; i < 400; i++) {
    canary.add({ ...ofCanary(), hasFailed: i % 50 === 0 });
    stable.add(ofStable());
  }
  expect(breachOf(canary, stable, LIMITS)).toBeUndefined();
  expect(verdictOf(canary, stable, LIMITS)).toEqual({
    hasPassed: false,
    because: "2.0 % of the requests failed, 0.0 % of the others",
  });
});

test("two failures are no breach, whatever share they are", () => {
  const canary = new Arm();
  for (let i = 0; i < 2; i++) canary.add({ ...samplesOf(1, 1)(), hasFailed: true });
  expect(breachOf(canary, new Arm(), LIMITS)).toBeUndefined();
});

test.each([
  ["ttft", { ...LIMITS, maxTtftMs: 50 }, "the time to the first token is "],
  ["tpot", { ...LIMITS, maxTpotMs: 10 }, "the time per token is "],
])("a limit of %s stops a canary that is as fast as the others", (_, limits, because) => {
  const [canary, stable] = [new Arm(), new Arm()];
  const [ofCanary, ofStable] = [samplesOf(3, 1), samplesOf(4, 1)];
  for (let i = 0; i < 200; i++) {
    canary.add(ofCanary());
    stable.add(ofStable());
  }
  expect(breachOf(canary, stable, LIMITS)).toBeUndefined();
  expect(breachOf(canary, stable, limits)?.because).toContain(because);
});

test("the verdict needs requests on both sides, and bounds below the limit", () => {
  const [canary, stable] = [new Arm(), new Arm()];
  const [ofCanary, ofStable] = [samplesOf(5, 0.8), samplesOf(6, 1)];
  const addAll = (count: number): void => {
    for (let i = 0; i < count; i++) {
      canary.add(ofCanary());
      stable.add(ofStable());
    }
  };
  addAll(10);
  expect(verdictOf(canary, stable, LIMITS).because).toContain("expected 30 answered requests on each side");
  addAll(30);
  expect(verdictOf(canary, stable, { ...LIMITS, maxSlowdown: 0.7 }).hasPassed).toBe(false);
  addAll(500);
  expect(verdictOf(canary, stable, LIMITS).hasPassed).toBe(true);
});
