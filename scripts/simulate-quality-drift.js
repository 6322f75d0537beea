/**
 * Simulates traffic with steady quality, and traffic with a drop in quality, through the gateway's own detectors:
 * counts the false alarms over all series, and measures the time until a drop is found.
 *
 *   node scripts/simulate-quality-drift.js [--requests 300000] [--days 100] [--seeds 3] [--drops 40]
 *
 * Prints Markdown tables. Shares change over the day and at weekends, like those of real traffic.
 */
import { parseArgs } from "node:util";
import pino from "pino";
import { uniform } from "../dist/src/core/random.js";
import { addToSeries, newSeries } from "../dist/src/gateway/quality/drift-series.js";
import { DriftWatch } from "../dist/src/gateway/quality/drift-watch.js";
import { openDatabase } from "../dist/src/gateway/store/database.js";

const DAY_MS = 86_400_000;
/** A Monday: the fifth and sixth day after it are a weekend. */
const START_MS = 4 * DAY_MS;
const RATES = [0.01, 0.02, 0.05];
const QUIET_DAYS = 365;
/** Days in which the detectors learn the usual shares, before the drop. */
const LEARNED_DAYS = 14;
const MOST_DAYS = 60;

const { values } = parseArgs({
  options: {
    requests: { type: "string", default: "300000" },
    days: { type: "string", default: "100" },
    seeds: { type: "string", default: "3" },
    drops: { type: "string", default: "40" },
  },
});
const [requests, days, numSeeds, numDrops] = ["requests", "days", "seeds", "drops"].map((name) => Number(values[name]));

/** Name → mean of its failing share; the last two have values between 0 and 1. */
const CHECKS = {
  refusal: 0.02,
  language: 0.005,
  format: 0.03,
  repetition: 0.01,
  length: 0.05,
  feedback: 0.1,
  relevance: 0.45,
  faithfulness: 0.12,
};
const GRADED = new Set(["relevance", "faithfulness"]);
/** Share of the requests, and the factor of its failing shares. */
const MODELS = [
  ["large", 0.6, 1],
  ["small", 0.3, 1.5],
  ["code", 0.1, 0.7],
];
const TENANTS = [
  ["search", 0.5, 1],
  ["shop", 0.3, 1.2],
  ["law", 0.15, 0.6],
  ["lab", 0.05, 2],
];

/**
 * ±40 % by day and night, and 20 % more at weekends; the simulation ignores that models and tenants differ in their
 * hours.
 */
const rhythm = (day) => (1 + 0.4 * Math.sin(2 * Math.PI * day)) * (Math.floor(day) % 7 >= 5 ? 1.2 : 1);

function pick(choices, drawn) {
  let sum = 0;
  for (const choice of choices) {
    sum += choice[1];
    if (drawn < sum) return choice;
  }
  return choices.at(-1);
}

/** A value with this mean: 0 or 1, or between. */
function badnessOf(name, mean, random) {
  if (!GRADED.has(name)) return Number(random() < mean);
  return Math.min(1, Math.max(0, mean + 0.25 * (random() + random() + random() - 1.5)));
}

const made = () => ({ database: openDatabase(undefined), logger: pino({ level: "silent" }), alerts: undefined });

/** @returns alarms over all series */
function quiet(rate, seed, quietDays, withRhythm) {
  const random = uniform(seed);
  const watch = new DriftWatch({ ...made(), quietDays, keepDays: 30 });
  const samplesPerDay = Math.round(requests * rate);
  let alarms = 0;
  let judgements = 0;
  for (let i = 0; i < samplesPerDay * days; i++) {
    const day = i / samplesPerDay;
    const [model, , ofModel] = pick(MODELS, random());
    const [tenant, , ofTenant] = pick(TENANTS, random());
    const factor = ofModel * ofTenant * (withRhythm ? rhythm(day) : 1);
    for (const [name, share] of Object.entries(CHECKS)) {
      // Few clients give feedback.
      if (name === "feedback" && random() > 0.05) continue;
      const badness = badnessOf(name, Math.min(0.9, share * (GRADED.has(name) ? 1 : factor)), random);
      judgements += 2;
      alarms += watch.add({ atMs: START_MS + day * DAY_MS, model, tenant, name, badness, isPlain: true }).length;
    }
  }
  watch.close();
  return { alarms, judgements };
}

/** @returns hours from the drop to its alarm; undefined: no alarm within the days */
function found(rate, base, points, seed, withRhythm) {
  const random = uniform(seed);
  const state = newSeries();
  const samplesPerDay = Math.round(requests * rate);
  // Sets as many judgements per day as the traffic above has.
  const threshold = QUIET_DAYS * samplesPerDay * 2 * (Object.keys(CHECKS).length - 1);
  for (let i = 0; i < samplesPerDay * (LEARNED_DAYS + MOST_DAYS); i++) {
    const day = i / samplesPerDay;
    const isDown = day >= LEARNED_DAYS;
    const mean = base * (withRhythm ? rhythm(day) : 1) + (isDown ? points : 0);
    const drift = addToSeries(state, Number(random() < mean), START_MS + day * DAY_MS, threshold);
    if (drift !== undefined && isDown) return 24 * (day - LEARNED_DAYS);
  }
  return undefined;
}

const row = (...cells) => console.log(`| ${cells.join(" | ")} |`);
const hours = (value) =>
  value === undefined
    ? `> ${MOST_DAYS} days`
    : value < 48
      ? `${value.toFixed(1)} h`
      : `${(value / 24).toFixed(1)} days`;
const quantile = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];

const seeds = Array.from({ length: numSeeds }, (_, i) => i + 1);
const numSeries = MODELS.length * (TENANTS.length + 1) * Object.keys(CHECKS).length;
console.log(`${numSeries} series, ${days} quiet days, ${numSeeds} seeds, ${requests} requests a day\n`);
row("Sampled", "Promise", "Expected at most", "Alarms, even traffic", "Alarms, with day, night and weekend");
row("---", "---", "---", "---", "---");
for (const rate of RATES) {
  for (const quietDays of [QUIET_DAYS, 1]) {
    const sumOf = (withRhythm) => seeds.reduce((sum, seed) => sum + quiet(rate, seed, quietDays, withRhythm).alarms, 0);
    const promise = quietDays === 1 ? "one a day" : `one in ${quietDays} days`;
    row(`${100 * rate} %`, promise, ((numSeeds * days) / quietDays).toFixed(1), sumOf(false), sumOf(true));
  }
}
console.log(
  `\nTime from a drop to its alarm, after ${LEARNED_DAYS} usual days; median (nine in ten) of ${numDrops}:\n`,
);
row("Usual share", "Drop", ...RATES.map((rate) => `${100 * rate} % sampled`));
row("---", "---", ...RATES.map(() => "---"));
for (const base of [0.02, 0.05, 0.15]) {
  for (const points of [0.02, 0.05, 0.1]) {
    const cells = RATES.map((rate) => {
      const times = Array.from(
        { length: numDrops },
        (_, i) => found(rate, base, points, 1000 + i, true) ?? Number.POSITIVE_INFINITY,
      ).sort((a, b) => a - b);
      const shown = [0.5, 0.9]
        .map((share) => quantile(times, share))
        .map((each) => hours(Number.isFinite(each) ? each : undefined));
      return `${shown[0]} (${shown[1]})`;
    });
    row(`${100 * base} %`, `${100 * points} points`, ...cells);
  }
}
