/** A disk that does not answer: the tier's end waits for a while, says so, and goes without it. */
import { execFileSync } from "node:child_process";
import { closeSync, constants, mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, expect, test, vi } from "vitest";
import { DiskTier } from "./disk-tier.js";

const { root } = vi.hoisted(() => ({ root: { path: "" } }));
vi.mock("../../core/package-root.js", () => ({ packageRoot: () => root.path }));

root.path = mkdtempSync(join(tmpdir(), "millrace-stuck-"));
const pipe = join(root.path, "pipe");
const script = join(root.path, "dist/src/engine/memory/disk-writer.js");
mkdirSync(join(script, ".."), { recursive: true });
execFileSync("mkfifo", [pipe]);
afterAll(() => rmSync(root.path, { recursive: true }));

beforeEach(() => vi.useFakeTimers({ toFake: ["setTimeout", "performance"] }));
afterEach(() => vi.useRealTimers());

const memory = { blockBytes: 8, copyOut: async () => {}, copyIn: () => {} };

const notes: string[] = [];
afterEach(() => notes.splice(0));

/** A tier whose writer runs these lines. */
function open(writer: string): DiskTier {
  writeFileSync(script, `const { workerData: { port } } = require("node:worker_threads");\n${writer}`);
  const options = { folder: join(root.path, "blocks"), maxBytes: 1000 };
  return new DiskTier(options, "f", memory, (text) => notes.push(text));
}

test("a writer that hangs in the kernel is left behind", async () => {
  // No call ends a thread that waits for a pipe to be opened, as none ends one that waits for a disk.
  const tier = open(`require("node:fs").openSync(${JSON.stringify(pipe)}, "r");`);
  const end = tier.close();
  await vi.advanceTimersByTimeAsync(19_000);
  expect(notes).toEqual([]);
  await vi.advanceTimersByTimeAsync(2000);
  expect(await end).toBe("stuck");
  expect(notes).toEqual([expect.stringContaining("has not answered for 20 s")]);
  // To read and write, since a thread that has been ended before it opened the pipe would be waited for.
  closeSync(openSync(pipe, constants.O_RDWR));
});

test("a writer that goes on writing is waited for, however long it takes", async () => {
  const tier = open(`
    let numLeft = 3;
    const next = () => {
      port.postMessage({ kind: "tidied", numBytes: 0, numEvicted: 1 });
      if (--numLeft === 0) port.postMessage({ kind: "flushed" });
    };
    port.on("message", () => setInterval(next, 250));`);
  const end = tier.close();
  for (const numHeard of [1, 2, 3]) {
    while (tier.stats.numEvicted < numHeard) await new Promise(setImmediate);
    await vi.advanceTimersByTimeAsync(numHeard < 3 ? 19_000 : 10);
  }
  expect([await end, notes]).toEqual(["ended", []]);
});
