import { expect, test } from "vitest";
import { type Database, openDatabase } from "../store/database.js";
import { groupCommitOf } from "../store/group-commit.js";
import { DAY_MS, type KeptSample, QualityStore } from "./quality-store.js";

const LARGE = 1024 * 1024;
const START = Date.parse("2026-01-03T00:00Z");

const storeOf = (database: Database.Database, textBytes = LARGE, days = 30): QualityStore =>
  new QualityStore(database, groupCommitOf(database), { textBytes, days });

const sampleOf = (index: number, atMs = START): KeptSample => ({
  atMs,
  requestId: `request-${index}`,
  tenant: "t",
  key: "",
  model: "m",
  version: "v",
  path: "/v1/chat/completions",
  weight: 1,
  verdicts: { refusal: { badness: 0, isFailing: false } },
  text: { messages: [{ role: "user", text: "a".repeat(100) }], answer: "b", format: undefined, isPlain: true },
});

const bytesIn = (database: Database.Database): number =>
  (database.prepare("SELECT coalesce(sum(bytes), 0) AS bytes FROM quality_texts").get([]) as { bytes: number }).bytes;

const countIn = (database: Database.Database, table: string): number =>
  (database.prepare(`SELECT count(*) AS count FROM ${table}`).get([]) as { count: number }).count;

test("a start with a smaller limit deletes the texts that are too many, and 0 deletes all", async () => {
  const database = openDatabase(undefined);
  const first = storeOf(database);
  for (let i = 0; i < 250; i++) await first.add(sampleOf(i));
  expect(first.textBytes).toBe(bytesIn(database));
  const limit = Math.floor(first.textBytes / 5);
  const second = storeOf(database, limit);
  expect(bytesIn(database)).toBeLessThanOrEqual(limit);
  expect(countIn(database, "quality_texts")).toBeGreaterThan(40);
  expect(second.textBytes).toBe(bytesIn(database));
  expect(storeOf(database, 0).textBytes).toBe(0);
  expect(countIn(database, "quality_texts")).toBe(0);
  expect(countIn(database, "quality_samples")).toBe(250);
});

test("the sum of the texts' bytes stays true when a sample cannot be kept", async () => {
  const database = openDatabase(undefined);
  const store = storeOf(database);
  await store.add(sampleOf(0));
  database.exec("ALTER TABLE quality_feedback RENAME TO away");
  // The sweep of a later minute fails, after the text has been added: alone, and beside a write that does not.
  await expect(store.add(sampleOf(1, START + DAY_MS))).rejects.toThrow("quality_feedback");
  expect(store.textBytes).toBe(bytesIn(database));
  const failing = store.add(sampleOf(2, START + DAY_MS));
  const fine = store.add(sampleOf(3));
  await expect(failing).rejects.toThrow("quality_feedback");
  await fine;
  expect(countIn(database, "quality_samples")).toBe(2);
  expect(store.textBytes).toBe(bytesIn(database));
});
