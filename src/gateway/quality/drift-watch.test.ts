import { pino } from "pino";
import { expect, test } from "vitest";
import { TestRng } from "../../../test/helpers/rng.js";
import { AlertStore } from "../alerts/alert-store.js";
import { type Database, openDatabase } from "../store/database.js";
import { DriftWatch, type FoundDrift } from "./drift-watch.js";

const DAY_MS = 86_400_000;
/** A Saturday, so that days from the fifth on are of a known part of the week. */
const START = Date.parse("2026-01-03T00:00Z");
const SAMPLES_PER_DAY = 2000;

function watch(database: Database.Database, logger = pino({ level: "silent" })) {
  const store = new AlertStore(database);
  const alerts = { store, coolDownMs: DAY_MS, numReceivers: 1 };
  return { store, drift: new DriftWatch({ database, logger, quietDays: 100, keepDays: 30, alerts }) };
}

interface Span {
  readonly from: number;
  readonly to: number;
  readonly share: number;
  readonly version?: string;
  readonly tenant?: string;
  readonly isPlain?: boolean;
}

type Pass = (drift: DriftWatch, span: Span) => readonly FoundDrift[];

/** Passes samples to a watch, from a generator of the test's own. */
const passer =
  (rng = new TestRng(11)): Pass =>
  (drift, { from, to, share, version = "v1", tenant = "", isPlain = true }) =>
    Array.from({ length: Math.round((to - from) * SAMPLES_PER_DAY) }, (_, i) => {
      const atMs = START + from * DAY_MS + (i / SAMPLES_PER_DAY) * DAY_MS;
      drift.seen("m", version, atMs);
      return drift.add({ atMs, model: "m", tenant, name: "refusal", badness: Number(rng.chance(share)), isPlain });
    }).flat();

test("a drift is stored once as an alert, with the change that it began with, and its state survives a restart", () => {
  const pass = passer();
  const database = openDatabase(undefined);
  const first = watch(database);
  expect(pass(first.drift, { from: 0, to: 5, share: 0.03 })).toEqual([]);
  first.drift.close();
  const { drift, store } = watch(database);
  expect(drift.report(START + 5 * DAY_MS)).toMatchObject([
    { model: "m", name: "refusal", isLearned: true, drift: undefined },
  ]);
  const found = pass(drift, { from: 5, to: 6, share: 0.15, version: "v2" });
  expect(found.length).toBeGreaterThan(1);
  expect(found[0]!.change).toMatchObject({ atMs: START + 5 * DAY_MS, version: "v2", before: "v1" });
  const alerts = store.page(100, 10).map(({ alert }) => alert);
  expect(alerts).toMatchObject([{ metric: "quality_refusal", model: "m", tenant: "", key: "" }]);
  expect(alerts[0]!.text).toMatch(
    /^m: refusal is \d\d\.\d % in \d+ samples since 2026-01-\d\dT\d\d:\d\dZ, [23]\.\d % before; m changed at 2026-01-08T00:00Z$/,
  );
  expect(store.due(0, START + 7 * DAY_MS, 10)).toHaveLength(1);
  drift.close();
});

test("a drift of one tenant is its own, and samples beyond the plain share say nothing of all tenants", () => {
  const pass = passer();
  const { drift } = watch(openDatabase(undefined));
  for (const day of [0, 1, 2, 3]) {
    expect(pass(drift, { from: day, to: day + 0.9, share: 0.03, tenant: "a" })).toEqual([]);
    expect(pass(drift, { from: day + 0.9, to: day + 1, share: 0.03, tenant: "b", isPlain: false })).toEqual([]);
  }
  // There are too few samples of b until now.
  pass(drift, { from: 4, to: 5, share: 0.03, tenant: "b", isPlain: false });
  expect(pass(drift, { from: 5, to: 6, share: 0.2, tenant: "b", isPlain: false }).length).toBeGreaterThan(0);
  const drifted = drift.report(START + 6 * DAY_MS).filter(({ drift: found }) => found !== undefined);
  expect(drifted.map(({ tenant }) => tenant)).toEqual(["b"]);
  drift.close();
});

test("what is accepted becomes what is usual", () => {
  const pass = passer();
  const { drift } = watch(openDatabase(undefined));
  pass(drift, { from: 0, to: 3, share: 0.03 });
  expect(pass(drift, { from: 3, to: 4, share: 0.15 }).length).toBeGreaterThan(0);
  expect(drift.accept("m", "other")).toBe(0);
  expect(drift.accept("m", undefined)).toBe(1);
  expect(pass(drift, { from: 4, to: 9, share: 0.15 })).toEqual([]);
  drift.close();
});

test("a restart lowers no threshold: it knows how many judgements a day has", () => {
  const pass = passer();
  const database = openDatabase(undefined);
  const first = watch(database);
  pass(first.drift, { from: 0, to: 5, share: 0.03 });
  first.drift.close();
  const samplesUntilFound = (restarts: boolean): number => {
    const copy = openDatabase(undefined);
    for (const table of ["quality_series", "quality_rate"]) {
      const rows = database.prepare(`SELECT * FROM ${table}`).raw().all([]) as unknown[][];
      watch(copy).drift.close();
      for (const row of rows) {
        if (table === "quality_rate" && !restarts) continue;
        copy.prepare(`INSERT OR REPLACE INTO ${table} VALUES (${row.map(() => "?").join(", ")})`).run(row);
      }
    }
    const { drift } = watch(copy);
    let numSamples = 0;
    for (; numSamples < 500; numSamples++) {
      const atMs = START + 5 * DAY_MS + numSamples;
      const badness = Number(numSamples % 4 === 0);
      if (drift.add({ atMs, model: "m", tenant: "", name: "refusal", badness, isPlain: true }).length > 0) break;
    }
    drift.close();
    return numSamples;
  };
  expect(samplesUntilFound(true)).toBeGreaterThan(samplesUntilFound(false));
});

const seriesIn = (database: Database.Database): readonly string[] =>
  database.prepare("SELECT tenant FROM quality_series ORDER BY tenant").pluck().all([]) as string[];

const sampleAt = (day: number, tenant: string, isPlain = false) => {
  return { atMs: START + day * DAY_MS, model: "m", tenant, name: "refusal", badness: 0, isPlain };
};

test("a series without samples for keep-days is no drift, and is forgotten with its row", () => {
  const pass = passer();
  const database = openDatabase(undefined);
  const first = watch(database).drift;
  pass(first, { from: 0, to: 5, share: 0.03, tenant: "gone", isPlain: false });
  pass(first, { from: 5, to: 6, share: 0.3, tenant: "gone", isPlain: false });
  first.close();
  const { drift } = watch(database);
  expect(drift.drifted(START + 6 * DAY_MS)).toHaveLength(1);
  expect(drift.drifted(START + 35 * DAY_MS)).toHaveLength(1);
  expect(drift.drifted(START + 36.1 * DAY_MS)).toEqual([]);
  drift.add(sampleAt(36.1, "here"));
  expect(drift.report(START + 36.1 * DAY_MS).map(({ tenant }) => tenant)).toEqual(["here"]);
  drift.close();
  expect(seriesIn(database)).toEqual(["here"]);
});

test("at the most series, that of a tenant goes which is longest without a sample, and one warning is given", () => {
  const database = openDatabase(undefined);
  const warnings: string[] = [];
  const logger = pino({ level: "warn" }, { write: (line: string) => warnings.push(line) });
  const { drift } = watch(database, logger);
  drift.add(sampleAt(0, "", true));
  for (let i = 1; i < 5000; i++) drift.add(sampleAt(0, `t${i}`));
  drift.add(sampleAt(0.1, "t1"));
  expect(warnings).toEqual([]);
  for (const tenant of ["new1", "new2"]) drift.add(sampleAt(0.2, tenant));
  drift.close();
  const kept = new Set(seriesIn(database));
  expect(kept.size).toBe(5000);
  for (const tenant of ["", "t1", "t4", "new1", "new2"]) expect(kept).toContain(tenant);
  for (const tenant of ["t2", "t3"]) expect(kept).not.toContain(tenant);
  expect(warnings).toHaveLength(1);
  expect(warnings[0]).toContain("at most 5000 series");
  // A series that returns is kept, though its old row was due for deletion.
  const again = watch(database).drift;
  again.add(sampleAt(0.3, "t2"));
  again.add(sampleAt(0.3, "t4"));
  again.close();
  expect(seriesIn(database)).toEqual(expect.arrayContaining(["t2", "t4"]));
});

test("a database from before series had a time is read", () => {
  const pass = passer();
  const database = openDatabase(undefined);
  const first = watch(database).drift;
  pass(first, { from: 0, to: 5, share: 0.03 });
  first.close();
  database.exec("ALTER TABLE quality_series DROP COLUMN at_ms");
  const { drift } = watch(database);
  drift.add(sampleAt(5, "t"));
  expect(drift.report(START + 5 * DAY_MS).map(({ tenant }) => tenant)).toEqual(["", "t"]);
  drift.close();
});
