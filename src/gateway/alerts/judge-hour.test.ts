/** False alarms of quiet series, and alarms of changed ones, at the rates of docs/guides/spend.md. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { TestRng } from "../../../test/helpers/rng.js";
import type { Hour } from "./hours.js";
import { type AlertRules, judgeHour, type Metric } from "./judge-hour.js";
import { HISTORY_WEEKS, levelAlarm } from "./level-alarm.js";
import { leaveOneOut, median, spreadOf } from "./robust.js";
import { shareAlarm } from "./share-alarm.js";

const RULES: AlertRules = { minCost: 1, minRequests: 20 };
const WEEK = 168;

function normal(rng: TestRng): number {
  return Math.sqrt(-2 * Math.log(1 - rng.next())) * Math.cos(2 * Math.PI * rng.next());
}

/** A draw from a Poisson distribution, by its normal approximation where that is good. */
function poisson(rng: TestRng, mean: number): number {
  if (mean > 50) return Math.max(0, Math.round(mean + Math.sqrt(mean) * normal(rng)));
  const limit = Math.exp(-mean);
  let [count, product] = [0, rng.next()];
  while (product > limit) {
    count++;
    product *= rng.next();
  }
  return count;
}

interface Nature {
  /** Requests of a busy hour. */
  readonly requests: number;
  /** Standard deviations of the logarithms of an hour's requests, and of its cost per request. */
  readonly noise: number;
  readonly errors: number;
  readonly hits: number;
}

/** Working hours of a week, a quieter night and weekend, and noise over both. */
function quietHour(rng: TestRng, hour: number, { requests, noise, errors, hits }: Nature): Hour {
  const [day, time] = [Math.floor(hour / 24) % 7, hour % 24];
  const busy = (day < 5 ? 1 : 0.3) * (time >= 8 && time < 18 ? 1 : 0.1);
  const all = poisson(rng, requests * busy * Math.exp(noise * normal(rng)));
  const share = (mean: number) => Math.min(all, poisson(rng, all * mean));
  const tokens = Math.round(all * 900 * Math.exp((noise / 2) * normal(rng)));
  const retries = share(errors / 2);
  return {
    requests: all,
    attempts: all + retries,
    retries,
    tokens,
    cost: tokens * 2e-5,
    errors: share(errors),
    refusals: share(errors / 2),
    hits: share(hits),
    truncated: share(errors / 2),
  };
}

const NATURES: readonly Nature[] = [
  { requests: 2000, noise: 0.2, errors: 0.01, hits: 0.3 },
  { requests: 300, noise: 0.4, errors: 0.03, hits: 0.1 },
  { requests: 60, noise: 0.6, errors: 0.1, hits: 0 },
];

function alarmsOf(
  weeks: readonly number[],
  numSeries: number,
): { readonly perYear: number; readonly byMetric: Map<Metric, number> } {
  const byMetric = new Map<Metric, number>();
  let numHours = 0;
  for (let number = 0; number < numSeries; number++) {
    const rng = new TestRng(1000 + number);
    const nature = NATURES[number % NATURES.length]!;
    const hours: Hour[] = [];
    for (let hour = 0; hour < WEEK * (weeks[1]! + 1); hour++) {
      hours.push(quietHour(rng, hour, nature));
      if (hour < WEEK * weeks[0]!) continue;
      numHours++;
      for (const { metric } of judgeHour(hours.slice(-HISTORY_WEEKS * WEEK - 1), RULES)) {
        byMetric.set(metric, (byMetric.get(metric) ?? 0) + 1);
      }
    }
  }
  const numAlarms = [...byMetric.values()].reduce((sum, count) => sum + count, 0);
  return { perYear: (numAlarms / numHours) * 365.25 * 24, byMetric };
}

// MILLRACE_ALARM_YEARS=20 simulates that many years of series instead of half a year, for the rates in
// docs/guides/spend.md.
const YEARS = Number(process.env.MILLRACE_ALARM_YEARS ?? 0.5);
const WEEKS = YEARS * 52;
const TIMEOUT_MS = 60_000 + YEARS * 120_000;

test(
  "quiet series give less than one alarm a year each, of all six kinds together",
  () => {
    const { perYear, byMetric } = alarmsOf([8, 9], Math.ceil(WEEKS / 2));
    if (YEARS > 1) console.log(`${perYear.toFixed(2)} alarms a year of old series`, byMetric);
    expect(perYear, JSON.stringify([...byMetric])).toBeLessThan(1);
  },
  TIMEOUT_MS,
);

test(
  "series younger than four weeks give less than two a year",
  () => {
    const { perYear, byMetric } = alarmsOf([0, 3], Math.ceil(WEEKS / 4));
    if (YEARS > 1) console.log(`${perYear.toFixed(2)} alarms a year of young series`, byMetric);
    expect(perYear, JSON.stringify([...byMetric])).toBeLessThan(2);
  },
  TIMEOUT_MS,
);

/** Quiet weeks, and a change of the hours after them. @returns hours until each alarm, and the alarm's metric */
function alarmsAfter(change: (hour: Hour) => Hour, nature = NATURES[1]!, weeks = 8): (readonly [Metric, number])[] {
  const rng = new TestRng(7);
  // The change begins on a Monday at ten.
  const start = WEEK * weeks + 10;
  const hours = Array.from({ length: start }, (_, hour) => quietHour(rng, hour, nature));
  const found = new Map<Metric, number>();
  for (let after = 1; after <= 6; after++) {
    hours.push(change(quietHour(rng, start + after - 1, nature)));
    for (const { metric } of judgeHour(hours, RULES)) if (!found.has(metric)) found.set(metric, after);
  }
  return [...found];
}

test("changes are found within hours, and told apart", () => {
  const spends = (hour: Hour): Hour => ({
    ...hour,
    requests: hour.requests * 12,
    attempts: hour.attempts * 12,
    retries: hour.retries * 12,
    cost: hour.cost * 12,
    tokens: hour.tokens * 12,
    errors: hour.errors * 12,
    refusals: hour.refusals * 12,
    hits: hour.hits * 12,
  });
  expect(alarmsAfter(spends)).toEqual([["spend", expect.any(Number)]]);
  const talks = (hour: Hour): Hour => ({ ...hour, tokens: hour.tokens * 5, cost: hour.cost * 5 });
  expect(alarmsAfter(talks).map(([metric]) => metric)).toContain("tokens_per_request");
  const fails = (hour: Hour): Hour => ({ ...hour, errors: Math.round(hour.requests * 0.2) });
  expect(alarmsAfter(fails)).toEqual([["error_share", 1]]);
  const refuses = (hour: Hour): Hour => ({ ...hour, refusals: Math.round(hour.requests * 0.2) });
  expect(alarmsAfter(refuses)).toEqual([["refusal_share", 1]]);
  const retries = (hour: Hour): Hour => ({
    ...hour,
    attempts: Math.round(hour.requests * 1.3),
    retries: Math.round(hour.requests * 0.3),
  });
  expect(alarmsAfter(retries)).toEqual([["retry_share", 1]]);
  const misses = (hour: Hour): Hour => ({ ...hour, hits: 0 });
  expect(alarmsAfter(misses, NATURES[0]!)).toEqual([["hit_share", 1]]);
});

test("a young series is judged by its last days", () => {
  const spends = (hour: Hour): Hour => ({ ...hour, cost: hour.cost * 100 });
  expect(alarmsAfter(spends, NATURES[0]!, 1)).toContainEqual(["spend", expect.any(Number)]);
});

test("little money is no alert, however unusual", () => {
  const history = Array(WEEK * 5).fill(0.001);
  expect(levelAlarm(history, 0.9, { floor: 0.1 })).toBeDefined();
  const hours = history.map((cost) => ({ ...quietHour(new TestRng(1), 10, NATURES[0]!), cost }));
  const dear = (cost: number) => judgeHour([...hours, { ...hours[0]!, cost }], RULES).map(({ metric }) => metric);
  expect([dear(0.9), dear(3)]).toEqual([[], ["spend"]]);
});

test("without enough history there is no alarm", () => {
  expect(levelAlarm(Array(47).fill(1), 1e9, { floor: 1 })).toBeUndefined();
  const hour = { all: 1000, some: 0 };
  const broken = { all: 1000, some: 1000 };
  const rules = {
    direction: "rises",
    minRequests: 20,
    allOf: (each: typeof hour) => each.all,
    someOf: (each: typeof hour) => each.some,
  } as const;
  expect(shareAlarm([...Array(46).fill(hour), broken], rules)).toBeUndefined();
  expect(shareAlarm([...Array(48).fill(hour), broken], rules)).toMatchObject({ share: 1 });
});

test("distances from the median of the others are those of the definition, and no value moves the spread far", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: -1000, max: 1000 }), { minLength: 3, maxLength: 9 }), (values) => {
      const expected = values.map((value, i) => value - median(values.toSpliced(i, 1)));
      expect(leaveOneOut(values)).toEqual(expected);
    }),
  );
  const values = [1, 2, 3, 4, 5, 6, 7];
  expect(spreadOf([...values, 1e9])).toBeLessThan(2 * spreadOf(values));
});
