/** The thread that judges samples: one job at a time, and one message for each; see sample-checker.ts. */
import { parentPort, workerData } from "node:worker_threads";
import { type CheckAnswer, type CheckJob, type PlainPattern, privatePatterns, runCheckJob } from "./check-job.js";

const patterns = privatePatterns((workerData as { readonly patterns: readonly PlainPattern[] }).patterns);

parentPort?.on("message", (job: CheckJob) => {
  const unreadable: CheckAnswer = { kind: "unreadable" };
  void runCheckJob(job, patterns)
    .catch(() => unreadable)
    .then((answer) => parentPort!.postMessage(answer));
});
