/** The thread that writes kept answers: one job at a time, and one message for each; see answer-table.ts. */
import { parentPort, workerData } from "node:worker_threads";
import type Database from "libsql";
import { errorToRecord, toMillraceError } from "../../core/errors.js";
import { reopenCacheDatabase } from "../store/database.js";
import { type AnswerDone, type AnswerJob, AnswerTable } from "./answer-table.js";

let database: Database.Database | undefined;
const tables = new Map<AnswerJob["table"], AnswerTable>();

function run(job: AnswerJob): AnswerDone {
  database ??= reopenCacheDatabase((workerData as { readonly path: string }).path);
  const table = tables.get(job.table) ?? new AnswerTable(database, job.table, job.maxBytes);
  tables.set(job.table, table);
  return table.run(job);
}

parentPort?.on("message", (job: AnswerJob) => {
  try {
    parentPort!.postMessage(run(job));
  } catch (thrown) {
    parentPort!.postMessage({ kind: "failed", error: errorToRecord(toMillraceError(thrown)) } satisfies AnswerDone);
  }
});
