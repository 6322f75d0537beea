/**
 * Runs one program on generated code, in the jail or, if the user allows it, outside: limited in number, time and
 * output.
 */
import { type ChildProcess, type ChildProcessWithoutNullStreams, type StdioOptions, spawn } from "node:child_process";
import { closeSync, openSync, readdirSync, readFileSync } from "node:fs";
import { availableParallelism, devNull } from "node:os";
import { type ConfinedProgram, jailed, READY, toolEnvironment } from "./jail.js";

const MAX_PARALLEL = Math.max(1, Math.min(4, availableParallelism()));
/** Limit of elapsed time; the program also has its own limit of CPU time. */
const TIMEOUT_MS = 30_000;
const MAX_OUTPUT_BYTES = 1 << 20;
/** The flag in /proc, the same on every machine. */
const CLOSE_ON_EXEC = 0o2000000;
const MAX_ERROR_LENGTH = 4000;

/** The program's output, the reason why it was ended, or the reason why the jail could not be set up. */
export type Outcome =
  | { readonly output: string; readonly complaint: string | undefined }
  | { readonly problem: string; readonly isLate: boolean }
  /** isLate: the jail may exist and be slow. */
  | { readonly wallsMissing: string; readonly isLate: boolean };

let numRunning = 0;
const waiting: (() => void)[] = [];

/** @param isConfined whether the program runs in the jail */
export async function runProgram(program: ConfinedProgram, input: string, isConfined: boolean): Promise<Outcome> {
  if (numRunning >= MAX_PARALLEL) await new Promise<void>((resolve) => waiting.push(resolve));
  else numRunning += 1;
  try {
    return await runNow(program, input, isConfined);
  } finally {
    const next = waiting.shift();
    if (next === undefined) numRunning -= 1;
    else next();
  }
}

/** Starts a process group, which is killed as a whole. */
function start(command: string, args: readonly string[], env: NodeJS.ProcessEnv): ChildProcessWithoutNullStreams {
  const nothing = openSync(devNull, "r+");
  try {
    const stdio: StdioOptions = ["pipe", "pipe", "pipe"];
    for (const descriptor of inheritable()) {
      while (stdio.length < descriptor) stdio.push("ignore");
      stdio.push(nothing);
    }
    const child = spawn(command, [...args], { cwd: "/", env, detached: true, stdio });
    return child as ChildProcessWithoutNullStreams;
  } finally {
    closeSync(nothing);
  }
}

/**
 * File descriptors that this process inherited and would pass on, in ascending order: Node closes none of them, and an
 * open folder would lead out of any root.
 */
function inheritable(): number[] {
  if (process.platform !== "linux") return [];
  const descriptors = readdirSync("/proc/self/fd").map(Number);
  return descriptors.filter((descriptor) => descriptor > 2 && !closesOnExec(descriptor)).sort((a, b) => a - b);
}

function closesOnExec(descriptor: number): boolean {
  try {
    const info = readFileSync(`/proc/self/fdinfo/${descriptor}`, "utf8");
    return (Number.parseInt(/^flags:\s*(\d+)/m.exec(info)?.[1] ?? "0", 8) & CLOSE_ON_EXEC) !== 0;
  } catch {
    // The descriptor of the listing itself.
    return true;
  }
}

function runNow(program: ConfinedProgram, input: string, isConfined: boolean): Promise<Outcome> {
  const { command, args } = isConfined ? jailed(program, TIMEOUT_MS / 1000 + 1) : program;
  const child = start(command, args, isConfined ? toolEnvironment() : {});
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let numBytes = 0;
    let errors = "";
    let ended: string | undefined;
    let isLate = false;
    const end = (why: string): void => {
      ended ??= why;
      kill(child);
    };
    const timer = setTimeout(() => {
      isLate = ended === undefined;
      end(`no answer within ${TIMEOUT_MS / 1000} s`);
    }, TIMEOUT_MS);
    child.stdout.on("data", (chunk: Buffer) => {
      numBytes += chunk.length;
      if (numBytes <= MAX_OUTPUT_BYTES) chunks.push(chunk);
      else end("more than a megabyte of results");
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      if (errors.length < MAX_ERROR_LENGTH) errors += text.slice(0, MAX_ERROR_LENGTH);
    });
    // A program that ends without reading is judged by its output.
    child.stdin.on("error", () => {}).end(input);
    child.once("error", (error) => {
      clearTimeout(timer);
      resolve(isConfined ? { wallsMissing: error.message, isLate } : { problem: error.message, isLate });
    });
    // Ends all processes that the program started.
    child.once("exit", () => kill(child));
    child.once("close", () => {
      clearTimeout(timer);
      const output = Buffer.concat(chunks).toString("utf8");
      if (isConfined && !output.startsWith(READY))
        resolve({ wallsMissing: ended ?? complaintOf(errors) ?? "the launcher ended without a word", isLate });
      else if (ended !== undefined) resolve({ problem: ended, isLate });
      else resolve({ output: isConfined ? output.slice(READY.length) : output, complaint: complaintOf(errors) });
    });
  });
}

function kill({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // The group has ended.
  }
}

/** The most informative line of a stack trace. */
function complaintOf(text: string): string | undefined {
  const lines = text.split("\n").filter((line) => /[a-z]/i.test(line));
  return (lines.find((line) => /error|fatal|fail|denied|permitted/i.test(line)) ?? lines[0])?.trim();
}
