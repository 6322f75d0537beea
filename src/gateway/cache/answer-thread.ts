/** The thread that writes kept answers: one job at a time, and one message for each; see answer-table.ts. */
import { parentPort, workerData } from "node:worker_threads";
import { errorToRecord, toMillraceError } from "../../core/errors.js";
import { reopenCacheDatabase } from "../store/database.js";
import { type AnswerDone, type AnswerJob, AnswerTable, type AnswerTableName } from "./answer-table.js";

interface ThreadData {
  readonly path: string;
  readonly table: AnswerTableName;
  readonly maxBytes: number;
}

let opened: AnswerTable | undefined;

function table(): AnswerTable {
  const { path, table, maxBytes } = workerData as ThreadData;
  opened ??= new AnswerTable(reopenCacheDatabase(path), table, maxBytes);
  return opened;
}

parentPort?.on("message", (job: AnswerJob) => {
  let done: AnswerDone;
  try {
    done = table().run(job);
  } catch (thrown) {
    done = { kind: "failed", error: errorToRecord(toMillraceError(thrown)) };
  }
  parentPort!.postMessage(done);
});
