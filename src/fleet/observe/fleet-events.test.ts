import { expect, test } from "vitest";
import type { BreakerState } from "../routing/breaker.js";
import { FleetEvents } from "./fleet-events.js";

function fleet() {
  const told: string[] = [];
  const time = { now: 1_000_000 };
  const events = new FleetEvents(
    (kind, text) => told.push(`${kind}: ${text}`),
    () => time.now,
  );
  const status = { id: "m-0", model: "m", state: "starting" as const, starts: 1, isGivenUp: false };
  const look = (change: object = {}, breaker: BreakerState = "closed") =>
    events.look([{ ...status, ...change }], () => breaker).map(({ text }) => text);
  const set = (change: object) => events.onStatus({ ...status, ...change });
  return { told, time, events, look, set };
}

test("starts, failures, restarts and breakers are events, each once", () => {
  const { told, set, look } = fleet();
  set({});
  set({ state: "ready" });
  set({ state: "ready" });
  set({ state: "failed" });
  set({ state: "starting", starts: 2 });
  set({ state: "ready", starts: 2 });
  look({}, "open");
  look({}, "half-open");
  look({}, "closed");
  expect(told).toEqual([
    "instance: m-0 is ready",
    "instance: m-0 failed",
    "restart: m-0 starts again, start 2",
    "instance: m-0 is ready",
    "breaker: The breaker of m-0 opened",
    "breaker: The breaker of m-0 closed",
  ]);
});

test("an instance is down after a minute without a ready state, at once where it is given up, and unsure while it starts", () => {
  const { time, set, look, events } = fleet();
  set({ state: "ready" });
  expect(events.isUnsure("m-0")).toBe(false);
  set({ state: "failed" });
  expect([look(), events.isUnsure("m-0")]).toEqual([[], true]);
  time.now += 30_000;
  set({ state: "starting", starts: 2 });
  time.now += 30_000;
  expect(look()).toEqual(["m-0 of m is down"]);
  set({ state: "ready", starts: 2 });
  expect([look(), events.isUnsure("m-0")]).toEqual([[], false]);
  expect(look({ isGivenUp: true })).toEqual(["m-0 of m failed again and again"]);
});

test("a breaker that stays open for a minute is worth an alert, and instances that are gone are forgotten", () => {
  const { told, time, look, events } = fleet();
  expect(look({}, "open")).toEqual([]);
  time.now += 60_000;
  expect(look({}, "half-open")).toEqual(["the breaker of m-0 of m stays open: its requests fail"]);
  expect(events.look([], () => "open")).toEqual([]);
  expect(events.isUnsure("m-0")).toBe(false);
  expect(told).toHaveLength(1);
});
