/** The servers are small scripts that never become ready, end too early, or outlive their parent. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { endingWithUs, forkServer, launchServer } from "./launch.js";

const folder = mkdtempSync(join(tmpdir(), "launch-"));
afterAll(() => rmSync(folder, { recursive: true }));

const IDLE = [process.execPath, "-e", "setInterval(() => {}, 1000)"] as const;

test("stopping does not wait for a server to become ready", async () => {
  const stopping = new AbortController();
  const isReady = async () => {
    stopping.abort();
    return false;
  };
  const starting = launchServer({ name: "idle", command: () => IDLE, isReady }, undefined, stopping.signal);
  await expect(starting).rejects.toMatchObject({ name: "AbortError" });
});

test("started servers end with this process", async () => {
  const child = endingWithUs(spawn(IDLE[0], IDLE.slice(1)));
  process.listeners("exit").at(-1)!(0);
  expect(await once(child, "exit")).toEqual([null, "SIGKILL"]);
});

test("a process that ends before it listens is an error, and stopping an ended process succeeds", async () => {
  const script = (name: string, code: string) => {
    writeFileSync(join(folder, name), code);
    return join(folder, name);
  };
  await expect(forkServer(script("a.mjs", "process.exit(3)"), [])).rejects.toThrow(/a\.mjs to listen, got exit 3/);
  const server = await forkServer(script("b.mjs", "process.send(7, () => process.exit())"), []);
  expect(server.url).toBe("http://127.0.0.1:7");
  await server.stop();
  await server.stop();
});
