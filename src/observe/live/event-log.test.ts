import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { tempTree } from "../../../test/scripts/temp-tree.js";
import { EventLog } from "./event-log.js";

test("events are kept over a restart, within a bound, and read by their time", () => {
  const path = join(tempTree({}), "data", "events");
  const log = new EventLog(path);
  for (let i = 1; i <= 2500; i++) log.add("scale", `m: ${i} ${"x".repeat(600)}`, i);
  expect(readFileSync(path, "utf8").split("\n").length).toBeLessThanOrEqual(1001);
  const again = new EventLog(path);
  expect(again.since(0, 1e9)).toEqual(log.since(0, 1e9));
  expect(again.since(0, 1e9)).toHaveLength(500);
  expect(again.since(2400, 2402).map(({ at_ms, text }) => [at_ms, text.length])).toEqual([
    [2401, 300],
    [2402, 300],
  ]);
});

test("what is new is told once", () => {
  const log = new EventLog();
  log.add("reload", "one");
  log.add("alert", "two");
  expect(log.takeNew().map(({ text }) => text)).toEqual(["one", "two"]);
  expect(log.takeNew()).toEqual([]);
});

test("cut and foreign lines, foreign files and places that cannot be written cost no more than themselves", () => {
  const root = tempTree({ notes: "mine\n", file: "" });
  const path = join(root, "events");
  new EventLog(path).add("start", "one", 1);
  appendFileSync(path, '{"at_ms":2,"kind":"other","text":"no"}\n{"at_ms":3,"kind":"st');
  const log = new EventLog(path);
  log.add("start", "two", 4);
  expect(new EventLog(path).since(0, 9).map(({ text }) => text)).toEqual(["one", "two"]);
  writeFileSync(path, "x".repeat(3_000_000));
  expect(new EventLog(path).since(0, 9)).toEqual([]);
  const problems: string[] = [];
  const lost = new EventLog(join(root, "file", "events"), (text) => problems.push(text));
  lost.add("start", "kept in memory", 1);
  expect([problems.length, lost.since(0, 9).length]).toEqual([1, 1]);
});
