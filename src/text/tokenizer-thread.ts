/** The thread that does a tokenizer's long jobs, with a tokenizer of its own; see async-tokenizer.ts. */
import { parentPort, workerData } from "node:worker_threads";
import { type ErrorRecord, errorToRecord, toMillraceError } from "../core/errors.js";
import type { Tokenizer } from "./tokenizer.js";
import { buffersOf, type Job, type JobResult, runJob } from "./tokenizer-job.js";
import { loadTokenizer, type TokenizerSource } from "./tokenizer-source.js";

export interface ToTokenizerThread {
  readonly id: number;
  readonly job: Job;
}

export type FromTokenizerThread =
  | { readonly kind: "done"; readonly id: number; readonly result: JobResult }
  | { readonly kind: "failed"; readonly id: number; readonly error: ErrorRecord }
  /** The tokenizer could not be read a second time. */
  | { readonly kind: "unusable"; readonly error: ErrorRecord };

function answerTo(tokenizer: Tokenizer, { id, job }: ToTokenizerThread): FromTokenizerThread {
  try {
    return { kind: "done", id, result: runJob(tokenizer, job) };
  } catch (thrown) {
    return { kind: "failed", id, error: errorToRecord(toMillraceError(thrown)) };
  }
}

function run(port: NonNullable<typeof parentPort>): void {
  const post = (message: FromTokenizerThread): void => {
    port.postMessage(message, message.kind === "done" ? buffersOf(message.result) : []);
  };
  try {
    const tokenizer = loadTokenizer(workerData as TokenizerSource);
    port.on("message", (message: ToTokenizerThread) => post(answerTo(tokenizer, message)));
  } catch (thrown) {
    post({ kind: "unusable", error: errorToRecord(toMillraceError(thrown)) });
  }
}

if (parentPort !== null) run(parentPort);
