/** The guard's actions at its server's end, with each of its two ways alone. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, it, onTestFinished } from "vitest";
import { killAll, MARK_VARIABLE, markedProcesses } from "./marked-processes.js";
import { OrphanGuard } from "./orphan-guard.js";

function startGuard(): OrphanGuard {
  const guard = new OrphanGuard((text) => {
    throw new Error(text);
  });
  guard.start();
  return guard;
}

/** A process in its own group. */
function startSleeper(env: NodeJS.ProcessEnv = {}): ChildProcess {
  const sleeper = spawn("sleep", ["600"], { detached: true, stdio: "ignore", env: { ...process.env, ...env } });
  onTestFinished(() => void sleeper.kill("SIGKILL"));
  return sleeper;
}

const endOf = async (child: ChildProcess) => (await once(child, "exit")) as [number | null, string | null];

describe("a guard whose server ends", () => {
  it("kills exactly the process groups that it currently watches", async () => {
    const [first, second, forgotten] = [startSleeper(), startSleeper(), startSleeper()];
    const guard = startGuard();
    for (const { pid } of [first, second, forgotten]) guard.watch(pid!);
    guard.forget(forgotten.pid!);
    guard.close();
    expect(await Promise.all([endOf(first), endOf(second)])).toEqual([
      [null, "SIGKILL"],
      [null, "SIGKILL"],
    ]);
    expect(forgotten.exitCode ?? forgotten.signalCode).toBeNull();
  });

  it.runIf(process.platform === "linux")("kills every process with its mark and no others", async () => {
    const guard = startGuard();
    const marked = startSleeper({ [MARK_VARIABLE]: `${guard.fleetId}:m-0:1` });
    const other = startSleeper({ [MARK_VARIABLE]: "another-fleet:m-0:1" });
    guard.close();
    expect(await endOf(marked)).toEqual([null, "SIGKILL"]);
    expect(other.exitCode ?? other.signalCode).toBeNull();
  });
});

it.runIf(process.platform === "linux")(
  "an instance's processes are told from those of its earlier starts",
  async () => {
    const mark = `${process.pid}-marks:m-0:1`;
    const own = startSleeper({ [MARK_VARIABLE]: mark });
    const next = startSleeper({ [MARK_VARIABLE]: `${mark}0` });
    expect(await markedProcesses(mark)).toEqual([own.pid]);
    const [end] = await Promise.all([endOf(own), killAll(startSleeper().pid!, mark)]);
    expect(end).toEqual([null, "SIGKILL"]);
    expect(await markedProcesses(mark)).toEqual([]);
    expect(next.exitCode ?? next.signalCode).toBeNull();
  },
);

it("a system without /proc is warned about once", () => {
  const notices: string[] = [];
  const guard = new OrphanGuard((text) => notices.push(text), "darwin");
  guard.start();
  guard.start();
  guard.close();
  expect(notices).toHaveLength(1);
});
