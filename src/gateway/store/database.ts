/** The gateway's embedded database: one SQLite file per gateway, through libsql, in write-ahead mode. */
import { chmodSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import Database from "libsql";
import { MillraceError } from "../../core/errors.js";

export type { Database };
export type Statement = ReturnType<Database.Database["prepare"]>;

const FILE = "gateway.db";

/**
 * Opens the database of a folder, and makes both where they are missing. A committed transaction survives the end of the process at once (it is in the
 * kernel's page cache); a power cut can lose the transactions of the last moments before the checkpoint, but never leaves a torn database.
 *
 * @param folder undefined: in memory, for tests
 */
export function openDatabase(folder: string | undefined): Database.Database {
  try {
    if (folder !== undefined) mkdirSync(folder, { recursive: true, mode: 0o700 });
    const path = folder === undefined ? ":memory:" : join(folder, FILE);
    const database = new Database(path);
    database.pragma("journal_mode = WAL");
    database.pragma("synchronous = NORMAL");
    database.pragma("busy_timeout = 5000");
    database.pragma("foreign_keys = ON");
    if (folder !== undefined) chmodSync(path, 0o600);
    return database;
  } catch (cause) {
    const message = `expected a folder for the gateway's database at ${folder}, got ${(cause as Error).message}`;
    throw new MillraceError("file_unreadable", message, { hint: "check the folder's permissions and space", cause });
  }
}
