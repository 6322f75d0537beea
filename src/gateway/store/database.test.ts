/** Opening the gateway's database: the error of a damaged one, and its fate. */
import {
  chmodSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openCacheDatabase, openDatabase } from "./database.js";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "database-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const PAGE_BYTES = 4096;

/** Fills a table of many pages. */
function fill(open: typeof openDatabase): void {
  const database = open(folder);
  database.exec("CREATE TABLE rows (id INTEGER PRIMARY KEY, text TEXT)");
  const insert = database.prepare("INSERT INTO rows (text) VALUES (?)");
  for (let i = 0; i < 100; i++) insert.run(["x".repeat(1000)]);
  database.pragma("wal_checkpoint(TRUNCATE)");
  database.close();
}

const damages: readonly (readonly [string, (path: string) => void])[] = [
  ["is no database", (path) => writeFileSync(path, "nothing of the kind".repeat(1000))],
  ["has been cut", (path) => truncateSync(path, PAGE_BYTES)],
  ["has been overwritten behind its first page", (path) => writeFileSync(path, overwritten(readFileSync(path)))],
];

function overwritten(bytes: Buffer): Buffer {
  return Buffer.concat([bytes.subarray(0, PAGE_BYTES), Buffer.alloc(bytes.length - PAGE_BYTES, 0xff)]);
}

test.skipIf(process.platform === "win32")("nobody else can read a database, nor the files beside it", () => {
  chmodSync(folder, 0o755);
  writeFileSync(join(folder, "gateway.db"), "", { mode: 0o644 });
  const databases = [openDatabase(folder), openCacheDatabase(folder)];
  for (const database of databases) database.exec("CREATE TABLE rows (text TEXT)");
  const rights = readdirSync(folder).map((name) => (statSync(join(folder, name)).mode & 0o777).toString(8));
  expect(rights).toEqual(Array.from({ length: 6 }, () => "600"));
  for (const database of databases) database.close();
});

test.each(damages)("a file that %s is named, with what to do, and stays as it is", (_, damage) => {
  fill(openDatabase);
  const path = join(folder, "gateway.db");
  damage(path);
  const before = readFileSync(path);
  expect(() => openDatabase(folder)).toThrow(
    expect.objectContaining({
      code: "file_unreadable",
      message: expect.stringContaining(`expected the gateway's database in ${path}, got a damaged file`),
      hint: expect.stringContaining("from a backup"),
    }),
  );
  expect(readFileSync(path)).toEqual(before);
});

test.each(damages)("kept answers in a file that %s are given up", (_, damage) => {
  fill(openCacheDatabase);
  damage(join(folder, "cache.db"));
  const database = openCacheDatabase(folder);
  expect(database.prepare("SELECT count(*) AS n FROM sqlite_master").get([])).toMatchObject({ n: 0 });
  database.close();
});

test("a folder that is a file is not called damaged", () => {
  const file = join(folder, "file");
  writeFileSync(file, "");
  expect(() => openDatabase(file)).toThrow(
    expect.objectContaining({ hint: "check the folder's permissions and space" }),
  );
});
