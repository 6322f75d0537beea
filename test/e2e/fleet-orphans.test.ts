/** No engine outlives its server, however the server ends: real processes, with workers in groups of their own. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { isAlive } from "../helpers/fleet.js";
import { tempTree } from "../scripts/temp-tree.js";

const path = (name: string) => fileURLToPath(new URL(`../helpers/${name}`, import.meta.url));

async function startServer(): Promise<{ readonly server: ChildProcess; readonly pids: readonly number[] }> {
  const server = spawn(process.execPath, [path("fleet-server.mjs"), tempTree({}), path("stand-in-engine.mjs")], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = (await once(createInterface({ input: server.stdout! }), "line")) as [string];
  const { pids } = JSON.parse(line) as { pids: readonly number[] };
  return { server, pids };
}

/** Alive after so long that nobody is still on their way out. */
async function survivors(pids: readonly number[]): Promise<readonly number[]> {
  for (let tries = 0; tries < 200 && pids.some(isAlive); tries++) await sleep(25);
  return pids.filter(isAlive);
}

/** The shell that waits for the server's end. */
function guardOf(server: ChildProcess): number {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  const guard = pids.find((pid) => {
    try {
      const isChild = new RegExp(`^PPid:\\s*${server.pid}$`, "m").test(readFileSync(`/proc/${pid}/status`, "utf8"));
      return isChild && readFileSync(`/proc/${pid}/cmdline`, "utf8").startsWith("/bin/sh\0");
    } catch {
      return false;
    }
  });
  return Number(guard);
}

/** The guard that follows `first`. One look a turn: between two looks the killed shell can lose its command line. */
async function guardAfter(server: ChildProcess, first: number): Promise<number> {
  for (let tries = 0; tries < 400; tries++) {
    const guard = guardOf(server);
    if (guard > 0 && guard !== first) return guard;
    await sleep(25);
  }
  return Number.NaN;
}

describe.runIf(process.platform === "linux")("engines and their workers end", () => {
  it("with a server that is killed", async () => {
    const { server, pids } = await startServer();
    expect(pids.filter(isAlive)).toEqual(pids);
    const guard = guardOf(server);
    server.kill("SIGKILL");
    expect(await survivors([...pids, guard])).toEqual([]);
  });

  it("with a server that exits without cleanup", async () => {
    const { server, pids } = await startServer();
    server.kill("SIGTERM");
    expect(await survivors(pids)).toEqual([]);
  });

  it("even if the guard was killed before, because the server starts another", async () => {
    const { server, pids } = await startServer();
    const first = guardOf(server);
    process.kill(first, "SIGKILL");
    const next = await guardAfter(server, first);
    expect(next).toBeGreaterThan(0);
    server.kill("SIGKILL");
    expect(await survivors(pids)).toEqual([]);
  });
});
