/** The gateway's embedded database: one SQLite file per gateway, through libsql, in write-ahead mode. */
import { chmodSync, closeSync, existsSync, mkdirSync, openSync, rmSync } from "node:fs";
import { join } from "node:path";
import Database from "libsql";
import { MillraceError } from "../../core/errors.js";

export type { Database };
export type Statement = ReturnType<Database.Database["prepare"]>;

const FILE = "gateway.db";
/** Separate files: a thread writes kept answers, and the event loop writes the semantic cache's entries. */
const CACHE_FILES = { answers: "cache.db", semantic: "semantic.db" };
export type CacheKind = keyof typeof CACHE_FILES;

/**
 * Opens the database of a folder, and creates both if they are missing. A committed transaction survives the end of the
 * process at once (it is in the kernel's page cache); a power cut can lose the transactions of the last moments before
 * the checkpoint, but never leaves a torn database.
 *
 * @param folder undefined: in memory, for tests
 */
export function openDatabase(folder: string | undefined): Database.Database {
  const path = folder === undefined ? ":memory:" : join(folder, FILE);
  try {
    if (folder !== undefined) mkdirSync(folder, { recursive: true, mode: 0o700 });
    return durable(path);
  } catch (cause) {
    if (isDamage(cause)) throw damaged(path, cause as Error);
    const message = `expected a folder for the gateway's database at ${folder}, got ${(cause as Error).message}`;
    throw new MillraceError("file_unreadable", message, { hint: "check the folder's permissions and space", cause });
  }
}

/** SQLite gives the files beside a database the same rights. The folder may be open to others. */
function opened(path: string): Database.Database {
  if (path !== ":memory:") {
    closeSync(openSync(path, "a", 0o600));
    for (const end of ["", "-wal", "-shm"]) if (existsSync(path + end)) chmodSync(path + end, 0o600);
  }
  return new Database(path);
}

function durable(path: string): Database.Database {
  const database = opened(path);
  try {
    database.pragma("journal_mode = WAL");
    database.pragma("synchronous = NORMAL");
    database.pragma("busy_timeout = 5000");
    database.pragma("foreign_keys = ON");
    assertReadable(database);
    return database;
  } catch (thrown) {
    database.close();
    throw thrown;
  }
}

/** Reads the schema and the first page of each table: finds files that are cut, or not a database. */
function assertReadable(database: Database.Database): void {
  const tables = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all([]) as readonly {
    name: string;
  }[];
  for (const { name } of tables) database.prepare(`SELECT 1 FROM "${name.replaceAll('"', '""')}" LIMIT 1`).get([]);
}

/** The file holds the keys and the spend, so only its owner may replace it. */
function damaged(path: string, cause: Error): MillraceError {
  return new MillraceError(
    "file_unreadable",
    `expected the gateway's database in ${path}, got a damaged file: ${cause.message}`,
    {
      hint: `restore ${path} from a backup, or move it away with ${FILE}-wal and ${FILE}-shm: the gateway then begins with no keys, no spend and no ledger`,
      cause,
    },
  );
}

/**
 * Opens the database of replaceable data. It is never synced, since that holds up the event loop for as long as the
 * disk takes. The end of the process loses no committed transaction. A power cut may damage the database; a damaged one
 * is created anew, and its data need a checksum of their own.
 *
 * @param folder undefined: in memory, for tests
 */
export function openCacheDatabase(folder: string | undefined, kind: CacheKind = "answers"): Database.Database {
  try {
    if (folder !== undefined) mkdirSync(folder, { recursive: true, mode: 0o700 });
    const path = folder === undefined ? ":memory:" : join(folder, CACHE_FILES[kind]);
    try {
      return unsynced(path);
    } catch (thrown) {
      if (folder === undefined || !isDamage(thrown)) throw thrown;
      for (const end of ["", "-wal", "-shm"]) rmSync(path + end, { force: true });
      return unsynced(path);
    }
  } catch (cause) {
    const message = `expected a folder for kept answers at ${folder}, got ${(cause as Error).message}`;
    throw new MillraceError("file_unreadable", message, { hint: "check the folder's permissions and space", cause });
  }
}

/**
 * A further connection to a database that `openCacheDatabase` has opened, for a thread: it may wait for the locks of
 * other gateways.
 */
export function reopenCacheDatabase(path: string): Database.Database {
  if (!existsSync(path)) throw new MillraceError("file_unreadable", `expected kept answers in ${path}, got no file`);
  const database = new Database(path);
  database.pragma("synchronous = OFF");
  database.pragma("busy_timeout = 5000");
  return database;
}

/** @returns undefined for a database in memory, which has only one connection */
export function fileOf(database: Database.Database): string | undefined {
  const { file } = database.prepare("PRAGMA database_list").get([]) as { readonly file: string };
  return file === "" ? undefined : file;
}

function unsynced(path: string): Database.Database {
  const database = opened(path);
  try {
    database.pragma("journal_mode = WAL");
    database.pragma("synchronous = OFF");
    database.pragma("busy_timeout = 1000");
    assertReadable(database);
    // Earlier versions kept all answers in one file.
    if (path.endsWith(CACHE_FILES.answers)) database.exec("DROP TABLE IF EXISTS cache_semantic");
    return database;
  } catch (thrown) {
    database.close();
    throw thrown;
  }
}

/** SQLite reports damage by its code, SQLITE_CORRUPT or SQLITE_NOTADB; libsql sometimes only by its message. */
function isDamage(thrown: unknown): boolean {
  const { code = "", message = "" } = thrown as { readonly code?: string; readonly message?: string };
  return /CORRUPT|NOTADB/.test(code) || /malformed|not a database/.test(message);
}
