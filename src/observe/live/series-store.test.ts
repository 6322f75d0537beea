import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tempTree } from "../../../test/scripts/temp-tree.js";
import type { WindowName } from "./history.js";
import { keyOf, readingOf } from "./load.js";
import { parseMetrics } from "./metrics-text.js";
import { MOST_SERIES, SeriesStore } from "./series-store.js";

const START = Date.UTC(2026, 0, 1);
const HOUR = 3_600_000;
const DAY = 24 * HOUR;

const reading = (atMs: number, tokens: number) =>
  readingOf(parseMetrics(`millrace:generation_tokens_total ${tokens}\n`), atMs);
const instance = (name: string): string => keyOf({ kind: "instance", name });
const readings = (atMs: number, names: readonly string[]) =>
  new Map(names.map((name) => [instance(name), reading(atMs, atMs / 100)]));
const numLoads = (store: SeriesStore, name: string, atMs: number, window: WindowName = "hour"): number =>
  store.find(instance(name))?.read(window, atMs).length ?? 0;

test("in a year of instances that come and go, memory and folder keep their bound, and the newest are there", () => {
  const folder = join(tempTree({}), "parts");
  let store = new SeriesStore(folder);
  // Two names that stay, and others that last a day: at the end of a week, more than there is room for.
  const namesAt = (atMs: number): string[] => {
    const day = Math.floor((atMs - START) / DAY);
    return ["stays-0", "stays-1", ...Array.from({ length: day < 320 ? 1 : 9 }, (_, i) => `short-${day}-${i}`)];
  };
  for (let atMs = START; atMs < START + 365 * DAY; atMs += 12 * HOUR) {
    store.add(readings(atMs, namesAt(atMs)));
    expect(store.keys().length).toBeLessThanOrEqual(MOST_SERIES);
  }
  const end = START + 365 * DAY - 12 * HOUR;
  const files = readdirSync(folder);
  expect(files.sort()).toEqual([...store.keys()].sort());
  const bytes = files.reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
  expect(bytes).toBeLessThan(13_000_000);
  expect(files).toHaveLength(MOST_SERIES);
  expect(numLoads(store, "stays-0", end, "week")).toBeGreaterThan(10);
  expect(numLoads(store, "short-364-8", end, "week")).toBe(1);
  expect(store.find(instance("short-357-0"))).toBeUndefined();
  store.close();
  store = new SeriesStore(folder);
  expect(store.keys()).toHaveLength(files.length);
  expect(numLoads(store, "stays-1", end, "week")).toBeGreaterThan(10);
  // A week later, all names that left are forgotten, even if their places are not needed.
  store.add(readings(end + 8 * DAY, ["stays-0"]));
  expect([store.keys(), readdirSync(folder)]).toEqual([[instance("stays-0")], [instance("stays-0")]]);
  store.close();
});

test("where there are too many, the one unused for longest gives way, and none that is there", () => {
  const store = new SeriesStore();
  const names = Array.from({ length: MOST_SERIES }, (_, i) => `m-${i}`);
  store.add(readings(START, names));
  store.add(readings(START + 10_000, [...names, "late"]));
  expect(store.find(instance("late"))).toBeUndefined();
  store.add(readings(START + 100_000, names.slice(5)));
  store.add(readings(START + 110_000, [...names.slice(5), "late"]));
  expect(store.keys()).toHaveLength(MOST_SERIES);
  expect(store.find(instance("late"))).toBeDefined();
  expect(names.filter((name) => store.find(instance(name)) === undefined)).toEqual(["m-0"]);
});

test("names become files of the folder alone, and a name that is no file's is kept in memory", () => {
  const root = tempTree({ outside: "mine" });
  const folder = join(root, "parts");
  const store = new SeriesStore(folder);
  const names = ["../outside", "a/b", ".", "a=b%2e", "é".repeat(40), "x".repeat(300)];
  store.add(readings(START, names));
  store.add(readings(START + 10_000, names));
  for (const name of names) expect(numLoads(store, name, START + 10_000)).toBe(1);
  expect(readdirSync(root).sort()).toEqual(["outside", "parts"]);
  expect(readFileSync(join(root, "outside"), "utf8")).toBe("mine");
  expect(readdirSync(folder)).toHaveLength(5);
  store.close();
});

test("a file of other content is left as it is, with one warning, and so is a folder that cannot be", () => {
  const folder = join(tempTree({ "a-file": "" }), "parts");
  mkdirSync(folder);
  for (const name of ["m-0", "m-1"]) writeFileSync(join(folder, instance(name)), "mine");
  const problems: string[] = [];
  const store = new SeriesStore(folder, (text) => problems.push(text));
  store.add(readings(START, ["m-0"]));
  store.add(readings(START + 10_000, ["m-0"]));
  expect(numLoads(store, "m-0", START + 10_000)).toBe(1);
  expect(readFileSync(join(folder, instance("m-0")), "utf8")).toBe("mine");
  new SeriesStore(join(folder, "..", "a-file"), (text) => problems.push(text)).add(readings(START, ["m-0"]));
  expect(problems).toEqual([expect.stringContaining("got other content"), expect.stringContaining("EEXIST")]);
});
