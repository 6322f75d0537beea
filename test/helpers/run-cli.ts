/** The command line as a process. */
import { spawn } from "node:child_process";
import { join } from "node:path";
import { repositoryRoot } from "./fixtures.js";

export interface Ended {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number | null;
}

/** Runs `millrace ...args` to its end. */
export const runCli = (...args: readonly string[]): Promise<Ended> => runCliWith({}, args);

/** @param untilStdout once stdout contains it, the process gets SIGTERM */
export function runCliWith(
  { stdin = "", untilStdout = "" }: { readonly stdin?: string; readonly untilStdout?: string },
  args: readonly string[],
): Promise<Ended> {
  const child = spawn(process.execPath, [join(repositoryRoot(), "bin/millrace.js"), ...args]);
  child.stdin.end(stdin);
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
    if (untilStdout !== "" && stdout.includes(untilStdout)) child.kill("SIGTERM");
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  return new Promise((resolve) => child.once("close", (exitCode) => resolve({ stdout, stderr, exitCode })));
}
