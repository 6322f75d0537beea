/** The servers are small scripts that never become ready, end too early, or outlive their parent. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test, vi } from "vitest";
import { forkServer, launchServer } from "./launch.js";

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

test("a stopped server leaves no worker behind, even if the worker ignores the request to end", async () => {
  const worker = "process.on('SIGTERM', () => {}); setInterval(() => {}, 1000)";
  const pidFile = join(folder, "worker");
  const parent = `const child = require("node:child_process").spawn(process.execPath, ["-e", ${JSON.stringify(worker)}]);
    require("node:fs").writeFileSync(${JSON.stringify(pidFile)}, String(child.pid));
    setInterval(() => {}, 1000)`;
  const isReady = async () => existsSync(pidFile) && readFileSync(pidFile, "utf8") !== "";
  for (const stopSeconds of [0, 5]) {
    rmSync(pidFile, { force: true });
    const command = () => [process.execPath, "-e", parent];
    const server = await launchServer({ name: "parent", command, isReady, stopSeconds });
    const pid = Number(readFileSync(pidFile, "utf8"));
    expect(isRunning(pid)).toBe(true);
    await server.stop();
    await vi.waitFor(() => expect(isRunning(pid)).toBe(false), { timeout: 20_000 });
  }
});

test("a server does not take the key of a fleet on this machine as its own", async () => {
  const keyFile = join(folder, "key");
  const script = `require("node:fs").writeFileSync(${JSON.stringify(keyFile)}, String(process.env.MILLRACE_API_KEY)); setInterval(() => {}, 1000)`;
  const isReady = async () => existsSync(keyFile) && readFileSync(keyFile, "utf8") !== "";
  vi.stubEnv("MILLRACE_API_KEY", "sk-of-the-fleet");
  try {
    const server = await launchServer({ name: "keyless", command: () => [process.execPath, "-e", script], isReady });
    await server.stop();
  } finally {
    vi.unstubAllEnvs();
  }
  expect(readFileSync(keyFile, "utf8")).toBe("undefined");
});

/** Whether the process exists and is not a zombie. */
function isRunning(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

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

test("a server that takes connections and never answers is given up after its time", async () => {
  const isReady = () => new Promise<boolean>((resolve) => setTimeout(resolve, 300, false));
  const sinceMs = performance.now();
  const starting = launchServer({ name: "mute", command: () => IDLE, isReady, startSeconds: 0.5 });
  await expect(starting).rejects.toThrow(/expected mute to become ready/);
  // Far above half a second on a busy machine, far below for ever.
  expect(performance.now() - sinceMs).toBeLessThan(20_000);
});
