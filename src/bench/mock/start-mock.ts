/** Starts the mock server's process and stops it. */
import { join } from "node:path";
import { packageRoot } from "../../core/package-root.js";
import { forkServer, type LaunchedServer } from "../run/launch.js";
import type { MockActual, MockTimings } from "./mock-server.js";

/** The compiled module, because a separate process runs compiled code. */
const PROCESS = "dist/src/bench/mock/mock-process.js";

export interface RunningMock extends LaunchedServer {
  /** Figures since the last call. */
  actual(): Promise<MockActual>;
}

export async function startMock(timings: MockTimings): Promise<RunningMock> {
  const server = await forkServer(join(packageRoot(), PROCESS), [JSON.stringify(timings)]);
  return { ...server, actual: async () => (await (await fetch(`${server.url}/actual`)).json()) as MockActual };
}
