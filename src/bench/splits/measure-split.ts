/**
 * Measures a split of the cores: all its instances run at the same time, each in a separate process, as when serving.
 */
import { fork } from "node:child_process";
import { join } from "node:path";
import { endingWithUs } from "../../core/child-end.js";
import { MillraceError } from "../../core/errors.js";
import { packageRoot } from "../../core/package-root.js";
import type { EngineOptions } from "../../engine/api/options.js";
import type { MeasuredSplit, Split } from "../../fleet/scaling/instance-plan.js";
import type { InstanceJob, InstanceReply } from "./instance-process.js";

/** The compiled module, because a separate process runs compiled code. */
const INSTANCE_PROCESS = "dist/src/bench/splits/instance-process.js";

/** Short enough to wait for, and long enough to measure both prefill and decode. */
const PROMPT_TOKENS = 128;
export const GEN_TOKENS = 48;
export const REPETITIONS = 3;
const TIMEOUT_MS = 10 * 60_000;

export interface EngineToSplit {
  /** A file or folder on this machine. */
  readonly modelPath: string;
  /** CPUs of each physical core that may be used; an empty core: the system chooses its CPU. */
  readonly cores: readonly (readonly number[])[];
  /** Concurrent requests on all instances together. */
  readonly concurrency: number;
  /** The engine's options for an instance with this many sequences. */
  engineFor(numSeqs: number): Omit<EngineOptions, "modelPath">;
}

/** Each instance runs on its own cores with its share of the requests. */
export async function measureSplit(question: EngineToSplit, { instances, perInstance }: Split): Promise<MeasuredSplit> {
  const batch = Math.ceil(question.concurrency / instances);
  const failing = new AbortController();
  const runs = Array.from({ length: instances }, async (_, i) => {
    const own = question.cores.slice(i * perInstance, (i + 1) * perInstance);
    // One thread for each physical core.
    const cpus = own.flatMap(([first]) => first ?? []);
    const place = { numThreads: own.length, cpuAffinity: cpus.length > 0 ? cpus : undefined };
    // Steps may have any length, so that prompts run at full speed.
    const engine = { ...question.engineFor(batch), ...place, maxStepMs: 0 };
    return tokensPerS({ ...engine, modelPath: question.modelPath }, batch, failing.signal);
  });
  try {
    const speeds = await Promise.all(runs);
    return { instances, perInstance, tokensPerS: speeds.reduce((sum, each) => sum + each, 0) };
  } finally {
    // After a failure the other instances' results are useless, so they are stopped.
    failing.abort();
  }
}

async function tokensPerS(options: EngineOptions, batch: number, signal: AbortSignal): Promise<number> {
  const lengths = { promptTokens: PROMPT_TOKENS, genTokens: GEN_TOKENS, sharedPrefix: 0 };
  const job = { options, spec: { ...lengths, batches: [batch], repetitions: REPETITIONS } };
  const reply = await replyOf(job, signal);
  if ("problem" in reply) throw failure(reply.problem);
  const { prefillTokensPerS, decodeTokensPerS } = reply.result;
  const seconds = batch * (PROMPT_TOKENS / prefillTokensPerS + GEN_TOKENS / decodeTokensPerS);
  return (batch * GEN_TOKENS) / seconds;
}

function replyOf(job: InstanceJob, signal: AbortSignal): Promise<InstanceReply> {
  const path = join(packageRoot(), INSTANCE_PROCESS);
  const child = endingWithUs(fork(path, { serialization: "advanced", stdio: ["ignore", "ignore", "inherit", "ipc"] }));
  const kill = (): void => void child.kill("SIGKILL");
  signal.addEventListener("abort", kill, { once: true });
  const timer = setTimeout(kill, TIMEOUT_MS);
  return new Promise<InstanceReply>((resolve, reject) => {
    child.once("message", resolve);
    child.once("error", reject);
    child.once("exit", (code, by) => reject(failure(`its end by ${code ?? by}`)));
    child.send(job);
  }).finally(() => {
    clearTimeout(timer);
    signal.removeEventListener("abort", kill);
  });
}

export const failure = (got: string): MillraceError =>
  new MillraceError("peer_failed", `expected an instance to measure its speed, got ${got}`);
