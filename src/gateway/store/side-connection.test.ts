import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { openDatabase } from "./database.js";
import { groupCommitOf } from "./group-commit.js";
import { SideConnection } from "./side-connection.js";

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

function open(maxLogPages?: number) {
  const folder = mkdtempSync(join(tmpdir(), "millrace-side-"));
  const database = openDatabase(folder);
  database.exec("CREATE TABLE t (a INTEGER, b TEXT)");
  const side = new SideConnection(database, maxLogPages);
  closing.push(async () => {
    await side.close();
    database.close();
    rmSync(folder, { recursive: true });
  });
  const insert = database.prepare("INSERT INTO t VALUES (?, ?)");
  const commits = groupCommitOf(database);
  const logBytes = () => statSync(join(folder, "gateway.db-wal")).size;
  return {
    database,
    folder,
    side,
    commits,
    logBytes,
    write: (a: number) => commits.run(() => insert.run([a, "x".repeat(3000)])),
  };
}

test("reads see what was handed over before them, and do not hold up the event loop", async () => {
  const { side, write } = open();
  void write(1);
  expect(await side.read("SELECT a FROM t", [])).toEqual([{ a: 1 }]);
  expect(await side.read("SELECT a FROM t WHERE a = ?", [1n], { isExact: true })).toEqual([{ a: 1n }]);
  await expect(side.read("SELECT absent FROM t", [])).rejects.toThrow("no such column");
  let turns = 0;
  const counter = setInterval(() => turns++, 1);
  const long =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000) SELECT count(*) AS n FROM n";
  expect(await side.read(long, [])).toEqual([{ n: 300_000 }]);
  clearInterval(counter);
  expect(turns).toBeGreaterThan(5);
});

test("one tenant's queries do not pile up, and leave others their turn", async () => {
  const { side } = open();
  const ask = (tenant: string) => side.read("SELECT 1 AS one", [], { tenant });
  const results = await Promise.allSettled([...Array.from({ length: 30 }, () => ask("a")), ask("b")]);
  expect(results.at(-1)).toMatchObject({ status: "fulfilled", value: [{ one: 1 }] });
  const refused = results.filter((each) => each.status === "rejected");
  expect(refused.length).toBeGreaterThan(5);
  expect(refused[0]!.reason).toMatchObject({ code: "queue_full" });
});

test("commits leave the disk to the thread, which keeps the log short while writes go on", async () => {
  const { side, commits, write, logBytes } = open(50);
  for (let i = 0; i < 1500; i++) await write(i);
  // SQLite's own checkpoints, in a commit, begin at 4 MB.
  expect(logBytes()).toBeGreaterThan(5_000_000);
  const writes = (async () => {
    for (let i = 0; i < 300; i++) await write(i);
  })();
  await side.checkpoint();
  await writes;
  const before = logBytes();
  for (let i = 0; i < 300; i++) await write(i);
  // The log begins again at its start.
  expect(logBytes()).toBe(before);
  await side.close();
  expect(logBytes()).toBe(0);
  await commits.run(() => {});
});

test("a reader of another process that stays does not hold up writes while the log is to begin again", async () => {
  const { database, folder, side, write } = open(50);
  const other = openDatabase(folder);
  for (let i = 0; i < 100; i++) await write(i);
  other.exec("BEGIN");
  other.prepare("SELECT count(*) FROM t").get([]);
  for (let i = 0; i < 100; i++) await write(i);
  let [isOver, longestMs] = [false, 0];
  const checkpoint = side.checkpoint().then(() => {
    isOver = true;
  });
  while (!isOver) {
    const beganMs = performance.now();
    // Some writes bypass the group commit.
    database.exec("INSERT INTO t VALUES (0, '')");
    longestMs = Math.max(longestMs, performance.now() - beganMs);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await checkpoint;
  expect(longestMs).toBeLessThan(700);
  other.exec("COMMIT");
  other.close();
});

test("a database in memory is read directly", async () => {
  const database = openDatabase(undefined);
  const side = new SideConnection(database);
  expect(await side.read("SELECT 1 AS one", [])).toEqual([{ one: 1 }]);
  await side.checkpoint();
  await side.close();
});
