/** Runs one program on generated code, behind the walls or, where the user says so, without: bounded in number, time and output. */
import { type ChildProcess, spawn } from "node:child_process";
import { availableParallelism } from "node:os";
import { jailed, type Program, READY, toolEnvironment } from "./jail.js";

const MAX_PARALLEL = Math.max(1, Math.min(4, availableParallelism()));
/** Programs wait and sleep, too; the limit of computing time is the program's own. */
const TIMEOUT_MS = 30_000;
const MAX_OUTPUT_BYTES = 1 << 20;
const MAX_ERROR_LENGTH = 4000;

/** What a program wrote, why it was ended, or why it could not be started behind the walls. */
export type Outcome =
  | { readonly output: string; readonly complaint: string | undefined }
  | { readonly problem: string }
  | { readonly wallsMissing: string };

let numRunning = 0;
const waiting: (() => void)[] = [];

/** @param isConfined whether the walls are put up */
export async function runProgram(program: Program, input: string, isConfined: boolean): Promise<Outcome> {
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

function runNow(program: Program, input: string, isConfined: boolean): Promise<Outcome> {
  const { command, args } = isConfined ? jailed(program, TIMEOUT_MS / 1000 + 1) : program;
  // In a group of its own, which is killed as one.
  const child = spawn(command, [...args], { cwd: "/", env: isConfined ? toolEnvironment() : {}, detached: true });
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let numBytes = 0;
    let errors = "";
    let ended: string | undefined;
    const end = (why: string): void => {
      ended ??= why;
      kill(child);
    };
    const timer = setTimeout(() => end(`no answer within ${TIMEOUT_MS / 1000} s`), TIMEOUT_MS);
    child.stdout.on("data", (chunk: Buffer) => {
      numBytes += chunk.length;
      if (numBytes <= MAX_OUTPUT_BYTES) chunks.push(chunk);
      else end("more than a megabyte of results");
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      if (errors.length < MAX_ERROR_LENGTH) errors += text.slice(0, MAX_ERROR_LENGTH);
    });
    // One that ends without reading is judged by what it wrote.
    child.stdin.on("error", () => {}).end(input);
    child.once("error", (error) => {
      clearTimeout(timer);
      resolve(isConfined ? { wallsMissing: error.message } : { problem: error.message });
    });
    // Nothing it started outlives it.
    child.once("exit", () => kill(child));
    child.once("close", () => {
      clearTimeout(timer);
      const output = Buffer.concat(chunks).toString("utf8");
      if (isConfined && !output.startsWith(READY))
        resolve({ wallsMissing: ended ?? complaintOf(errors) ?? "the launcher ended without a word" });
      else if (ended !== undefined) resolve({ problem: ended });
      else resolve({ output: isConfined ? output.slice(READY.length) : output, complaint: complaintOf(errors) });
    });
  });
}

function kill({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // The group is gone.
  }
}

/** The line that says most, among a stack's. */
function complaintOf(text: string): string | undefined {
  const lines = text.split("\n").filter((line) => /[a-z]/i.test(line));
  return (lines.find((line) => /error|fatal|fail|denied|permitted/i.test(line)) ?? lines[0])?.trim();
}
