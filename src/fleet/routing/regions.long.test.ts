/**
 * The design for 10,000 requests a second: three regions of gateways and instances, behind the real router, in virtual
 * time.
 */
import { beforeAll, describe, expect, test } from "vitest";
import type { SimulatedRequest } from "../../../test/helpers/fleet-simulation.js";
import { type Fate, simulateRegions } from "../../../test/helpers/region-simulation.js";
import { TestRng } from "../../../test/helpers/rng.js";

const REQUESTS_PER_S = 10_000;
const SECONDS = 24;
const OUTAGE = { region: 0, fromMs: 8_000, toMs: 16_000 };
const WAY_MS = 40;
/** Chats of 100 long system prompts, with some text of their own. */
const NUM_PROMPTS = 100;

function traffic(): SimulatedRequest[] {
  const rng = new TestRng(1);
  let arrivalMs = 0;
  return Array.from({ length: REQUESTS_PER_S * SECONDS }, (_, i) => {
    arrivalMs += (-Math.log(1 - rng.next()) * 1000) / REQUESTS_PER_S;
    const prompt = Math.floor(rng.next() * NUM_PROMPTS);
    const shared = Array.from({ length: 16 }, (_, block) => 1e6 + prompt * 1000 + block);
    return { arrivalMs, keys: [...shared, 1e9 + 2 * i, 1e9 + 2 * i + 1], outputTokens: 60 };
  });
}

const percentile = (fates: readonly Fate[], share: number): number => {
  const sorted = fates.map(({ firstTokenMs }) => firstTokenMs).sort((a, b) => a - b);
  return sorted[Math.floor(share * (sorted.length - 1))]!;
};
const hitRate = (fates: readonly Fate[]): number =>
  fates.reduce((sum, { numHits }) => sum + numHits, 0) / fates.reduce((sum, { numBlocks }) => sum + numBlocks, 0);
const spilled = (fates: readonly Fate[]): number =>
  fates.filter(({ home, served }) => home !== served).length / fates.length;

describe("10,000 requests a second over 3 regions, 24 gateways and 1,344 instances", { timeout: 600_000 }, () => {
  let all: readonly Fate[];
  beforeAll(() => {
    all = simulateRegions(traffic(), {
      numRegions: 3,
      gatewaysPerRegion: 8,
      instancesPerGateway: 56,
      wayMs: WAY_MS,
      outage: OUTAGE,
    });
  }, 600_000);
  const between = (fromMs: number, toMs: number) =>
    all.filter(({ arrivalMs }) => arrivalMs >= fromMs && arrivalMs < toMs);
  const told = (name: string, fates: readonly Fate[]) => {
    const [p50, p99] = [percentile(fates, 0.5), percentile(fates, 0.99)];
    const line = `${name}: first token p50 ${p50.toFixed(0)} ms, p99 ${p99.toFixed(0)} ms`;
    console.log(`${line}, hits ${(100 * hitRate(fates)).toFixed(1)} %, spilled ${(100 * spilled(fates)).toFixed(1)} %`);
    return { p50, p99 };
  };

  test("every request is answered, in its own region while that has instances", () => {
    expect(all).toHaveLength(REQUESTS_PER_S * SECONDS);
    const before = between(4_000, OUTAGE.fromMs);
    told("before", before);
    expect(spilled(before)).toBeLessThan(0.01);
    expect(hitRate(before)).toBeGreaterThan(0.8);
  });

  test("a region that loses its instances costs two ways more and some of the cache, and nothing else", () => {
    const before = told("before", between(4_000, OUTAGE.fromMs));
    const during = between(OUTAGE.fromMs + 1_000, OUTAGE.toMs);
    const afar = during.filter(({ home }) => home === OUTAGE.region);
    told("during, own region lost", afar);
    const others = told(
      "during, other regions",
      during.filter(({ home }) => home !== OUTAGE.region),
    );
    expect(spilled(afar)).toBe(1);
    expect(percentile(afar, 0.5)).toBeGreaterThan(before.p50 + 2 * WAY_MS - 1);
    expect(others.p99).toBeLessThan(before.p99 * 3 + 50);
  });

  test("a region that comes back gets its requests back, although its caches are empty", () => {
    const after = between(OUTAGE.toMs + 4_000, SECONDS * 1000);
    told("after", after);
    expect(spilled(after)).toBeLessThan(0.01);
    expect(hitRate(after)).toBeGreaterThan(0.75);
  });
});
