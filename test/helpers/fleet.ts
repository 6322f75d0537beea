/** A supervisor for tests: fast clockwork, logs in a folder that goes away, and waiting for states without polling. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { pino } from "pino";
import type { InstanceStatus } from "../../src/fleet/supervision/instance-status.js";
import { Supervisor, type SupervisorOptions } from "../../src/fleet/supervision/supervisor.js";
import type { EngineName } from "../../src/fleet/upstream/engine.js";
import type { ModelSpec } from "../../src/fleet/upstream/model-spec.js";

const STAND_IN = fileURLToPath(new URL("stand-in-engine.mjs", import.meta.url));

function standIn(engine: EngineName): readonly [string, ...string[]] {
  return [process.execPath, STAND_IN, engine];
}

/** A program that is a line of JavaScript; the adapter's flags follow, for nobody. */
export function scriptProgram(script: string): readonly [string, ...string[]] {
  return [process.execPath, "-e", script, "--"];
}

export function modelSpec(change: Partial<ModelSpec> = {}): ModelSpec {
  const engine = change.engine ?? "vllm";
  return {
    name: "m",
    engine,
    program: standIn(engine),
    options: { model: "a-model" },
    args: [],
    env: {},
    host: "127.0.0.1",
    instances: 1,
    startTimeoutMs: 20_000,
    ...change,
  };
}

export interface TestFleet extends AsyncDisposable {
  readonly supervisor: Supervisor;
  readonly folder: string;
  /** Lines of the fleet's own log. */
  readonly lines: readonly string[];
  /** The first status of any instance that fits, now or later. */
  until(fits: (status: InstanceStatus) => boolean, timeoutMs?: number): Promise<InstanceStatus>;
}

export function testFleet(options: Partial<SupervisorOptions> = {}): TestFleet {
  const folder = mkdtempSync(join(tmpdir(), "millrace-fleet-"));
  const lines: string[] = [];
  const logger = pino({ level: "debug" }, { write: (line: string) => lines.push(line) });
  const timing = { scrapeMs: 25, healthMs: 25, restartMs: 20, answerTimeoutMs: 2000, ...options.timing };
  const supervisor = new Supervisor({ logger, logFolder: join(folder, "logs"), ...options, timing });
  return {
    supervisor,
    folder,
    lines,
    until: (fits, timeoutMs = 30_000) => untilStatus(supervisor, fits, timeoutMs),
    async [Symbol.asyncDispose]() {
      await supervisor.close({ now: true });
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function untilStatus(
  supervisor: Supervisor,
  fits: (status: InstanceStatus) => boolean,
  timeoutMs: number,
): Promise<InstanceStatus> {
  return new Promise((resolve, reject) => {
    const finish = (end: () => void): void => {
      clearTimeout(timer);
      stopListening();
      end();
    };
    const timer = setTimeout(
      () =>
        finish(() => reject(new Error(`not in ${timeoutMs} ms: ${fits}; ${JSON.stringify(supervisor.instances())}`))),
      timeoutMs,
    );
    const look = (status: InstanceStatus): void => {
      if (fits(status)) finish(() => resolve(status));
    };
    const stopListening = supervisor.onChange(look);
    const found = supervisor.instances().find(fits);
    if (found !== undefined) look(found);
  });
}

/** A zombie, which only waits for its parent to notice, is dead. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return process.platform !== "linux" || !/^State:\s*Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}
