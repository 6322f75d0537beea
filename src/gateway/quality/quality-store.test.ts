import { expect, test, vi } from "vitest";
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

function bytesIn(database: Database.Database): number {
  const { bytes } = database.prepare("SELECT coalesce(sum(bytes), 0) AS bytes FROM quality_texts").get([]) as {
    bytes: number;
  };
  const words = database.prepare("SELECT correction, comment FROM quality_feedback").raw().all([]) as (
    | string
    | null
  )[][];
  return words.flat().reduce((sum, text) => sum + Buffer.byteLength(text ?? ""), bytes);
}

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
  // The sweep of a later minute fails after the text was added: alone, and beside a write that succeeds.
  database.exec("ALTER TABLE quality_feedback RENAME TO away");
  await expect(store.add(sampleOf(1, START + DAY_MS))).rejects.toThrow("quality_feedback");
  const alone = store.textBytes;
  const failing = store.add(sampleOf(2, START + DAY_MS));
  const fine = store.add(sampleOf(3));
  await expect(failing).rejects.toThrow("quality_feedback");
  await fine;
  database.exec("ALTER TABLE away RENAME TO quality_feedback");
  expect(countIn(database, "quality_samples")).toBe(2);
  expect([alone, store.textBytes]).toEqual([bytesIn(database) / 2, bytesIn(database)]);
});

test("old samples go, and those beyond the most, by statements that read no whole table", async () => {
  const database = openDatabase(undefined);
  const prepare = vi.spyOn(database, "prepare");
  const store = storeOf(database);
  for (let i = 0; i < 5; i++) await store.add(sampleOf(i));
  // As if a million samples had come since the first three.
  for (const seq of [4, 5]) {
    for (const table of ["quality_samples", "quality_texts"])
      database.prepare(`UPDATE ${table} SET seq = seq + 1000000 WHERE seq = ${seq}`).run([]);
  }
  await store.add(sampleOf(5, START + DAY_MS));
  const left = "SELECT request_id FROM quality_samples ORDER BY seq";
  expect(database.prepare(left).raw().all([])).toEqual([["request-3"], ["request-4"], ["request-5"]]);
  await store.add(sampleOf(6, START + 30.5 * DAY_MS));
  expect(database.prepare(left).raw().all([])).toEqual([["request-5"], ["request-6"]]);
  expect(store.textBytes).toBe(bytesIn(database));
  const statements = new Set(prepare.mock.calls.map(([sql]) => sql));
  const ofSweep = [...statements].filter((sql) => /^(?:SELECT seq FROM|DELETE FROM) quality_(?!texts)/.test(sql));
  expect(ofSweep.length).toBeGreaterThan(3);
  const plans = ofSweep.map((sql) => {
    const numValues = sql.split("?").length - 1;
    return database.prepare(`EXPLAIN QUERY PLAN ${sql}`).raw().all(new Array(numValues).fill(0)) as unknown[][];
  });
  for (const step of plans.flat()) expect(String(step.at(-1))).not.toMatch(/SCAN|TEMP B-TREE/);
});

test("texts of feedback count, go with the oldest texts, and none is kept at 0", async () => {
  const database = openDatabase(undefined);
  const store = storeOf(database);
  const say = async (it: QualityStore, index: number, comment: string, correction?: string) => {
    const of = { atMs: START + index, requestId: `request-${index}`, tenant: "t", model: "m", score: -1 };
    await it.addFeedback({ ...of, comment, correction });
    expect(it.textBytes).toBe(bytesIn(database));
  };
  for (let i = 0; i < 4; i++) {
    await store.add(sampleOf(i, START + i));
    await say(store, i, "é".repeat(100), "b");
  }
  await say(store, 0, "short");
  const limit = Math.floor(store.textBytes / 2);
  const smaller = storeOf(database, limit);
  expect(smaller.textBytes).toBe(bytesIn(database));
  expect(smaller.textBytes).toBeLessThanOrEqual(limit);
  const left = "SELECT request_id FROM quality_feedback WHERE comment IS NOT NULL ORDER BY at_ms";
  expect(database.prepare(left).raw().all([])).toEqual([["request-2"], ["request-3"]]);
  for (let i = 4; i < 20; i++) await say(smaller, i, "c".repeat(300));
  expect(smaller.textBytes).toBeLessThanOrEqual(limit);
  expect(countIn(database, "quality_feedback")).toBe(20);
  await smaller.forget("t", "request-19");
  expect(smaller.textBytes).toBe(bytesIn(database));
  const none = storeOf(database, 0);
  await say(none, 20, "d");
  expect(none.textBytes).toBe(0);
});
