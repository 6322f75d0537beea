/** The thread that runs a tokenizer's long jobs on its own copy of the tokenizer; see async-tokenizer.ts. */
import { parentPort, workerData } from "node:worker_threads";
import { type ErrorRecord, errorToRecord, toMillraceError } from "../core/errors.js";
import type { Tokenizer } from "./tokenizer/tokenizer.js";
import { buffersOf, type JobResult, runJob, type TokenizerJob } from "./tokenizer-job.js";
import { loadTokenizer, type TokenizerSource } from "./tokenizer-source.js";

export type FromTokenizerThread =
  | { readonly kind: "done"; readonly result: JobResult }
  | { readonly kind: "failed"; readonly error: ErrorRecord }
  /** The tokenizer could not be read a second time. */
  | { readonly kind: "unusable" };

/** Loaded at the first job; undefined if loading failed. */
let tokenizer: Tokenizer | undefined;

function read(): Tokenizer | undefined {
  try {
    return loadTokenizer(workerData as TokenizerSource);
  } catch {
    return undefined;
  }
}

function answerTo(job: TokenizerJob): FromTokenizerThread {
  tokenizer ??= read();
  if (tokenizer === undefined) return { kind: "unusable" };
  try {
    return { kind: "done", result: runJob(tokenizer, job) };
  } catch (thrown) {
    return { kind: "failed", error: errorToRecord(toMillraceError(thrown)) };
  }
}

parentPort?.on("message", (job: TokenizerJob) => {
  const answer = answerTo(job);
  parentPort!.postMessage(answer, answer.kind === "done" ? buffersOf(answer.result) : []);
});
