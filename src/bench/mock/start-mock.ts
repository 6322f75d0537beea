/** Starts the mock server's process and stops it. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { packageRoot } from "../../core/package-root.js";
import type { MockActual, MockTimings } from "./mock-server.js";

/** Compiled, as every process of its own is. */
const PROCESS = "dist/src/bench/mock/mock-process.js";

export interface RunningMock {
  readonly url: string;
  readonly pid: number;
  /** Since last asked. */
  actual(): Promise<MockActual>;
  stop(): Promise<void>;
}

export async function startMock(timings: MockTimings): Promise<RunningMock> {
  const child = fork(join(packageRoot(), PROCESS), [JSON.stringify(timings)]);
  const [port] = (await once(child, "message")) as [number];
  const url = `http://127.0.0.1:${port}`;
  return {
    url,
    pid: child.pid!,
    actual: async () => (await (await fetch(`${url}/actual`)).json()) as MockActual,
    stop: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
    },
  };
}
