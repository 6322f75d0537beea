import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { openDatabase } from "./database.js";
import { GroupCommit, SOON_MS } from "./group-commit.js";

test("the writes of one turn are one transaction; one that throws rejects alone", async () => {
  const database = openDatabase(undefined);
  database.exec("CREATE TABLE t (a INTEGER)");
  const commits = new GroupCommit(database);
  const insert = database.prepare("INSERT INTO t VALUES (?)");
  const results = await Promise.allSettled([
    commits.run(() => insert.run(1) && "one"),
    commits.run(() => {
      throw new Error("refused");
    }),
    commits.run(() => insert.run(2) && "two"),
  ]);
  expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  expect(database.prepare("SELECT count(*) AS n FROM t").get()).toMatchObject({ n: 2 });
});

test("where the database undoes the turn by itself, every write rejects and none is committed alone", async () => {
  const database = openDatabase(undefined);
  database.exec("CREATE TABLE t (a INTEGER)");
  const commits = new GroupCommit(database);
  const insert = database.prepare("INSERT INTO t VALUES (?)");
  const results = await Promise.allSettled([
    commits.run(() => insert.run(1)),
    commits.run(() => {
      database.exec("ROLLBACK");
      throw new Error("the disk is full");
    }),
    commits.run(() => insert.run(2)),
  ]);
  expect(results.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
  expect(database.prepare("SELECT count(*) AS n FROM t").get()).toMatchObject({ n: 0 });
});

test("a commit that fails rejects every write, and the next turn works", async () => {
  const folder = mkdtempSync(join(tmpdir(), "millrace-"));
  const database = openDatabase(folder);
  database.exec("CREATE TABLE t (a INTEGER)");
  const commits = new GroupCommit(database);
  const insert = database.prepare("INSERT INTO t VALUES (?)");
  database.exec("BEGIN");
  await expect(commits.run(() => insert.run(1))).rejects.toThrow(/transaction/);
  await commits.run(() => insert.run(2));
  expect(database.prepare("SELECT a FROM t").all()).toMatchObject([{ a: 2 }]);
});

test("where SQLite ends the transaction by itself, nothing of the turn is written", async () => {
  const database = openDatabase(undefined);
  database.exec(`CREATE TABLE t (a INTEGER);
    CREATE TRIGGER full BEFORE INSERT ON t WHEN new.a = 2 BEGIN SELECT RAISE(ROLLBACK, 'disk full'); END`);
  const commits = new GroupCommit(database);
  const insert = database.prepare("INSERT INTO t VALUES (?)");
  const writes = [1, 2, 3].map((a) => commits.run(() => insert.run([a])));
  const results = await Promise.allSettled(writes);
  expect(results.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
  expect(database.prepare("SELECT count(*) AS n FROM t").get()).toMatchObject({ n: 0 });
  await commits.run(() => insert.run([4]));
  expect(() =>
    commits.alone(() => {
      insert.run([5]);
      insert.run([2]);
    }),
  ).toThrow("disk full");
  expect(database.prepare("SELECT a FROM t").all()).toMatchObject([{ a: 4 }]);
});

test("a whole write that fails is undone, alone and among others", async () => {
  const database = openDatabase(undefined);
  database.exec("CREATE TABLE t (a INTEGER UNIQUE)");
  const commits = new GroupCommit(database);
  const insert = database.prepare("INSERT INTO t VALUES (?)");
  const twice = () => commits.run(() => [insert.run([1]), insert.run([1])], { isWhole: true });
  await expect(twice()).rejects.toThrow("UNIQUE");
  const results = await Promise.allSettled([
    commits.run(() => insert.run([2])),
    twice(),
    commits.run(() => insert.run([3])),
  ]);
  expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  expect(database.prepare("SELECT a FROM t").all()).toMatchObject([{ a: 2 }, { a: 3 }]);
});

test("a write that can wait goes with the next, or by itself; none is committed while they are held", async () => {
  const database = openDatabase(undefined);
  database.exec("CREATE TABLE t (a INTEGER)");
  const commits = new GroupCommit(database);
  const insert = database.prepare("INSERT INTO t VALUES (?)");
  const count = () => (database.prepare("SELECT count(*) AS n FROM t").get() as { n: number }).n;
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  // A turn may take longer than SOON_MS while other programs run.
  const waiting = commits.run(() => insert.run([1]), { waitMs: 200 });
  await turn();
  expect(count()).toBe(0);
  await waiting;
  expect(count()).toBe(1);
  commits.run(() => insert.run([2]), { waitMs: SOON_MS });
  await commits.run(() => insert.run([3]));
  expect(count()).toBe(3);
  commits.hold();
  const held = commits.run(() => insert.run([4]));
  await turn();
  expect(count()).toBe(3);
  commits.release();
  await held;
  expect(count()).toBe(4);
});

test("a write that may wait long goes with a later one that may not", async () => {
  const database = openDatabase(undefined);
  database.exec("CREATE TABLE t (a INTEGER)");
  const commits = new GroupCommit(database);
  const insert = database.prepare("INSERT INTO t VALUES (?)");
  const long = commits.run(() => insert.run([1]), { waitMs: 3_600_000 });
  await Promise.all([long, commits.run(() => insert.run([2]), { waitMs: SOON_MS })]);
  expect(database.prepare("SELECT a FROM t").all()).toMatchObject([{ a: 1 }, { a: 2 }]);
});

test("a rush commits before the turn ends, and rushes that follow it share the turn's transaction", async () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  onTestFinished(() => void vi.useRealTimers());
  const database = openDatabase(undefined);
  database.exec("CREATE TABLE t (a INTEGER)");
  const commits = new GroupCommit(database);
  const insert = database.prepare("INSERT INTO t VALUES (?)");
  const isTurnOver = new Promise<string>((resolve) => setImmediate(() => resolve("the turn is over")));
  const add = (a: number): Promise<string> => {
    const added = commits.run(() => insert.run(a) && "committed", { waitMs: 1000 });
    commits.rush();
    return added;
  };
  expect(await Promise.race([add(1), isTurnOver])).toBe("committed");
  const [later, last] = [add(2), add(3)];
  await new Promise((resolve) => process.nextTick(resolve));
  expect(database.prepare("SELECT count(*) AS n FROM t").get()).toMatchObject({ n: 1 });
  expect(await Promise.all([later, last])).toEqual(["committed", "committed"]);
});

test("a rush while commits are held waits for their release", async () => {
  const database = openDatabase(undefined);
  database.exec("CREATE TABLE t (a INTEGER)");
  const commits = new GroupCommit(database);
  const insert = database.prepare("INSERT INTO t VALUES (?)");
  commits.hold();
  const added = commits.run(() => insert.run(1), { waitMs: 1000 });
  commits.rush();
  await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
  expect(database.prepare("SELECT count(*) AS n FROM t").get()).toMatchObject({ n: 0 });
  commits.release();
  await added;
  expect(database.prepare("SELECT count(*) AS n FROM t").get()).toMatchObject({ n: 1 });
});
