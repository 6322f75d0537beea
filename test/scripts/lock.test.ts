/** Two starts at once: the set-up lock lets one process in at a time and survives one that died holding it. */
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, lutimesSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { repositoryRoot } from "../helpers/fixtures.js";
import { tempTree } from "./temp-tree.js";

/** Appends "in" and "out" around a few event-loop turns inside the lock. */
const WORKER = `
const [lockModule, root] = process.argv.slice(1);
const { withLock } = await import(lockModule);
const { appendFileSync } = await import("node:fs");
const { setTimeout: delay } = await import("node:timers/promises");
await withLock(root + "/build/setup.lock", async () => {
  appendFileSync(root + "/log", "in\\n");
  await delay(20);
  appendFileSync(root + "/log", "out\\n");
}, () => process.stdout.write("waiting"));
`;

interface Worker {
  readonly isWaiting: Promise<void>;
  readonly exitCode: Promise<number | null>;
}

function startWorker(root: string): Worker {
  const lockModule = pathToFileURL(join(repositoryRoot(), "scripts/setup/lock.js")).href;
  const child = spawn(process.execPath, ["--input-type=module", "-e", WORKER, lockModule, root], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  return {
    isWaiting: new Promise((resolve) => child.stdout.once("data", () => resolve())),
    exitCode: new Promise((resolve) => child.once("close", resolve)),
  };
}

test("processes take turns, and a dead owner's lock is taken over", async () => {
  const root = tempTree({ "build/setup.lock": `${hostname()} 999999999 1` });
  const exitCodes = await Promise.all([1, 2, 3].map(() => startWorker(root).exitCode));
  expect(exitCodes).toEqual([0, 0, 0]);
  expect(readFileSync(join(root, "log"), "utf8")).toBe("in\nout\n".repeat(3));
});

test("a live owner is waited for", async () => {
  const root = tempTree({ "build/setup.lock": `${hostname()} ${process.pid} 1` });
  const worker = startWorker(root);
  await worker.isWaiting;
  expect(existsSync(join(root, "log"))).toBe(false);
  // Handing over: the owner named in the file is gone.
  writeFileSync(join(root, "build/setup.lock"), `${hostname()} 999999999 1`);
  expect(await worker.exitCode).toBe(0);
  expect(readFileSync(join(root, "log"), "utf8")).toBe("in\nout\n");
});

test("an old link to nothing in its place is taken over", async () => {
  const root = tempTree({ "build/kept": "" });
  const path = join(root, "build/setup.lock");
  symlinkSync(join(root, "nothing"), path);
  lutimesSync(path, 0, 0);
  expect(await startWorker(root).exitCode).toBe(0);
  expect(existsSync(path)).toBe(false);
});

test("while another process takes a dead owner's lock over, nobody else does", async () => {
  const dead = `${hostname()} 999999999 1`;
  const name = `build/setup.lock.after-${createHash("sha256").update(dead).digest("hex").slice(0, 16)}`;
  const root = tempTree({ "build/setup.lock": dead, [name]: `${hostname()} ${process.pid} 1` });
  const worker = startWorker(root);
  await worker.isWaiting;
  expect(readFileSync(join(root, "build/setup.lock"), "utf8")).toBe(dead);
  // That process ends in the middle of it.
  writeFileSync(join(root, name), `${hostname()} 999999998 1`);
  expect(await worker.exitCode).toBe(0);
  expect(readdirSync(join(root, "build"))).toEqual([]);
});
