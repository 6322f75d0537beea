import { expect, test } from "vitest";
import { NamedPool } from "./named-pool.js";
import type { Upstream, UpstreamPool } from "./upstream.js";

const instance: Upstream = {
  id: "m-0",
  model: "m",
  engine: "millrace",
  state: "ready",
  isComing: false,
  target: undefined,
  starts: 1,
  metrics: undefined,
  capacity: { seats: 4, kvTokens: undefined, blockSize: undefined },
};

function pool() {
  const listeners: ((upstream: Upstream) => void)[] = [];
  const inner: UpstreamPool = {
    models: () => ["m"],
    upstreams: (model) => (model === "m" ? [instance] : []),
    onChange: (listener) => {
      listeners.push(listener);
      return () => {};
    },
    reportFailure: async () => {},
  };
  const named = new NamedPool(inner);
  named.configure(new Map([["m", ["m", "alias"]]]));
  return { named, change: () => listeners.forEach((listener) => void listener(instance)) };
}

test("an alias refers to the same instances", () => {
  const { named } = pool();
  expect(named.models()).toEqual(["m", "alias"]);
  expect(named.upstreams("alias")).toEqual([{ ...instance, model: "alias" }]);
  expect(named.upstreams("m")[0]).toBe(instance);
  expect(named.upstreams("other")).toEqual([]);
  expect(named.modelOf("alias")).toBe("m");
});

test("a change is reported under each name, so that requests for an alias do not wait for ever", () => {
  const { named, change } = pool();
  const told: string[] = [];
  named.onChange(({ model, id }) => told.push(`${model} ${id}`));
  change();
  expect(told).toEqual(["m m-0", "alias m-0"]);
});

test("a removed name is not listed, but its running requests still complete", () => {
  const { named, change } = pool();
  const told: string[] = [];
  named.onChange(({ model }) => told.push(model));
  named.configure(new Map());
  change();
  expect(named.models()).toEqual([]);
  expect(named.upstreams("alias")).toHaveLength(1);
  expect(named.namesOf("m")).toEqual(["m", "alias"]);
  expect(told).toEqual(["m", "alias"]);
});
