import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openDatabase } from "./database.js";
import { GroupCommit } from "./group-commit.js";

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
