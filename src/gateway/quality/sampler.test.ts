import { expect, test } from "vitest";
import { TestRng } from "../../../test/helpers/rng.js";
import { type Draw, Sampler } from "./sampler.js";

const DAY_MS = 86_400_000;

/** Draws of `requests` requests a day, spread over each of `days` days. */
function drawn(share: number, atLeast: number, requests: number, days: number, seed = 1): readonly (readonly Draw[])[] {
  const time = { ms: 0 };
  const sampler = new Sampler({ share, atLeast, random: new TestRng(seed).next, epochMs: () => time.ms });
  return Array.from({ length: days }, (_, day) =>
    Array.from({ length: requests }, (__, i) => {
      time.ms = day * DAY_MS + (i / requests) * DAY_MS;
      return sampler.draw("m", "t");
    }).filter(({ isTaken }) => isTaken),
  );
}

test("a share of all requests is drawn, each with the inverse of its chance", () => {
  const [samples] = drawn(0.02, 0, 100_000, 1);
  expect(Math.abs(samples!.length - 2000)).toBeLessThan(200);
  expect(new Set(samples!.map(({ weight, isPlain }) => `${weight} ${isPlain}`))).toEqual(new Set(["50 true"]));
});

test("a stratum with few requests has as many samples a day as it is owed, and the first day too", () => {
  for (const samples of drawn(0.01, 50, 200, 5)) expect(samples.length).toBeGreaterThanOrEqual(50);
  // With fewer requests than missing samples, all are taken.
  for (const samples of drawn(0.01, 50, 30, 3)) expect(samples).toHaveLength(30);
});

test("weights estimate the number of requests without bias, whatever the floor, and plain samples are the plain share", () => {
  const [first, ...days] = drawn(0.02, 100, 1000, 200);
  expect(first!.length).toBeGreaterThanOrEqual(100);
  const estimates = days.map((samples) => samples.reduce((sum, { weight }) => sum + weight, 0));
  const mean = estimates.reduce((sum, each) => sum + each, 0) / estimates.length;
  expect(Math.abs(mean - 1000)).toBeLessThan(25);
  const numPlain = days.flat().filter(({ isPlain }) => isPlain).length;
  expect(Math.abs(numPlain / (1000 * days.length) - 0.02)).toBeLessThan(0.002);
});

test("where nine in ten requests bring no new answer, the others still have as many samples as they are owed", () => {
  const time = { ms: 0 };
  const rng = new TestRng(3);
  const sampler = new Sampler({ share: 0.01, atLeast: 50, random: rng.next, epochMs: () => time.ms });
  for (let day = 0; day < 5; day++) {
    let numSamples = 0;
    for (let i = 0; i < 3000; i++) {
      time.ms = (day + i / 3000) * DAY_MS;
      const draw = sampler.draw("m", "t");
      if (i % 10 !== 0) draw.giveBack();
      else numSamples += Number(draw.isTaken);
    }
    expect(numSamples).toBeGreaterThanOrEqual(50);
    // The floor does not take every request: the samples are spread over the day.
    if (day > 0) expect(numSamples).toBeLessThan(80);
  }
});

test("tenants that have gone leave their place to new ones, and those of today keep theirs", () => {
  const time = { ms: 0 };
  const sampler = new Sampler({ share: 0, atLeast: 1, random: () => 0.5, epochMs: () => time.ms });
  const isTaken = (tenant: string) => sampler.draw("m", tenant).isTaken;
  for (let i = 0; i < 10_000; i++) expect(isTaken(`t${i}`)).toBe(true);
  expect(isTaken("new")).toBe(false);
  time.ms = DAY_MS;
  expect([isTaken("t0"), isTaken("new"), isTaken("new"), isTaken("t0")]).toEqual([true, true, false, false]);
});

test("a draw of yesterday takes nothing from today", () => {
  const time = { ms: 0 };
  const sampler = new Sampler({ share: 0, atLeast: 1, random: () => 0.5, epochMs: () => time.ms });
  const late = sampler.draw("m", "t");
  time.ms = DAY_MS;
  expect(sampler.draw("m", "t").isTaken).toBe(true);
  late.giveBack();
  expect(sampler.draw("m", "t").isTaken).toBe(false);
});
