/** Orders for a model that is being removed. */
import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { modelSpec, testFleet } from "../../../test/helpers/fleet.js";

test("a model that is being removed starts no more instances and can be added again", async () => {
  let inFlight = 1;
  await using fleet = testFleet({ inFlight: () => inFlight });
  const { supervisor } = fleet;
  supervisor.addModel(modelSpec());
  const { pid } = await fleet.until(({ state }) => state === "ready");
  const removed = supervisor.removeModel("m");
  await fleet.until(({ state }) => state === "draining");
  const scaled = supervisor.setInstances("m", 3);
  expect(supervisor.upstreams("m").map(({ id, state }) => [id, state])).toEqual([["m-0", "draining"]]);
  expect(() => supervisor.restart("m-0")).toThrow(expect.objectContaining({ code: "shutting_down" }));
  const states: string[] = [];
  supervisor.onChange(({ state }) => states.push(state));
  inFlight = 0;
  await Promise.all([removed, scaled]);
  await setImmediate();
  expect(states.at(-1)).toBe("stopped");
  expect(supervisor.models()).toEqual([]);
  supervisor.addModel(modelSpec());
  const again = await fleet.until(({ state }) => state === "ready");
  expect(again).toMatchObject({ id: "m-0", starts: 2 });
  expect(again.pid).not.toBe(pid);
});
