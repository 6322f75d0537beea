/**
 * Entries are found, bounded and kept apart; the index finds the results of a plain search, and lets other work go on.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, expect, test } from "vitest";
import { TestRng } from "../../../../test/helpers/rng.js";
import type { StoredAnswer } from "../../cache/stored-answer.js";
import { openDatabase } from "../../store/database.js";
import { GroupCommit } from "../../store/group-commit.js";
import { dot, unitVector, VectorIndex } from "../index/vector-index.js";
import { questionOf } from "../text/question.js";
import { Entries } from "./entries.js";
import { Judgements } from "./judgements.js";

const folders: string[] = [];
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "millrace-entries-"));
  folders.push(folder);
  return folder;
}

const vector = (...values: number[]) => unitVector(values)!;

const answer = (fields: Partial<StoredAnswer> = {}): StoredAnswer => ({
  model: "m",
  tenant: "a",
  tags: [],
  createdMs: 0,
  expiresMs: 1000,
  status: 200,
  headers: {},
  isEventStream: false,
  marks: [],
  usage: undefined,
  check: "",
  body: Buffer.from("{}"),
  ...fields,
});

function opened(folder: string | undefined, limits: { maxEntries?: number; maxBytes?: number } = {}, now = () => 0) {
  const database = openDatabase(folder);
  const commits = new GroupCommit(database);
  const entries = new Entries(database, commits, "m", { maxEntries: 10, maxBytes: 1 << 20, ...limits }, now);
  const add = (question: string, values: number[], fields: Partial<StoredAnswer> = {}, namespace = "n") =>
    entries.add({ question, text: question, answer: answer(fields), namespace, vector: vector(...values) });
  const find = async (question: string, values: number[], namespace = "n") =>
    (await entries.candidates(namespace, questionOf(question), vector(...values), 5, 0.5)).map(({ id }) => id);
  return { database, commits, entries, add, find };
}

test("two gateways on one folder know their own entries and those of before; a later one knows all", async () => {
  const folder = newFolder();
  const [first, second] = [opened(folder), opened(folder)];
  await Promise.all([first.entries.opened, second.entries.opened]);
  const ids = [await first.add("What is it?", [1, 2, 3]), await second.add("Who is it?", [1, 2, 3])];
  expect([await first.find("x", [1, 2, 3]), await second.find("x", [1, 2, 3])]).toEqual(ids.map((id) => [id]));
  const third = opened(folder);
  await third.entries.opened;
  expect((await third.find("x", [1, 2, 3])).toSorted()).toEqual(ids.toSorted());
  // An entry deleted in one store is no answer in another that still knows it.
  expect(await first.entries.delete(ids[0]!)).toBe(true);
  expect(third.entries.get(ids[0]!, "a")).toBeUndefined();
  for (const { database } of [first, second, third]) database.close();
});

test("entries outlast the process, with a NUL in their text, and come back as they were", async () => {
  const folder = newFolder();
  const first = opened(folder);
  const id = await first.add("What is\0 it?", [1, 2, 3], { body: Buffer.from("{\0}") });
  first.database.close();
  const { entries, find } = opened(folder);
  await entries.opened;
  expect(await find("x", [1, 2, 3.1])).toEqual([id]);
  expect(entries.get(id, "a")).toMatchObject({ question: "What is\0 it?", answer: { body: Buffer.from("{\0}") } });
  expect(entries.size).toBe(1);
});

test("another tenant, another namespace, another model's vectors and an expired answer are none", async () => {
  let nowMs = 0;
  const { entries, add, find } = opened(undefined, {}, () => nowMs);
  const id = await add("q", [1, 0]);
  expect(entries.get(id, "b")).toBeUndefined();
  expect(await entries.delete(id, "b")).toBe(false);
  expect(await find("q", [1, 0], "other")).toEqual([]);
  expect(await find("q", [1, 0, 0])).toEqual([]);
  nowMs = 1001;
  expect(entries.get(id, "a")).toBeUndefined();
  expect(await entries.delete(id, "a")).toBe(true);
  expect([entries.size, entries.numBytes]).toEqual([0, 0]);
});

test("the oldest go where the bounds are passed, from the database too", async () => {
  const { entries, add, database } = opened(undefined, { maxEntries: 3 });
  const ids = [];
  for (let i = 0; i < 5; i++) ids.push(await add(`q${i}`, [1, i]));
  expect(ids.map((id) => entries.get(id, "a") !== undefined)).toEqual([false, false, true, true, true]);
  expect(database.prepare("SELECT count(*) AS n FROM cache_semantic").get([])).toMatchObject({ n: 3 });
  const small = opened(undefined, { maxBytes: 3000 });
  for (let i = 0; i < 5; i++) await small.add(`q${i}`, [1, i], { body: Buffer.alloc(1000) });
  expect(small.entries.size).toBe(1);
  expect(small.entries.numBytes).toBeLessThanOrEqual(3000);
});

test("an entry of the same form is a candidate where many are as near", async () => {
  const { add, find } = opened(undefined, { maxEntries: 100 });
  const ids = [];
  for (let i = 0; i < 50; i++) ids.push(await add(`What is the root of ${i}?`, [1, 1]));
  expect((await find("What's the root of 40?", [1, 1])).at(0)).toBe(ids[40]);
});

test("judgements and the end of a service outlast the process, per scope", async () => {
  const folder = newFolder();
  const first = opened(folder);
  const judgements = new Judgements(first.database, first.commits, "s");
  await judgements.add({ promptClass: "WHAT en", similarity: 0.9, isSame: true, judgedIn: "shadow" });
  await judgements.add({ promptClass: "WHAT en", similarity: 0.8, isSame: false, judgedIn: "audit" });
  await judgements.disable();
  first.database.close();
  const { database, commits } = opened(folder);
  const again = new Judgements(database, commits, "s");
  expect(again.all()).toEqual([
    { promptClass: "WHAT en", similarity: 0.9, isSame: true, judgedIn: "shadow" },
    { promptClass: "WHAT en", similarity: 0.8, isSame: false, judgedIn: "audit" },
  ]);
  expect(again.isDisabled).toBe(true);
  expect(new Judgements(database, commits, "t").all()).toEqual([]);
  await again.reset();
  expect([again.all(), again.isDisabled]).toEqual([[], false]);
});

test("the index finds what a plain search finds", async () => {
  const coordinate = fc.integer({ min: -3, max: 3 });
  const point = fc.tuple(coordinate, coordinate, coordinate).filter((values) => values.some((value) => value !== 0));
  await fc.assert(
    fc.asyncProperty(fc.array(point, { maxLength: 30 }), point, async (points, wanted) => {
      const index = new VectorIndex();
      for (const [i, values] of points.entries()) index.add(String(i), i % 2 === 0 ? "even" : "odd", vector(...values));
      for (const id of ["0", "4"]) index.delete(id);
      const query = vector(...wanted);
      const found = await index.nearest("even", query, 3, 0.2);
      const all = points
        .map((values, i) => ({ id: String(i), similarity: dot(vector(...values), query) }))
        .filter(({ id, similarity }) => Number(id) % 2 === 0 && id !== "0" && id !== "4" && similarity >= 0.2)
        .sort((a, b) => b.similarity - a.similarity);
      expect(found.map(({ similarity }) => similarity)).toEqual(all.slice(0, 3).map(({ similarity }) => similarity));
    }),
  );
});

test("other work goes on during a scan of 50,000 vectors", async () => {
  const random = new TestRng(1);
  const index = new VectorIndex();
  for (let i = 0; i < 50_000; i++) {
    const values = new Float32Array(384);
    for (let j = 0; j < 8; j++) values[random.int(0, 383)] = random.next();
    index.add(String(i), "n", unitVector(values) ?? values);
  }
  let numTurns = 0;
  let isOver = false;
  const turn = () => {
    numTurns++;
    if (!isOver) setImmediate(turn);
  };
  setImmediate(turn);
  expect(await index.nearest("n", unitVector(new Array(384).fill(1))!, 8, 0)).toHaveLength(8);
  isOver = true;
  expect(numTurns).toBeGreaterThanOrEqual(45);
});
