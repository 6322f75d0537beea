/**
 * The thread of a database's second connection: one job at a time, and one message for each; see side-connection.ts.
 */
import { parentPort, workerData } from "node:worker_threads";
import Database from "libsql";
import { type ErrorRecord, errorToRecord, toMillraceError } from "../../core/errors.js";

export type SideJob =
  | { readonly kind: "read"; readonly sql: string; readonly values: readonly unknown[]; readonly isExact: boolean }
  | { readonly kind: "checkpoint"; readonly mode: "PASSIVE" | "RESTART" | "TRUNCATE" };

export type SideAnswer =
  | { readonly kind: "read"; readonly rows: readonly Readonly<Record<string, unknown>>[] }
  /** Pages of the write-ahead log, and the number of them in the database. */
  | { readonly kind: "checkpoint"; readonly pages: number; readonly done: number }
  | { readonly kind: "failed"; readonly error: ErrorRecord };

const WAIT_MS = 1000;
/** A restart may stop the event loop for this long. If that is too short, the next second tries again. */
const RESTART_WAIT_MS = 50;

let opened: Database.Database | undefined;

/** @param waitMs longest wait of a job for others' locks */
function connection(waitMs = WAIT_MS): Database.Database {
  opened ??= open();
  opened.pragma(`busy_timeout = ${waitMs}`);
  return opened;
}

function open(): Database.Database {
  const database = new Database((workerData as { readonly path: string }).path);
  // A checkpoint syncs the pages that it copies, after the log.
  database.pragma("synchronous = NORMAL");
  return database;
}

function answer(job: SideJob): SideAnswer {
  if (job.kind === "read") {
    const rows = connection().prepare(job.sql).safeIntegers(job.isExact).all(job.values);
    return { kind: "read", rows: rows as Record<string, unknown>[] };
  }
  // Nothing writes until the log begins again, and another process may read in it for long.
  const waitMs = job.mode === "RESTART" ? RESTART_WAIT_MS : WAIT_MS;
  const [row] = connection(waitMs).pragma(`wal_checkpoint(${job.mode})`) as { log: number; checkpointed: number }[];
  return { kind: "checkpoint", pages: row!.log, done: row!.checkpointed };
}

parentPort?.on("message", (job: SideJob) => {
  try {
    parentPort!.postMessage(answer(job));
  } catch (thrown) {
    parentPort!.postMessage({ kind: "failed", error: errorToRecord(toMillraceError(thrown)) } satisfies SideAnswer);
  }
});
