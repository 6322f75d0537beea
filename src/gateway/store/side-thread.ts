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
  /** Pages of the write-ahead log, and how many of them are in the database. */
  | { readonly kind: "checkpoint"; readonly pages: number; readonly done: number }
  | { readonly kind: "failed"; readonly error: ErrorRecord };

let opened: Database.Database | undefined;

function connection(): Database.Database {
  if (opened !== undefined) return opened;
  opened = new Database((workerData as { readonly path: string }).path);
  opened.pragma("busy_timeout = 1000");
  // A checkpoint syncs the pages that it copies, and the log before that.
  opened.pragma("synchronous = NORMAL");
  return opened;
}

function answer(job: SideJob): SideAnswer {
  if (job.kind === "read") {
    const rows = connection().prepare(job.sql).safeIntegers(job.isExact).all(job.values);
    return { kind: "read", rows: rows as Record<string, unknown>[] };
  }
  const [row] = connection().pragma(`wal_checkpoint(${job.mode})`) as { log: number; checkpointed: number }[];
  return { kind: "checkpoint", pages: row!.log, done: row!.checkpointed };
}

parentPort?.on("message", (job: SideJob) => {
  try {
    parentPort!.postMessage(answer(job));
  } catch (thrown) {
    parentPort!.postMessage({ kind: "failed", error: errorToRecord(toMillraceError(thrown)) } satisfies SideAnswer);
  }
});
