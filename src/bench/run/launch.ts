/** Starts servers for a benchmark on a free port of loopback, waits for them, and stops them. */
import { type ChildProcess, fork, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { endingWithUs, killGroup } from "../../core/child-end.js";
import { inheritedEnvironment } from "../../core/engine-environment.js";
import { MillraceError } from "../../core/errors.js";
import type { ModelWork } from "../results/schema.js";
import type { ServerShape } from "../workload/scenarios.js";

export interface Launch {
  readonly name: string;
  /** @param shape the size for the cells; undefined: the server's defaults */
  command(port: number, shape: ServerShape | undefined): readonly string[];
  /** Environment variables besides those of this process. */
  readonly env?: Readonly<Record<string, string>>;
  /** Longest start; absent: two minutes. */
  readonly startSeconds?: number;
  /** Time for the server to end itself and its processes before it is killed; absent: none. */
  readonly stopSeconds?: number;
  /** Absent: the server is ready when /health answers. */
  isReady?(url: string): Promise<boolean>;
  /** The model's work, for the roofline. */
  readonly work?: ModelWork | undefined;
}

export interface LaunchedServer {
  readonly url: string;
  readonly pid: number;
  stop(): Promise<void>;
}

const START_SECONDS = 120;
/** Longest wait for an answer about a server's health. */
export const HEALTH_MS = 5000;

/**
 * Resolves when the server is ready; otherwise rejects with peer_failed and the end of its output.
 * @param signal aborted: stops the server and rejects
 */
export async function launchServer(
  { name, command, env = {}, isReady = isHealthy, startSeconds = START_SECONDS, stopSeconds = 0 }: Launch,
  shape?: ServerShape,
  signal?: AbortSignal,
): Promise<LaunchedServer> {
  const port = await freePort();
  const [file, ...args] = command(port, shape);
  // A separate process group, because some killed servers leave their workers behind.
  const child = endingWithUs(
    spawn(file!, args, {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...inheritedEnvironment(), ...env },
      detached: true,
    }),
  );
  const stopServer = () => stop(child, stopSeconds);
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      output = (output + text).slice(-4000);
    });
  }
  try {
    await once(child, "spawn");
  } catch (thrown) {
    throw new MillraceError("peer_failed", `expected ${name} to start, got ${(thrown as Error).message}`);
  }
  child.on("error", () => {});
  const url = `http://127.0.0.1:${port}`;
  const deadlineMs = performance.now() + 1000 * startSeconds;
  while (performance.now() < deadlineMs && signal?.aborted !== true) {
    if (child.exitCode !== null || child.signalCode !== null) break;
    if (await isReady(url)) return { url, pid: child.pid!, stop: stopServer };
    await sleep(50);
  }
  await stopServer();
  signal?.throwIfAborted();
  throw new MillraceError("peer_failed", `expected ${name} to become ready, got:\n${output}`);
}

/** Forks a compiled module that sends the port it listens on. Rejects with peer_failed when the process ends first. */
export async function forkServer(path: string, args: readonly string[]): Promise<LaunchedServer> {
  const child = fork(path, args);
  const port = await new Promise<unknown>((resolve, reject) => {
    const fail = (got: string) => reject(new MillraceError("peer_failed", `expected ${path} to listen, got ${got}`));
    child.once("message", resolve);
    child.once("error", (error) => fail(error.message));
    child.once("exit", (code, signal) => fail(`exit ${code ?? signal}`));
  });
  return { url: `http://127.0.0.1:${port}`, pid: child.pid!, stop: () => stop(child) };
}

async function isHealthy(url: string): Promise<boolean> {
  try {
    return (await fetch(`${url}/health`, { signal: AbortSignal.timeout(HEALTH_MS) })).ok;
  } catch {
    return false;
  }
}

async function stop(child: ChildProcess, graceSeconds = 0): Promise<void> {
  const isRunning = child.exitCode === null && child.signalCode === null && child.pid !== undefined;
  if (isRunning && graceSeconds > 0) {
    const ended = once(child, "exit");
    child.kill("SIGTERM");
    await Promise.race([ended, sleep(1000 * graceSeconds, undefined, { ref: false })]);
  }
  const ended = isRunning && child.exitCode === null && child.signalCode === null ? once(child, "exit") : undefined;
  killGroup(child, "SIGKILL");
  await ended;
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0));
    });
  });
}
