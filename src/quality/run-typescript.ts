/** Runs generated TypeScript: types stripped, in a thread with little memory and time, in a context that holds nothing of ours. */
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { packageRoot } from "../core/package-root.js";
import type { SandboxJob } from "./sandbox-thread.js";
import type { RunResult } from "./score.js";
import { stripTypes } from "./strip-types.js";

const THREAD = "dist/src/quality/sandbox-thread.js";
/** The context's own limit is per call; this one is for a thread that cannot even report. */
const JOB_TIMEOUT_MS = 30_000;
const HEAP_MB = 64;
const STACK_MB = 1;

/** One thread, which every job shares until one of them breaks it. */
let thread: Worker | undefined;
/** Jobs wait for the one before. */
let lastJob: Promise<unknown> = Promise.resolve();

/** @param calls each the arguments of one call */
export function runTypeScript(code: string, name: string, calls: readonly (readonly unknown[])[]): Promise<RunResult> {
  const job: SandboxJob = { code: stripTypes(code), name, calls };
  const result = lastJob.then(() => runJob(job));
  lastJob = result;
  return result;
}

function startThread(): Worker {
  const worker = new Worker(join(packageRoot(), THREAD), {
    env: {},
    stdout: true,
    stderr: true,
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MB, maxYoungGenerationSizeMb: HEAP_MB / 4, stackSizeMb: STACK_MB },
  });
  const forget = (): void => {
    if (thread === worker) thread = undefined;
  };
  worker.on("error", forget).on("exit", forget);
  return worker;
}

function runJob(job: SandboxJob): Promise<RunResult> {
  thread ??= startThread();
  const worker = thread;
  worker.ref();
  return new Promise((resolve) => {
    const finish = (result: RunResult): void => {
      clearTimeout(timer);
      worker.off("message", finish).off("error", onError).off("exit", onExit);
      // An idle thread must not keep the program alive.
      worker.unref();
      resolve(result);
    };
    const onError = (error: Error): void => finish({ problem: error.message });
    const onExit = (): void => finish({ problem: "the code ended its thread" });
    const timer = setTimeout(() => {
      void worker.terminate();
      finish({ problem: `no answer within ${JOB_TIMEOUT_MS} ms` });
    }, JOB_TIMEOUT_MS);
    worker.once("message", finish).once("error", onError).once("exit", onExit);
    worker.postMessage(job);
  });
}
