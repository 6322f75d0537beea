/** Tunings of a simulated server at different times: the kept runs, the drift, and the state after an interruption. */
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { SETTINGS, SimulatedBench, World } from "../../../test/helpers/simulated-bench.js";
import { MACHINE, type Machine } from "../../../test/helpers/simulated-server.js";
import { closed, randomTraffic } from "../../../test/helpers/simulated-traffic.js";
import { tempTree } from "../../../test/scripts/temp-tree.js";
import type { Facts } from "./drift.js";
import { type Tuning, tune } from "./loop.js";
import { type EndedRun, endRun, keptRuns, type OpenRun, openRun } from "./runs.js";

const TRAFFIC = randomTraffic(64, 64, closed(16), 64);
const START = { "max-num-seqs": "2" };
const OPTIONS = { objective: "throughput" };
const FACTS: Facts = { millrace: "1.0.0", cpu: "old", weights: "abc" };
const at = (date: string): number => Date.parse(`${date}T03:00:00Z`);

interface Told {
  readonly machine?: Partial<Machine>;
  readonly maxTrials?: number;
  readonly seed?: number;
}

async function tuned({ journal }: OpenRun, { machine, maxTrials = 2, seed = 1 }: Told): Promise<Tuning> {
  const world = new World({ ...MACHINE, ...machine }, TRAFFIC);
  const bench = new SimulatedBench(world, { seed, ofRun: 0.003, ofRound: 0.003 });
  return tune(
    { ...SETTINGS, start: START, maxTrials },
    bench,
    {
      onFinding: (finding, _, baseline) => journal.begin(finding, baseline),
      onTrial: () => {},
      onOutcome: (trial) => journal.add(trial),
    },
    { trials: [...journal.trials], first: journal.first, baseline: journal.baseline },
    new AbortController().signal,
  );
}

async function run(out: string, date: string, facts = FACTS, told: Told = {}): Promise<EndedRun> {
  const open = openRun(out, facts, OPTIONS, at(date));
  return endRun(out, open, await tuned(open, told), 0.05);
}

test("the first run has nothing to be compared with, and the same server a month later is steady", async () => {
  const out = tempTree({});
  expect(await run(out, "2027-01-31")).toEqual({ name: "0001-2027-01-31", previous: undefined, drift: undefined });
  const { name, previous, drift } = await run(out, "2027-02-28", FACTS, { seed: 2 });
  expect({ name, previous }).toEqual({ name: "0002-2027-02-28", previous: "0001-2027-01-31" });
  expect(drift).toMatchObject({ verdict: "steady", winner: { isSame: true }, changes: [] });
  expect(drift!.ratio!.low).toBeLessThan(1);
  expect(drift!.ratio!.high).toBeGreaterThan(1);
  expect(drift!.gain.now!.value).toBeGreaterThan(1.5);
  expect(readdirSync(join(out, name))).toEqual(expect.arrayContaining(["run.json", "tune.json"]));
});

test("a slower machine has drifted, with the facts that changed", async () => {
  const out = tempTree({});
  await run(out, "2027-01-31");
  const facts = { ...FACTS, cpu: "new", kernel: "7" };
  const { drift } = await run(out, "2027-02-28", facts, { machine: { readMs: 2 * MACHINE.readMs } });
  expect(drift).toMatchObject({ verdict: "drifted", bottleneck: { before: { bottleneck: "seats" } } });
  expect(drift!.ratio!.high).toBeLessThan(0.8);
  expect(drift!.changes).toEqual([
    { name: "cpu", before: "old", now: "new" },
    { name: "kernel", before: undefined, now: "7" },
  ]);
});

test("a drift below the margin is none, and without figures the question stays open", async () => {
  const out = tempTree({});
  await run(out, "2027-01-31");
  const open = openRun(out, FACTS, OPTIONS, at("2027-02-28"));
  const tuning = await tuned(open, { machine: { readMs: 1.02 * MACHINE.readMs, rowMs: 1.02 * MACHINE.rowMs } });
  expect(endRun(out, open, tuning, 0.05).drift).toMatchObject({ verdict: "steady" });
  const later = openRun(out, FACTS, OPTIONS, at("2027-03-28"));
  const { baseline: _, ...without } = await tuned(later, {});
  expect(endRun(out, later, without, 0.05).drift).toMatchObject({ verdict: "open", ratio: undefined });
});

test("an interrupted run goes on within a day under the same facts, and keeps its first figures", async () => {
  const out = tempTree({});
  const killed = openRun(out, FACTS, OPTIONS, at("2027-01-31"));
  const partial = await tuned(killed, { maxTrials: 1 });
  expect(keptRuns(out).map(({ name, figures }) => [name, figures])).toEqual([["0001-2027-01-31", undefined]]);
  const again = openRun(out, FACTS, OPTIONS, at("2027-01-31") + 3_600_000);
  expect(again).toMatchObject({ name: killed.name, isResumed: true });
  expect(again.journal.trials).toEqual(JSON.parse(JSON.stringify(partial.trials)));
  const whole = await tuned(again, { maxTrials: 2, seed: 9 });
  expect(whole.baseline).toEqual(partial.baseline);
  expect(whole.trials).toHaveLength(2);
  endRun(out, again, whole, 0.05);
  expect(openRun(out, FACTS, OPTIONS, at("2027-01-31") + 3_600_000)).toMatchObject({ isResumed: false });
});

test.each([
  ["a day later", FACTS, at("2027-02-02"), OPTIONS],
  ["with another model", { ...FACTS, weights: "def" }, at("2027-01-31"), OPTIONS],
  ["with the clock set back by a month", FACTS, at("2026-12-31"), OPTIONS],
  ["with a journal of other options", FACTS, at("2027-01-31"), { objective: "ttft" }],
])("an interrupted run does not go on %s", (_, facts, nowMs, options) => {
  const out = tempTree({});
  openRun(out, FACTS, OPTIONS, at("2027-01-31"));
  const next = openRun(out, facts, options, nowMs);
  expect(next).toMatchObject({ isResumed: false });
  expect(next.name).toMatch(/^0002-/);
});

test("a run that was killed before its journal, or whose journal is damaged, begins anew", () => {
  const out = tempTree({});
  const first = openRun(out, FACTS, OPTIONS, at("2027-01-31"));
  rmSync(join(first.folder, "tune.json"));
  const second = openRun(out, FACTS, OPTIONS, at("2027-01-31"));
  expect(second).toMatchObject({ name: "0002-2027-01-31", isResumed: false });
  writeFileSync(join(second.folder, "tune.json"), "{");
  expect(openRun(out, FACTS, OPTIONS, at("2027-01-31"))).toMatchObject({ name: "0003-2027-01-31" });
});

test("runs are ordered by number where the clock went back, and damaged or foreign folders are passed over", async () => {
  const out = tempTree({});
  await run(out, "2030-01-01");
  const { name, previous } = await run(out, "2027-01-31", FACTS, { seed: 2 });
  expect({ name, previous }).toEqual({ name: "0002-2027-01-31", previous: "0001-2030-01-01" });
  for (const folder of ["0003-2027-02-01", "9999", "notes"]) mkdirSync(join(out, folder));
  writeFileSync(join(out, "0003-2027-02-01", "run.json"), '{"format": "millrace-tune-run", "version": 1}');
  const third = await run(out, "2027-02-28", FACTS, { seed: 3 });
  expect(third).toMatchObject({ name: "0004-2027-02-28", previous: "0002-2027-01-31" });
});

test("where tokens for a dollar are compared, another price is no drift", async () => {
  const out = tempTree({});
  const priced = (pricePerHour: number): Facts => ({ ...FACTS, objective: "cost", plan: { pricePerHour } });
  const dollars = async (date: string, price: number): Promise<EndedRun> => {
    const open = openRun(out, priced(price), OPTIONS, at(date));
    const tuning = await tuned(open, {});
    const values = tuning.baseline!.values.map((value) => value / price);
    return endRun(out, open, { ...tuning, baseline: { ...tuning.baseline!, values } }, 0.05);
  };
  await dollars("2027-01-31", 1);
  const { drift } = await dollars("2027-02-28", 2);
  expect(drift).toMatchObject({ verdict: "steady", changes: [{ name: "plan" }] });
});
