/** One operating-system process of an engine: started in a group of its own, its output kept, its end noticed, and nothing of it left behind. */
import { type ChildProcess, spawn } from "node:child_process";
import { access, constants } from "node:fs/promises";
import { delimiter, join } from "node:path";
import type { Readable } from "node:stream";
import { eitherOf, pause } from "../../core/abort-signals.js";
import { MillraceError } from "../../core/errors.js";
import type { InstanceLog } from "./instance-log.js";
import { killAll, MARK_VARIABLE, signalGroup } from "./marked-processes.js";
import type { OrphanGuard } from "./orphan-guard.js";

const MAX_OUTPUT_WAIT_MS = 1000;

interface ProcessPlan {
  readonly command: readonly [string, ...string[]];
  readonly env: NodeJS.ProcessEnv;
  readonly log: InstanceLog;
  readonly guard: OrphanGuard;
  /** Unlike that of any other process. */
  readonly mark: string;
}

export class EngineProcess {
  /** Aborted at once when the process has ended. */
  readonly ended: AbortSignal;
  /** Resolves when nothing of it is left: workers, output. */
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

  /** Rejects with instance_failed where the program does not exist, and with the system's error where it cannot be started now. */
  static async start(plan: ProcessPlan): Promise<EngineProcess> {
    const [program, ...args] = plan.command;
    if (!(await canRun(program, plan.env))) {
      throw cannotRun(program, program.includes("/") ? "no such file, or one that may not be run" : "none in PATH");
    }
    plan.guard.start();
    const child = spawn(program, args, {
      env: { ...plan.env, [MARK_VARIABLE]: plan.mark },
      stdio: ["ignore", "pipe", "pipe"],
      // A group of its own, so that its workers can be ended with it.
      detached: true,
    });
    const failure = new Promise<Error>((resolve) => child.on("error", resolve));
    // Too many processes, for instance: that may pass.
    if (child.pid === undefined) throw await failure;
    plan.guard.watch(child.pid);
    return new EngineProcess(child, child.pid, plan);
  }

  /** How it ended: "ended with code 1", "was ended by SIGKILL". */
  get ending(): string {
    return this.#ending;
  }

  /** SIGTERM to the process, which tells its workers; SIGKILL to all of them after the time limit, or when `hurry` is aborted. */
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

/** At the pace of the disk: a process that writes faster has to wait. */
async function keepOutput(stream: Readable | null, log: InstanceLog): Promise<void> {
  if (stream === null) return;
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) await log.write(chunk);
  } catch {
    // The pipe broke with the process, whose end is told elsewhere.
  }
}

/** What was written last says why it ended. Whoever still holds the pipes open after that is not waited for. */
async function endOfOutput(child: ChildProcess, outputs: readonly Promise<void>[]): Promise<void> {
  const read = new AbortController();
  void Promise.all(outputs).then(() => read.abort());
  await pause(MAX_OUTPUT_WAIT_MS, read.signal);
  child.stdout?.destroy();
  child.stderr?.destroy();
}

/** As execvp looks for it, but with an answer that says more than "ENOENT" (and, behind taskset, more than a code of 127). */
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
    hint: "Install it, or name another in the model's `program`.",
  });
}
