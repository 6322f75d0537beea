/** Starts a real `millrace engine` process for end-to-end tests and stops it again. */
import type { ChildProcess } from "node:child_process";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const LAUNCHER = fileURLToPath(new URL("../../bin/millrace.js", import.meta.url));

export interface TestServer extends AsyncDisposable {
  readonly url: string;
  readonly process: ChildProcess;
  /** Everything the process wrote to stderr so far. */
  stderr(): string;
  /** Its exit code, as soon as all of its output is here. */
  readonly exited: Promise<number | null>;
  /** SIGTERM, then the exit code. */
  stop(): Promise<number | null>;
}

/** @example await using server = await startTestServer(["--model", fixture("models/stories260k.gguf")]); */
export async function startTestServer(args: readonly string[], env: Record<string, string> = {}): Promise<TestServer> {
  const child = spawn(process.execPath, [LAUNCHER, "engine", "--port", "0", ...args], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
    stderr += chunk;
  });
  // Not "exit", after which the end of stderr may still be on its way.
  const exited = new Promise<number | null>((resolve) => child.once("close", resolve));
  const url = await new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout }).on("line", (line) => {
      const event = JSON.parse(line) as { event?: string; url?: string };
      if (event.event === "ready" && event.url !== undefined) resolve(event.url);
    });
    void exited.then((code) => reject(new Error(`the server ended with code ${code} before it was ready:\n${stderr}`)));
  });
  const stop = () => {
    child.kill("SIGTERM");
    return exited;
  };
  return {
    url,
    process: child,
    stderr: () => stderr,
    exited,
    stop,
    [Symbol.asyncDispose]: async () => {
      if (child.exitCode === null) await stop();
    },
  };
}

/** POSTs JSON; throws with the answer's text unless the status is 200. */
export async function post<T>(url: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    ...(signal === undefined ? {} : { signal }),
  });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${url} answered ${response.status}: ${text}`);
  return JSON.parse(text) as T;
}
