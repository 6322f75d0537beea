import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { RecordFiles } from "./record-files.js";

const DAY_MS = 86_400_000;
let base: string;
let folder: string;
let nowMs: number;
let written: number;
let lost: number;

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), "millrace-records-"));
  folder = join(base, "traffic");
  [nowMs, written, lost] = [Date.UTC(2026, 10, 30, 12), 0, 0];
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

const files = (options: { maxBytes?: number; keepMs?: number; maxQueueBytes?: number } = {}) =>
  new RecordFiles({
    folder,
    maxBytes: 80_000,
    keepMs: 10 * DAY_MS,
    flushMs: 1,
    now: () => nowMs,
    onWritten: (count) => {
      written += count;
    },
    onLost: (count) => {
      lost += count;
    },
    ...options,
  });

const names = () => readdirSync(folder).sort();
const text = () =>
  names()
    .map((name) => readFileSync(join(folder, name), "utf8"))
    .join("");
/** Writes lines of `numBytes` bytes, with their line breaks, each into a run of its own. */
async function write(count: number, numBytes: number, options: Parameters<typeof files>[0] = {}): Promise<void> {
  for (let i = 0; i < count; i++) {
    const each = files(options);
    each.push(() => String(i).padStart(numBytes - 1, "x"));
    await each.close();
    nowMs += 1000;
  }
}

test("what waits is written when the gateway ends, in files that only their owner reads", async () => {
  const each = files();
  for (const line of ["a", "b"]) each.push(() => line);
  await each.close();
  expect([text(), written, lost]).toEqual(["a\nb\n", 2, 0]);
  const [name] = names();
  expect(name).toBe("2026-11-30T12-00-00-000Z.jsonl");
  expect([statSync(join(folder, name!)).mode & 0o777, statSync(folder).mode & 0o777]).toEqual([0o600, 0o700]);
});

test("a new file begins each day, and whenever one is full", async () => {
  const each = files();
  const add = async (line: string) => {
    const before = written;
    each.push(() => line);
    while (written === before) await new Promise((resolve) => setImmediate(resolve));
  };
  await add("x".repeat(6_000));
  await add("y".repeat(3_000));
  expect(names()).toHaveLength(1);
  await add("z".repeat(3_000));
  expect(names()).toHaveLength(2);
  nowMs += DAY_MS;
  await add("next day");
  expect(names()).toHaveLength(3);
  await each.close();
  expect(text().match(/[a-z ]+/g)).toHaveLength(4);
});

test("two gateways that begin at the same time have files of their own", async () => {
  const both = [files(), files()];
  for (const [index, each] of both.entries()) each.push(() => `line of ${index}`);
  await Promise.all(both.map((each) => each.close()));
  expect(names()).toHaveLength(2);
  expect(text().split("\n").sort()).toEqual(["", "line of 0", "line of 1"]);
});

test("the oldest files go by size, and all by age; other files stay", async () => {
  await write(12, 9_000);
  const sizes = names().map((name) => statSync(join(folder, name)).size);
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(80_000);
  expect(text()).toMatch(/x11\n$/);
  expect(text()).not.toMatch(/x0\n/);
  writeFileSync(join(folder, "notes.jsonl"), "mine\n");
  nowMs += 11 * DAY_MS;
  await write(1, 10);
  expect(names()).toEqual([expect.stringMatching(/^2026-12-11/), "notes.jsonl"]);
});

test("with a full queue further requests are lost and counted, and so are lines that cannot be made", async () => {
  const each = files({ maxQueueBytes: 100 });
  const line = vi.fn(() => "x".repeat(59));
  each.push(line);
  // Whole lines wait, not the requests behind them.
  expect(line).toHaveBeenCalledTimes(1);
  each.push(line);
  each.push(() => {
    throw new Error("expected an answer, got another one");
  });
  each.push(() => "x".repeat(39));
  expect([lost, line.mock.calls.length]).toEqual([2, 2]);
  each.push(line);
  expect([lost, line.mock.calls.length]).toEqual([3, 2]);
  await each.close();
  expect([text().length, written, lost]).toEqual([100, 2, 3]);
});

test("a line that is longer than a file is lost", async () => {
  await write(1, 10_001);
  expect(lost).toBe(1);
});

test("a folder that cannot be had loses requests, and later ones go on", async () => {
  writeFileSync(folder, "");
  const each = files();
  each.push(() => "lost");
  while (lost === 0) await new Promise((resolve) => setImmediate(resolve));
  rmSync(folder);
  each.push(() => "kept");
  await each.close();
  expect([text(), written, lost]).toEqual(["kept\n", 1, 1]);
});
