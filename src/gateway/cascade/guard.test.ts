import { expect, test } from "vitest";
import { openDatabase } from "../store/database.js";
import { Guard } from "./guard.js";

const TERMS = { maxLoss: 0.05, alarmEvery: 1000 };
const sample = (isKept: boolean, isWorse: number) => ({ requestId: "r", score: 0.9, isKept, isWorse });

test("answers that the judge sends on cost no quality, however bad they are", () => {
  const guard = new Guard(openDatabase(undefined), "c", "1", TERMS);
  for (let i = 0; i < 500; i++) expect(guard.add(sample(false, 1))).toBe(false);
  expect(guard.report()).toMatchObject({ isOpen: true, numSamples: 500, keptShare: 0, loss: { mean: 0 } });
  expect(guard.report().smallLoss.mean).toBe(1);
});

test("kept answers that are worse close it, once, and it stays closed over a restart", () => {
  const database = openDatabase(undefined);
  const guard = new Guard(database, "c", "1", TERMS);
  for (let i = 0; i < 200; i++) guard.add(sample(true, Number(i % 50 === 0)));
  expect(guard.isOpen).toBe(true);
  const closings = Array.from({ length: 60 }, () => guard.add(sample(true, 1)));
  expect(closings.filter(Boolean)).toHaveLength(1);
  expect(closings.indexOf(true)).toBeLessThan(10);
  const restarted = new Guard(database, "c", "1", TERMS);
  expect(restarted.report()).toEqual(guard.report());
  expect(restarted.isOpen).toBe(false);
});

test("a sample that cannot be stored does not count, and the next one closes it with its row and its alarm", () => {
  const database = openDatabase(undefined);
  const guard = new Guard(database, "c", "1", TERMS);
  guard.add(sample(true, 1));
  const before = guard.report();
  database.exec("CREATE TRIGGER full BEFORE UPDATE ON cascade_guards BEGIN SELECT RAISE(ABORT, 'full'); END");
  for (let i = 0; i < 50; i++) expect(() => guard.add(sample(true, 1))).toThrow("full");
  expect(() => guard.reopen()).toThrow("full");
  expect(guard.report()).toEqual(before);
  expect(database.prepare("SELECT count(*) AS n FROM cascade_samples").get([])).toMatchObject({ n: 1 });
  database.exec("DROP TRIGGER full");
  const closings = Array.from({ length: 50 }, () => guard.add(sample(true, 1)));
  expect(closings.filter(Boolean)).toHaveLength(1);
  expect(new Guard(database, "c", "1", TERMS).report()).toEqual(guard.report());
});

test("another pair of models starts open, and so does a cascade that was opened again", () => {
  const database = openDatabase(undefined);
  const guard = new Guard(database, "c", "1", TERMS);
  for (let i = 0; i < 50; i++) guard.add(sample(true, 1));
  expect(guard.isOpen).toBe(false);
  expect(new Guard(database, "d", "1", TERMS).isOpen).toBe(true);
  guard.reopen();
  expect(guard.report()).toMatchObject({ isOpen: true, numSamples: 0 });
  for (let i = 0; i < 50; i++) guard.add(sample(true, 1));
  const other = new Guard(database, "c", "2", TERMS);
  expect(other.report()).toMatchObject({ isOpen: true, numSamples: 0 });
  expect(new Guard(database, "c", "2", TERMS).report()).toEqual(other.report());
});
