import { readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test, vi } from "vitest";
import { cases } from "../../../test/helpers/long.js";
import { tempTree } from "../../../test/scripts/temp-tree.js";
import { EVERY_MS, History, WINDOW_NAMES } from "./history.js";
import { TENANT_LAYOUT } from "./history-layout.js";
import { type Load, readingOf } from "./load.js";

const disk = vi.hoisted(() => ({ isFull: false }));
vi.mock("node:fs", async (original) => {
  const fs = await original<typeof import("node:fs")>();
  const writeSync = (...args: Parameters<typeof fs.writeSync>): number => {
    if (disk.isFull) throw new Error("ENOSPC: no space left on device");
    return fs.writeSync(...args);
  };
  return { ...fs, writeSync };
});

const START = Date.UTC(2026, 0, 1);
const HOUR = 3_600_000;

const unknown = (count: number): undefined[] => new Array<undefined>(count).fill(undefined);

const EMPTY = readingOf([], START);

/** A reading after so many tokens. Made without metrics, since a year has half a million; other tests parse metrics. */
const reading = (atMs: number, tokens: number, waiting = 0) => ({
  ...EMPTY,
  atMs,
  waiting,
  counters: { ...EMPTY.counters, tokensOut: tokens },
});

test("each window has its own resolution, and rates are those of whole intervals", () => {
  const history = new History();
  for (let atMs = START; atMs <= START + 2 * HOUR; atMs += EVERY_MS) history.add(reading(atMs, (atMs - START) / 100));
  const now = START + 2 * HOUR;
  const [hour, day, week] = WINDOW_NAMES.map((name) => history.read(name, now));
  expect([hour!.length, day!.length, week!.length]).toEqual([360, 60, 8]);
  for (const { tokensOutPerS, acceptance, ttft } of [...hour!, ...day!, ...week!]) {
    expect(tokensOutPerS).toBeCloseTo(10, 9);
    expect([acceptance, ttft.p50]).toEqual([undefined, undefined]);
  }
  expect(hour!.at(-1)!.atMs).toBe(now);
  // No figures from before the window.
  expect(history.read("hour", now + HOUR / 2)).toHaveLength(180);
});

test("a file keeps its size for many weeks, and a server that starts again finds the last week", () => {
  const path = join(tempTree({}), "data", "history");
  let history = new History(path);
  const size = statSync(path).size;
  expect(size).toBeLessThan(200_000);
  const span = cases(8, 52) * 7 * 24 * HOUR;
  // A reading every ten minutes, in the last days every minute, with hours in which the server is down.
  const stepMs = (atMs: number): number => (atMs < START + span - 8 * 24 * HOUR ? 600_000 : 60_000);
  for (let atMs = START; atMs < START + span; atMs += atMs % (50 * HOUR) < stepMs(atMs) ? 3 * HOUR : stepMs(atMs))
    history.add(reading(atMs, atMs / 1000));
  history.close();
  expect(statSync(path).size).toBe(size);
  const before = WINDOW_NAMES.map((name) => history.read(name, START + span));
  history = new History(path);
  expect(WINDOW_NAMES.map((name) => history.read(name, START + span))).toEqual(before);
  expect(before.map((loads) => loads.length > 50)).toEqual([true, true, true]);
  history.close();
});

test("a short queue is in every window, as large as it was", () => {
  const history = new History();
  for (let atMs = START; atMs <= START + 2 * HOUR; atMs += EVERY_MS)
    history.add(reading(atMs, 0, atMs === START + HOUR + EVERY_MS ? 7 : 1));
  for (const name of WINDOW_NAMES) {
    const waiting = history.read(name, START + 2 * HOUR).map((load) => load.waiting);
    expect(waiting.filter((count) => count === 7)).toHaveLength(1);
    expect(waiting.filter((count) => count === 1)).toHaveLength(waiting.length - 1);
  }
});

test("a file that was left short is made whole, and one that cannot be written is told once", () => {
  const path = join(tempTree({}), "history");
  new History(path).close();
  const size = statSync(path).size;
  truncateSync(path, 40);
  const problems: string[] = [];
  const history = new History(path, (text) => problems.push(text));
  expect(statSync(path).size).toBe(size);
  disk.isFull = true;
  for (let atMs = START; atMs < START + HOUR; atMs += EVERY_MS) history.add(reading(atMs, 0));
  expect(problems).toEqual([expect.stringContaining("the history was not written: ENOSPC")]);
  disk.isFull = false;
  expect(history.read("hour", START + HOUR).length).toBeGreaterThan(300);
});

test("a file that another server has is left to it, which is told, and is free when it ends", () => {
  const path = join(tempTree({}), "shared");
  const first = new History(path);
  const problems: string[] = [];
  const second = new History(path, (text) => problems.push(text));
  expect(problems).toEqual([expect.stringContaining(`another server has the history ${path}`)]);
  second.close();
  first.close();
  const third = new History(path, (text) => problems.push(text));
  expect(problems).toHaveLength(1);
  third.close();
});

/** A file of version 1: a title of 32 bytes, and rows of 64-bit numbers. */
function earlierFile(path: string, title: string, width: number, rows: readonly (readonly number[])[]): void {
  const numbers = new Float64Array(1752 * width);
  // The hour's rows come first, each at its time's place.
  for (const row of rows) numbers.set(row, (Math.floor(row[0]! / EVERY_MS) % 360) * width);
  writeFileSync(path, Buffer.concat([Buffer.from(`${title}\n`.padEnd(32)), new Uint8Array(numbers.buffer)]));
}

test("a file of the earlier layout is written anew with its figures, once", () => {
  const folder = tempTree({});
  const path = join(folder, "history");
  const figures = [10, 20, 0.5, 0, 2, 1, 0.25, Number.NaN, 0.75, 0.125, 0, 3];
  const quantiles = [1, 2, 3, 4, 5, 6, Number.NaN, Number.NaN, Number.NaN];
  earlierFile(path, "millrace history, version 1", 22, [[START, ...figures, ...quantiles]]);
  let history = new History(path);
  const kept = history.read("hour", START + HOUR / 2);
  expect(kept).toMatchObject([
    { atMs: START, tokensInPerS: 10, tokensOutPerS: 20, waiting: 1, hostShare: 0.125, savedPerS: 3, ttft: { p99: 3 } },
  ]);
  const [{ prefixHits, promptShare, memoryBytes, tpot, queue }] = kept as [Load];
  expect([prefixHits, promptShare, memoryBytes, tpot.p50, queue.p50]).toEqual([...unknown(3), 4, undefined]);
  history.add(reading(START + HOUR, 0));
  history.add(reading(START + HOUR + EVERY_MS, 100));
  history.close();
  history = new History(path);
  expect(history.read("day", START + HOUR + HOUR)).toEqual([]);
  expect(history.read("hour", START + HOUR + EVERY_MS).map(({ atMs }) => atMs)).toEqual([START + HOUR + EVERY_MS]);
  expect(history.read("hour", START + HOUR / 2)).toEqual(kept);
  history.close();
  expect(readdirSync(folder)).toEqual(["history"]);
  const ofTenant = join(folder, "tenant=a");
  earlierFile(ofTenant, "millrace tenants, version 1", 14, [[START, 1, 2, 3, 4, 0.5, 6, 7, 8, 9, 10, 11, 12, 13]]);
  const tenant = new History(ofTenant, undefined, true, TENANT_LAYOUT);
  expect(tenant.read("hour", START + 1)).toMatchObject([{ tokensInPerS: 1, savedCostPerH: 7, tpot: { p99: 13 } }]);
  tenant.close();
  // A larger file is not ours.
  earlierFile(path, "millrace history, version 1", 23, []);
  expect(() => new History(path)).toThrow(/other content/);
});

test("times are kept to the millisecond, other figures to seven digits", () => {
  const history = new History();
  const atMs = START + 123_457;
  history.add({ ...reading(START, 0), memoryBytes: 1 });
  history.add({ ...reading(atMs, 12_345), memoryBytes: 123_456_789_012 });
  expect(history.read("hour", atMs)).toMatchObject([{ atMs, tokensOutPerS: 99.99433, memoryBytes: 123_456_800_000 }]);
});

test("other files are refused and left as they are", () => {
  const root = tempTree({ "notes.txt": "mine" });
  const path = join(root, "notes.txt");
  expect(() => new History(path)).toThrow(
    /expected a new file or an earlier history at .*notes\.txt, got other content/,
  );
  expect(() => new History(root)).toThrow(/got EISDIR/);
  writeFileSync(path, Buffer.alloc(statSync(path).size));
  expect(() => new History(path)).toThrow();
  expect(readFileSync(path)).toEqual(Buffer.alloc(4));
});

test("figures come in the order of their times, once each, whatever the clock does", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: -400_000, max: 900_000 }), { maxLength: 60 }), (steps) => {
      const history = new History();
      let atMs = START;
      for (const step of steps) {
        atMs += step;
        history.add(reading(atMs, 0, 5));
      }
      for (const name of WINDOW_NAMES) {
        const loads = history.read(name, atMs);
        const times = loads.map((load) => load.atMs);
        expect(times).toEqual([...new Set(times)].sort((a, b) => a - b));
        for (const { waiting } of loads) expect(waiting).toBe(5);
      }
    }),
  );
});
