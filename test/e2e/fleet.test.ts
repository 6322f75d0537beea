/** Instances as real processes: crashes, loops, programs that are none, scaling, and nothing left behind. */
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { isAlive, modelSpec, scriptProgram, testFleet } from "../helpers/fleet.js";
import { cases } from "../helpers/long.js";
import { TestRng } from "../helpers/rng.js";

/** Files, pipes and sockets of this process. */
const numOpenFiles = (): number => readdirSync("/proc/self/fd").length;

describe("a program", () => {
  it("that does not exist is given up at once", async () => {
    await using fleet = testFleet();
    for (const program of ["no-such-engine", "/no/such/engine"]) {
      fleet.supervisor.addModel(modelSpec({ name: program, program: [program] }));
      const failed = await fleet.until(({ model, isGivenUp }) => model === program && isGivenUp);
      expect(failed).toMatchObject({ state: "failed", starts: 0 });
      expect(failed.reason).toMatch(
        /^cannot be started: expected the program .*no.such.engine, got (none in PATH|no executable file)/,
      );
      await expect(fleet.supervisor.whenReady(program)).rejects.toMatchObject({ code: "instance_failed" });
    }
  });

  it("that exits immediately is started five times, with pauses, and reported with its last lines", async () => {
    await using fleet = testFleet();
    fleet.supervisor.addModel(
      modelSpec({ program: scriptProgram("console.error('out of\\u001b[1m memory'); process.exit(3)") }),
    );
    const failed = await fleet.until(({ isGivenUp }) => isGivenUp);
    expect(failed).toMatchObject({ state: "failed", starts: 5, pid: undefined });
    expect(failed.reason).toBe(
      "crashed 5 times within 120 s: ended with code 3 before it was ready; its last lines:\nout of memory",
    );
    expect(readFileSync(failed.logFile!, "utf8").match(/out of/g)).toHaveLength(5);
    expect(fleet.lines.filter((line) => line.includes("starting again after a crash"))).toHaveLength(4);
    // What an engine wrote stays in its own log.
    expect(fleet.lines.filter((line) => line.includes("memory"))).toEqual([]);
  });

  it("that crashes in a loop is tried again after a pause", async () => {
    await using fleet = testFleet({ timing: { maxCrashes: 2, giveUpMs: 50, maxGiveUpMs: 100 } });
    const isMended = join(fleet.folder, "mended");
    const crashes = `if (!require("fs").existsSync(${JSON.stringify(isMended)})) process.exit(1);`;
    const port = 'process.argv[process.argv.indexOf("--port") + 1]';
    const server = `require("http").createServer((_, answer) => answer.end()).listen(${port}, "127.0.0.1")`;
    fleet.supervisor.addModel(modelSpec({ program: scriptProgram(`${crashes}${server}`) }));
    expect(await fleet.until(({ isGivenUp }) => isGivenUp)).toMatchObject({ isComing: false, starts: 2 });
    expect(fleet.lines.some((line) => line.includes("paused after a crash loop"))).toBe(true);
    expect(fleet.lines.filter((line) => line.includes("given up"))).toEqual([]);
    writeFileSync(isMended, "");
    await fleet.until(({ state }) => state === "ready");
  });

  it("that was given up can be started again on request", async () => {
    await using fleet = testFleet({ timing: { maxCrashes: 1 } });
    fleet.supervisor.addModel(modelSpec({ program: scriptProgram("process.exit(1)") }));
    await fleet.until(({ isGivenUp }) => isGivenUp);
    await fleet.supervisor.restart("m-0");
    await fleet.until(({ isGivenUp, starts }) => isGivenUp && starts === 2);
  });

  it("that never becomes ready is ended at its time limit, even if it ignores SIGTERM", async () => {
    await using fleet = testFleet({ timing: { maxCrashes: 1 } });
    const script = "process.on('SIGTERM', () => {}); setInterval(() => {}, 1000)";
    fleet.supervisor.addModel(modelSpec({ program: scriptProgram(script), startTimeoutMs: 300, stopTimeoutMs: 50 }));
    const { pid } = await fleet.until((each) => each.pid !== undefined);
    const failed = await fleet.until(({ isGivenUp }) => isGivenUp);
    expect(failed.reason).toContain("was not ready after 0.3 s: expected an answer to GET /health, got ECONNREFUSED");
    expect(isAlive(pid!)).toBe(false);
  });

  it("that prints endless garbage is not considered ready and cannot fill the disk", async () => {
    await using fleet = testFleet({ timing: { maxCrashes: 1 } });
    const script =
      'const junk = Buffer.alloc(65536, \'x\\0\\xff\\n{"event":"ready"}\'); const write = () => process.stdout.write(junk, write); write()';
    fleet.supervisor.addModel(modelSpec({ program: scriptProgram(script), startTimeoutMs: 3000, stopTimeoutMs: 50 }));
    const failed = await fleet.until(({ isGivenUp }) => isGivenUp);
    expect(failed.reason).toContain("was not ready");
    expect(failed.reason!.length).toBeLessThan(6000);
    const files = readdirSync(join(fleet.folder, "logs")).filter((name) => name.includes(".log"));
    expect(files.toSorted()).toEqual(["m-0.log", "m-0.log.1"]);
    for (const file of files) expect(statSync(join(fleet.folder, "logs", file)).size).toBeLessThanOrEqual(8 * 2 ** 20);
  });

  it("that stops answering gets no requests and is restarted", async () => {
    await using fleet = testFleet({ timing: { healthTimeoutMs: 50, maxFailedChecks: 2, hungAfterMs: 200 } });
    fleet.supervisor.addModel(modelSpec({ stopTimeoutMs: 50 }));
    await fleet.supervisor.whenReady("m");
    const { pid } = fleet.supervisor.instances()[0]!;
    process.kill(pid!, "SIGSTOP");
    const sick = await fleet.until(({ state }) => state === "failed");
    expect(sick).toMatchObject({ pid, reason: "expected an answer to GET /health, got none in 0.05 s" });
    // A stopped process takes no SIGTERM.
    const again = await fleet.until(({ state, starts }) => state === "ready" && starts === 2, 20_000);
    expect(again.pid).not.toBe(pid);
    expect(isAlive(pid!)).toBe(false);
  });

  it("that answers late once is suspected, and the same process becomes ready again", async () => {
    await using fleet = testFleet({ timing: { healthTimeoutMs: 50, healthMs: 10, maxFailedChecks: 1000 } });
    fleet.supervisor.addModel(modelSpec());
    await fleet.supervisor.whenReady("m");
    const { pid } = fleet.supervisor.instances()[0]!;
    process.kill(pid!, "SIGSTOP");
    const doubted = await fleet.until(({ state }) => state === "suspect");
    expect(doubted).toMatchObject({ pid, isComing: true });
    process.kill(pid!, "SIGCONT");
    expect(await fleet.until(({ state }) => state === "ready")).toMatchObject({ starts: 1, pid, reason: undefined });
  });
});

describe.runIf(process.platform === "linux")("a crash", () => {
  it("leaves no worker behind, not even one in a separate process group", async () => {
    await using fleet = testFleet();
    fleet.supervisor.addModel(modelSpec({ env: { STAND_IN_WORKER: "1" } }));
    await fleet.supervisor.whenReady("m");
    const { pid, logFile } = fleet.supervisor.instances()[0]!;
    // Its line may reach the log after the engine is ready.
    let worker = Number.NaN;
    await vi.waitFor(() => {
      worker = Number(/worker (\d+)\n/.exec(readFileSync(logFile!, "utf8"))?.[1]);
      expect(worker).not.toBeNaN();
    }, 30_000);
    expect(isAlive(worker)).toBe(true);
    process.kill(pid!, "SIGKILL");
    await fleet.until(({ starts }) => starts === 2);
    expect([isAlive(pid!), isAlive(worker)]).toEqual([false, false]);
  });

  it("many times leaves no process, no file, socket or pipe, and no timer", async () => {
    await using fleet = testFleet({ timing: { maxCrashes: 1000, restartMs: 1, maxRestartMs: 1 } });
    fleet.supervisor.addModel(modelSpec());
    const [numRounds, pids] = [cases(25, 50), [] as number[]];
    const usage: { files: number; timers: number }[] = [];
    for (let round = 1; round <= numRounds; round++) {
      const { pid } = await fleet.until(({ state, starts }) => state === "ready" && starts === round);
      pids.push(pid!);
      const timers = process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
      usage.push({ files: numOpenFiles(), timers });
      process.kill(pid!, "SIGKILL");
    }
    const last = await fleet.until(({ state, starts }) => state === "ready" && starts === numRounds + 1);
    const fleetId = fleetOf(last.pid!);
    expect(fleetId).toBeDefined();
    expect(pids.filter(isAlive)).toEqual([]);
    // The first rounds warm up; a leak of one a round would show fourteen or more.
    for (const kind of ["files", "timers"] as const) {
      const counts = usage.slice(10).map((each) => each[kind]);
      expect(Math.max(...counts) - counts[0]!).toBeLessThan(10);
    }
    await fleet.supervisor.close();
    expect(readdirSync("/proc").filter((pid) => fleetOf(pid) === fleetId)).toEqual([]);
  }, 120_000);
});

/** The part of its mark that all processes of a fleet have; undefined: it has none, or is gone. */
function fleetOf(pid: string | number): string | undefined {
  try {
    return /MILLRACE_FLEET=([^:]+):/.exec(readFileSync(`/proc/${pid}/environ`, "utf8"))?.[1];
  } catch {
    return undefined;
  }
}

describe("scaling", () => {
  it("starts, stops and restarts instances in the same slots", async () => {
    await using fleet = testFleet();
    const { supervisor } = fleet;
    supervisor.addModel(modelSpec({ instances: 0 }));
    expect(supervisor.instances()).toEqual([]);
    const states = () => supervisor.instances().map(({ id, state }) => `${id} ${state}`);
    await supervisor.setInstances("m", 2);
    for (const id of ["m-0", "m-1"]) await fleet.until((each) => each.id === id && each.state === "ready");
    const urls = supervisor.instances().map(({ target }) => target?.url);
    expect(new Set(urls).size).toBe(2);
    await supervisor.setInstances("m", 1);
    expect(states()).toEqual(["m-0 ready", "m-1 stopped"]);
    await supervisor.setInstances("m", 2);
    await fleet.until(({ id, state, starts }) => id === "m-1" && state === "ready" && starts === 2);
    await supervisor.removeModel("m");
    expect(supervisor.models()).toEqual([]);
    // Under the same name, but nothing that was known of the first holds for it.
    supervisor.addModel(modelSpec());
    await fleet.until(({ id, state, starts }) => id === "m-0" && state === "ready" && starts === 2);
  });

  it("stops idle instances before busy ones", async () => {
    const inFlight = new Map([
      ["m-0", 1],
      ["m-1", 0],
      ["m-2", 2],
    ]);
    await using fleet = testFleet({ inFlight: (id) => inFlight.get(id) ?? 0 });
    const { supervisor } = fleet;
    supervisor.addModel(modelSpec({ instances: 3, drainTimeoutMs: 60_000 }));
    for (const id of inFlight.keys()) await fleet.until((each) => each.id === id && each.state === "ready");
    await supervisor.setInstances("m", 2);
    expect(supervisor.instances().map(({ state }) => state)).toEqual(["ready", "stopped", "ready"]);
    const rested = supervisor.setInstances("m", 1);
    await fleet.until(({ id, state }) => id === "m-0" && state === "draining");
    inFlight.set("m-0", 0);
    await rested;
    expect(supervisor.instances().map(({ state }) => state)).toEqual(["stopped", "stopped", "ready"]);
    // One that never finishes is not waited for when it is told to hurry.
    await supervisor.close({ now: true });
  });

  it("stops waiting for requests at the time limit", async () => {
    await using fleet = testFleet({ inFlight: () => 1 });
    fleet.supervisor.addModel(modelSpec({ drainTimeoutMs: 100 }));
    await fleet.supervisor.whenReady("m");
    await fleet.supervisor.drain("m-0");
    expect(fleet.supervisor.instances()).toMatchObject([{ state: "stopped" }]);
    expect(fleet.lines.join("")).toContain("still running");
  });

  it("immediately kills a process that ignores SIGTERM if the close is urgent", async () => {
    await using fleet = testFleet();
    const script = `process.on("SIGTERM", () => {});
      const port = Number(process.argv[process.argv.indexOf("--port") + 1]);
      require("http").createServer((_, response) => response.end()).listen(port, "127.0.0.1");`;
    fleet.supervisor.addModel(modelSpec({ program: scriptProgram(script), stopTimeoutMs: 600_000 }));
    await fleet.supervisor.whenReady("m");
    const { pid } = fleet.supervisor.instances()[0]!;
    const closed = fleet.supervisor.close();
    await fleet.supervisor.close({ now: true });
    await closed;
    expect(isAlive(pid!)).toBe(false);
  });

  it("ends an instance that is still starting", async () => {
    await using fleet = testFleet();
    fleet.supervisor.addModel(modelSpec({ env: { STAND_IN_READY_AFTER_MS: "3600000" } }));
    const { pid } = await fleet.until((each) => each.pid !== undefined);
    await fleet.supervisor.setInstances("m", 0);
    expect(isAlive(pid!)).toBe(false);
    expect(fleet.supervisor.instances()).toMatchObject([{ state: "stopped", starts: 1 }]);
  });

  it("keeps an instance on its cores", async () => {
    if (!existsSync("/usr/bin/taskset")) return;
    await using fleet = testFleet();
    const [first] = /Cpus_allowed_list:\s*(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))!.slice(1);
    fleet.supervisor.addModel(modelSpec({ cores: [[Number(first)]] }));
    await fleet.supervisor.whenReady("m");
    const status = readFileSync(`/proc/${fleet.supervisor.instances()[0]!.pid}/status`, "utf8");
    expect(/Cpus_allowed_list:\s*(\S+)/.exec(status)?.[1]).toBe(first);
  });
});

describe.runIf(process.platform === "linux")("random orders, with processes killed in between", () => {
  it.each(
    [1, 2, 3].slice(0, cases(1, 3)),
  )("end in the state of the last order, without extra processes (seed %i)", async (seed) => {
    await using fleet = testFleet({ timing: { maxCrashes: 1000, restartMs: 1, maxRestartMs: 5 } });
    const { supervisor } = fleet;
    const rng = new TestRng(seed);
    supervisor.addModel(modelSpec({ scaleDown: "sleep" }));
    await supervisor.whenReady("m");
    const fleetId = fleetOf(supervisor.instances()[0]!.pid!);
    const orders: Promise<unknown>[] = [];
    for (let step = 0; step < 60; step++) {
      const { id, pid } = rng.pick(supervisor.instances());
      const kind = rng.int(0, 4);
      if (kind === 0) orders.push(supervisor.setInstances("m", rng.int(0, 3)));
      else if (kind === 1) orders.push(supervisor.restart(id));
      else if (kind === 2) orders.push(supervisor.drain(id));
      else if (kind === 3) supervisor.reportFailure(id);
      else if (pid !== undefined && isAlive(pid)) process.kill(pid, "SIGKILL");
      await new Promise((resolve) => setTimeout(resolve, rng.int(0, 40)));
    }
    await Promise.all(orders);
    await supervisor.setInstances("m", 2);
    const count = (states: readonly string[]) =>
      supervisor.instances().filter(({ state }) => states.includes(state)).length;
    await fleet.until(
      () => count(["ready"]) === 2 && count(["ready", "asleep", "stopped"]) === supervisor.instances().length,
    );
    const running = readdirSync("/proc").filter((pid) => fleetOf(pid) === fleetId);
    const known = supervisor.instances().flatMap(({ pid }) => (pid === undefined ? [] : [String(pid)]));
    expect(running.toSorted()).toEqual(known.toSorted());
    await supervisor.close();
    expect(readdirSync("/proc").filter((pid) => fleetOf(pid) === fleetId)).toEqual([]);
  }, 60_000);
});
