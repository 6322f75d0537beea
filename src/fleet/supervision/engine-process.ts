/**
 * One operating-system process of an engine: starts it in its own process group, keeps its output, notices its end and
 * kills all its descendants.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { access, constants } from "node:fs/promises";
import { getPriority, setPriority } from "node:os";
import { delimiter, join } from "node:path";
import type { Readable } from "node:stream";
import { eitherOf, pause } from "../../core/abort-signals.js";
import { MillraceError } from "../../core/errors.js";
import type { InstanceLog } from "./instance-log.js";
import { killAll, MARK_VARIABLE, signalGroup } from "./marked-processes.js";
import type { OrphanGuard } from "./orphan-guard.js";

const MAX_OUTPUT_WAIT_MS = 1000;
/** Added to the gateway's own niceness, up to the operating system's limit: programs with less niceness run first. */
const MORE_NICENESS = 5;
const MOST_NICENESS = 19;

interface ProcessPlan {
  readonly command: readonly [string, ...string[]];
  readonly env: NodeJS.ProcessEnv;
  readonly log: InstanceLog;
  readonly guard: OrphanGuard;
  /** Unique mark in the environment, which identifies descendants. */
  readonly mark: string;
  /** Whether the gateway runs first when processors are short: it answers for all engines, and needs little. */
  readonly yieldsToGateway?: boolean;
}

export class EngineProcess {
  /** Aborted as soon as the process ends. */
  readonly ended: AbortSignal;
  /** Resolves when all descendants are gone and their output is read. */
  readonly gone: Promise<void>;
  readonly #child: ChildProcess;
  #ending = "is running";

  private constructor(
    child: ChildProcess,
    readonly pid: number,
    plan: ProcessPlan,
  ) {
    this.#child = child;
    const ended = new AbortController();
    this.ended = ended.signal;
    const outputs = [child.stdout, child.stderr].map((stream) => keepOutput(stream, plan.log));
    this.gone = new Promise<void>((resolve) => {
      child.once("exit", (code, signal) => {
        this.#ending = signal === null ? `ended with code ${code}` : `was ended by ${signal}`;
        ended.abort();
        resolve();
      });
    })
      .then(() => killAll(pid, plan.mark))
      .then(() => endOfOutput(child, outputs))
      .then(() => plan.guard.forget(pid));
  }

  /**
   * Rejects with instance_failed if the program does not exist, and with the system's error if starting it fails now.
   */
  static async start(plan: ProcessPlan): Promise<EngineProcess> {
    const [program, ...args] = plan.command;
    if (!(await canRun(program, plan.env))) {
      throw cannotRun(program, program.includes("/") ? "no executable file there" : "none in PATH");
    }
    plan.guard.start();
    const child = spawn(program, args, {
      env: { ...plan.env, [MARK_VARIABLE]: plan.mark },
      stdio: ["ignore", "pipe", "pipe"],
      // The process leads its own group, so that its workers can be killed with it.
      detached: true,
    });
    const failure = new Promise<Error>((resolve) => child.on("error", resolve));
    // A failure such as too many processes may be temporary.
    if (child.pid === undefined) throw await failure;
    plan.guard.watch(child.pid);
    if (plan.yieldsToGateway === true) beNice(child.pid);
    return new EngineProcess(child, child.pid, plan);
  }

  /** The process's end in words: "ended with code 1", "was ended by SIGKILL". */
  get ending(): string {
    return this.#ending;
  }

  /**
   * Sends SIGTERM to the process, which forwards it to its workers; SIGKILL to its group after the time limit or when
   * `hurry` aborts.
   */
  async stop(timeoutMs: number, hurry: AbortSignal): Promise<void> {
    if (!this.ended.aborted) {
      this.#child.kill("SIGTERM");
      const over = eitherOf(this.ended, hurry);
      await pause(timeoutMs, over.signal);
      over.dispose();
    }
    if (!this.ended.aborted) signalGroup(this.pid, "SIGKILL");
    await this.gone;
  }
}

/** Threads that the process starts later inherit it. */
function beNice(pid: number): void {
  const niceness = Math.min(MOST_NICENESS, getPriority() + MORE_NICENESS);
  try {
    setPriority(pid, niceness);
    // Linux may weigh groups of processes against each other; then only the group's priority counts.
    writeFileSync(`/proc/${pid}/autogroup`, `${niceness}`);
  } catch {
    // The process has ended, or the system has no such groups.
  }
}

/** Writes a stream to the log at the disk's pace: a faster process has to wait. */
async function keepOutput(stream: Readable | null, log: InstanceLog): Promise<void> {
  if (stream === null) return;
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) await log.write(chunk);
  } catch {
    // The pipe breaks when the process ends, and `exit` reports that.
  }
}

/**
 * Reads the rest of the output, which often explains the end. Stops after a second, since a descendant may keep the
 * pipes open.
 */
async function endOfOutput(child: ChildProcess, outputs: readonly Promise<void>[]): Promise<void> {
  const read = new AbortController();
  void Promise.all(outputs).then(() => read.abort());
  await pause(MAX_OUTPUT_WAIT_MS, read.signal);
  child.stdout?.destroy();
  child.stderr?.destroy();
}

/** Looks a program up like execvp, so that the error says more than "ENOENT" or, behind taskset, exit code 127. */
export async function canRun(program: string, env: NodeJS.ProcessEnv): Promise<boolean> {
  const folders = program.includes("/") ? [""] : (env.PATH ?? "").split(delimiter);
  for (const folder of folders) {
    const isThere = await access(join(folder, program), constants.X_OK).then(
      () => true,
      () => false,
    );
    if (isThere) return true;
  }
  return false;
}

function cannotRun(program: string, got: string): MillraceError {
  return new MillraceError("instance_failed", `expected the program ${program}, got ${got}`, {
    hint: "Install it, or set the model's `program` to another.",
  });
}
