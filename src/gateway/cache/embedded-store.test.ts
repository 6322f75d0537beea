/** The embedded store's own promises: it outlasts the process, and a thread writes what memory has until then. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { openCacheDatabase } from "../store/database.js";
import { EmbeddedStore } from "./embedded-store.js";
import { bytesOf } from "./stored-answer.js";
import { answerOf, idOf, NOW_MS } from "./test-answers.js";

let nowMs = NOW_MS;
const now = () => nowMs;

const closing: (() => Promise<unknown> | unknown)[] = [];
afterEach(async () => {
  nowMs = NOW_MS;
  for (const close of closing.splice(0).reverse()) await close();
});

/** A store with the answers' thread: a database in memory has none. */
function openInFolder(maxBytes: number, maxMemoryBytes: number): EmbeddedStore {
  const folder = mkdtempSync(join(tmpdir(), "millrace-cache-"));
  closing.push(() => rmSync(folder, { recursive: true, force: true }));
  const database = openCacheDatabase(folder);
  closing.push(() => database.close());
  const store = new EmbeddedStore(database, { table: "cache_exact", maxBytes, maxMemoryBytes }, now);
  closing.push(() => store.close());
  return store;
}

test("the embedded store outlasts its process, and shrinks to a smaller bound", async () => {
  const folder = mkdtempSync(join(tmpdir(), "millrace-cache-"));
  closing.push(() => rmSync(folder, { recursive: true, force: true }));
  const options = { table: "cache_exact", maxBytes: 1 << 20, maxMemoryBytes: 1 << 20 } as const;
  const database = openCacheDatabase(folder);
  const store = new EmbeddedStore(database, options, now);
  await store.put(idOf(1), answerOf());
  nowMs++;
  await store.put(idOf(2), answerOf());
  await store.close();
  database.close();
  const again = openCacheDatabase(folder);
  closing.push(() => again.close());
  const second = new EmbeddedStore(again, { ...options, maxBytes: bytesOf(answerOf()) * 2 }, now);
  expect(second.get(idOf(1))).toEqual(answerOf());
  nowMs++;
  await second.put(idOf(3), answerOf());
  expect([1, 2, 3].map((n) => second.get(idOf(n)) !== undefined)).toEqual([true, false, true]);
});

test("the embedded store writes answers that come together in one transaction, and searches for no key that it never had", async () => {
  const database = openCacheDatabase(undefined);
  const store = new EmbeddedStore(database, { table: "cache_exact", maxBytes: 1 << 20, maxMemoryBytes: 0 }, now);
  const ids = ["0a", "ff", "ffffff"].map((start) => start.padEnd(64, "1"));
  const written = ids.map((id) => store.put(id, answerOf({ tags: ["a"] })));
  expect(new Set(written).size).toBe(1);
  expect(store.get(ids[0]!)).toEqual(answerOf({ tags: ["a"] }));
  await written[0];
  const next = new EmbeddedStore(database, { table: "cache_exact", maxBytes: 1 << 20, maxMemoryBytes: 0 }, now);
  for (const id of ids) expect(next.get(id)).toEqual(answerOf({ tags: ["a"] }));
  // Stored by another gateway after this one has opened: a miss, and replaced.
  await next.put(idOf(5), answerOf({ tags: ["b"] }));
  expect(store.get(idOf(5))).toBeUndefined();
  await store.put(idOf(5), answerOf({ status: 201, tags: ["b"] }));
  expect([store.get(idOf(5))?.status, await store.purge({ tag: "b" })]).toEqual([201, 1]);
});

test("where answers that come together cannot be written, none of them is kept", async () => {
  const database = openCacheDatabase(undefined);
  const store = new EmbeddedStore(database, { table: "cache_exact", maxBytes: 1 << 20, maxMemoryBytes: 1 << 20 }, now);
  database.exec(`CREATE TRIGGER full BEFORE INSERT ON cache_exact WHEN new.model = CAST('bad' AS BLOB)
    BEGIN SELECT RAISE(FAIL, 'disk full'); END`);
  const written = [store.put(idOf(1), answerOf()), store.put(idOf(2), answerOf({ model: "bad" }))];
  for (const each of written) await expect(each).rejects.toThrow("disk full");
  expect([store.get(idOf(1)), store.get(idOf(2))]).toEqual([undefined, undefined]);
  expect(store.stats()).toMatchObject({ entries: 0, bytes: 0 });
  await store.put(idOf(1), answerOf());
  expect(store.stats()).toMatchObject({ entries: 1 });
});

test("an answer that is not written yet is found, purged for good, and kept again after the purge", async () => {
  const store = openInFolder(1 << 20, 1 << 20);
  const first = store.put(idOf(1), answerOf({ status: 201 }));
  expect(store.get(idOf(1))?.status).toBe(201);
  const purging = store.purge({ model: "m" });
  expect(store.get(idOf(1))).toBeUndefined();
  const second = store.put(idOf(1), answerOf({ status: 202 }));
  expect([await purging, await first, store.get(idOf(1))?.status]).toEqual([1, undefined, 202]);
  await second;
  expect(store.get(idOf(1))?.status).toBe(202);
  expect(store.stats()).toEqual({ kind: "embedded", entries: 1, bytes: bytesOf(answerOf()), maxBytes: 1 << 20 });
});

test("a written answer that is asked for while it is purged does not come back", async () => {
  const store = openInFolder(1 << 20, 1 << 20);
  await store.put(idOf(1), answerOf({ status: 201 }));
  // Its newer version has not been written when the purge begins.
  void store.put(idOf(1), answerOf({ status: 202 }));
  const purging = store.purge({ model: "m" });
  expect([store.get(idOf(1)), await purging, store.get(idOf(1))]).toEqual([undefined, 1, undefined]);
  await store.put(idOf(2), answerOf());
  expect(store.get(idOf(2))).toBeDefined();
});

test("an answer that made room is gone from memory too", async () => {
  const answer = answerOf({ body: Buffer.alloc(1000) });
  const store = openInFolder(2 * bytesOf(answer), 1 << 20);
  for (const n of [1, 2, 3]) {
    nowMs++;
    await store.put(idOf(n), answer);
    // The answer is now in memory; its use is written with the next answer, at that time.
    expect(store.get(idOf(n))).toBeDefined();
  }
  expect([1, 2, 3].map((n) => store.get(idOf(n)) !== undefined)).toEqual([false, true, true]);
  expect(store.stats()).toMatchObject({ entries: 2 });
});

test("where much waits for the disk, further answers of the cache are not kept, and later ones are", async () => {
  const store = openInFolder(1 << 30, 1 << 20);
  const body = Buffer.alloc(12 << 20);
  const written = [1, 2, 3, 4].map((n) => store.put(idOf(n), answerOf({ body })));
  expect(store.get(idOf(4))).toBeUndefined();
  await Promise.all(written);
  await store.put(idOf(4), answerOf({ body }));
  expect([1, 2, 3, 4].map((n) => store.get(idOf(n))?.body.equals(body))).toEqual([true, true, true, true]);
});

test("an answer that has no form as bytes is given up, and holds up no other", async () => {
  const store = openInFolder(1 << 30, 1 << 20);
  const body = Buffer.alloc(33 << 20);
  const strange = answerOf({ body, headers: { "content-type": 1n as never } });
  await expect(store.put(idOf(1), strange)).rejects.toThrow("BigInt");
  expect(store.get(idOf(1))).toBeUndefined();
  await store.put(idOf(2), answerOf());
  expect(store.get(idOf(2))).toBeDefined();
});

test("a file that is gone is not made anew by the thread", async () => {
  const folder = mkdtempSync(join(tmpdir(), "millrace-cache-"));
  const database = openCacheDatabase(folder);
  closing.push(() => database.close());
  const store = new EmbeddedStore(database, { table: "cache_exact", maxBytes: 1 << 20, maxMemoryBytes: 0 }, now);
  closing.push(() => store.close());
  rmSync(folder, { recursive: true });
  await expect(store.put(idOf(1), answerOf())).rejects.toMatchObject({ code: "file_unreadable" });
  expect([store.get(idOf(1)), existsSync(folder)]).toEqual([undefined, false]);
});

test("two tables of a database are written and purged side by side", async () => {
  const folder = mkdtempSync(join(tmpdir(), "millrace-cache-"));
  closing.push(() => rmSync(folder, { recursive: true, force: true }));
  const database = openCacheDatabase(folder);
  closing.push(() => database.close());
  const stores = (["cache_exact", "idempotency"] as const).map(
    (table) => new EmbeddedStore(database, { table, maxBytes: 1 << 30, maxMemoryBytes: 0 }, now),
  );
  for (const store of stores) closing.push(() => store.close());
  const written = stores.flatMap((store) =>
    [1, 2, 3].map((n) => store.put(idOf(n), answerOf({ body: Buffer.alloc(1 << 20) }))),
  );
  const purged = stores.map((store) => store.purge({}));
  await Promise.all(written);
  expect(await Promise.all(purged)).toEqual([3, 3]);
});

test("a damaged database of kept answers is made anew", async () => {
  const folder = mkdtempSync(join(tmpdir(), "millrace-cache-"));
  closing.push(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, "cache.db"), "no database, but long enough to look like one ".repeat(200));
  const database = openCacheDatabase(folder);
  closing.push(() => database.close());
  const store = new EmbeddedStore(database, { table: "cache_exact", maxBytes: 1 << 20, maxMemoryBytes: 0 }, now);
  await store.put(idOf(1), answerOf());
  expect(store.get(idOf(1))).toEqual(answerOf());
});
