import { beforeEach, describe, expect, test } from "vitest";
import type { EngineMetrics } from "../upstream/engine.js";
import type { InstanceState } from "../upstream/upstream.js";
import { DEFAULT_AUTOSCALE } from "./autoscale.js";
import { Keeper, type KeptFleet, type KeptModel } from "./keeper.js";
import { DEFAULT_RESIDENCE } from "./on-demand.js";

interface FakeInstance {
  id: string;
  state: InstanceState;
  pid: number;
  isGivenUp: boolean;
}

const START_MS = 5000;

const NO_METRICS: EngineMetrics = {
  numRunning: undefined,
  numWaiting: undefined,
  kvUsage: undefined,
  promptTokens: undefined,
  generationTokens: undefined,
  prefixQueries: undefined,
  prefixHits: undefined,
  preemptions: undefined,
  draftTokens: undefined,
  acceptedTokens: undefined,
};

/** Instances that start in five seconds, of models with a given load. */
class FakeFleet implements KeptFleet {
  nowMs = 0;
  readonly running = new Map<string, FakeInstance[]>();
  readonly load = new Map<string, { waiting: number; inFlight: number }>();
  readonly bytesOfPid = new Map<number, number>();
  readonly log: string[] = [];
  #starts: { atMs: number; instance: FakeInstance }[] = [];
  #pids = 1;

  instances(model: string) {
    const capacity = { seats: 8, kvTokens: undefined, blockSize: undefined };
    return (this.running.get(model) ?? []).map((each) => ({
      ...each,
      model,
      engine: "millrace" as const,
      isComing: false,
      target: undefined,
      starts: 1,
      capacity,
      metrics: undefined,
    }));
  }
  numWaiting = (model: string) => this.load.get(model)?.waiting ?? 0;
  numInFlight = (model: string) => this.load.get(model)?.inFlight ?? 0;
  measure = (pid: number) => this.bytesOfPid.get(pid);
  now = () => this.nowMs;
  /** A Wednesday's midnight in UTC, plus the test's time. */
  epochMs = () => Date.UTC(2026, 10, 25) + this.nowMs;
  onScaled = (model: string, from: number, to: number) => void this.log.push(`${model} ${from}→${to}`);

  setInstances(model: string, count: number): void {
    const own = this.running.get(model) ?? [];
    this.running.set(model, own);
    for (let i = own.length; i < count; i++) {
      const instance: FakeInstance = { id: `${model}-${i}`, state: "starting", pid: this.#pids++, isGivenUp: false };
      own.push(instance);
      this.#starts.push({ atMs: this.nowMs + START_MS, instance });
    }
    // Busy instances finish first.
    for (const each of own.slice(count)) each.state = this.numInFlight(model) > 0 ? "draining" : "stopped";
    if (own.every(({ state }) => state === "stopped")) this.running.set(model, []);
    else own.splice(count, own.length, ...own.slice(count).filter(({ state }) => state === "draining"));
  }

  /** Ends all answers: draining instances are gone. */
  settle(model: string): void {
    this.load.set(model, { waiting: this.numWaiting(model), inFlight: 0 });
    this.running.set(
      model,
      (this.running.get(model) ?? []).filter(({ state }) => state !== "draining"),
    );
  }

  advance(keeper: Keeper, seconds: number): void {
    for (let i = 0; i < seconds; i++) {
      this.nowMs += 1000;
      for (const { instance } of this.#starts.filter(({ atMs }) => atMs <= this.nowMs)) instance.state = "ready";
      this.#starts = this.#starts.filter(({ atMs }) => atMs > this.nowMs);
      keeper.tick();
    }
  }
}

const model = (name: string, min: number, max: number, estimatedBytes = 10): KeptModel => ({
  name,
  rules: { ...DEFAULT_AUTOSCALE, min, max },
  estimatedBytes,
  isBytesGiven: false,
});
const budget = (budgetBytes: number) => ({ ...DEFAULT_RESIDENCE, budgetBytes });

let fleet: FakeFleet;
beforeEach(() => {
  fleet = new FakeFleet();
});

function keep(models: readonly KeptModel[], budgetBytes = Number.POSITIVE_INFINITY): Keeper {
  const keeper = new Keeper(fleet, budget(budgetBytes));
  keeper.configure(models, budget(budgetBytes));
  for (const { name, rules } of models) fleet.setInstances(name, rules.min);
  return keeper;
}

describe("a simulated day", () => {
  const HOUR = 3600;
  const windows = [
    { days: [1, 2, 3, 4, 5], from: 8 * 60, to: 20 * 60, min: 2, max: 4 },
    { days: [1, 2, 3, 4, 5], from: 20 * 60, to: 8 * 60, min: 0, max: 1 },
  ];

  test("instances are ready when business begins, and the model unloads at night", () => {
    const keeper = keep([{ ...model("a", 1, 4), schedule: { timeZone: "UTC", windows } }]);
    const readyAt: [number, number][] = [];
    for (let minute = 0; minute < 24 * 60; minute++) {
      fleet.advance(keeper, 60);
      const ready = fleet.instances("a").filter(({ state }) => state === "ready").length;
      if (readyAt.at(-1)?.[1] !== ready) readyAt.push([minute + 1, ready]);
    }
    // The first instance is idle, so it stops ten minutes later; in the evening, one stops after the other.
    expect(fleet.log).toEqual(["a 1→0", "a 0→2", "a 2→1", "a 1→0"]);
    const [, morning, evening] = readyAt.slice(-4);
    expect(readyAt.find(([, ready]) => ready === 2)![0]).toBeLessThanOrEqual(8 * 60 + 1);
    expect(morning![1]).toBe(2);
    expect(evening![0]).toBeGreaterThanOrEqual(20 * 60);
    expect(readyAt.at(-1)![0]).toBeLessThanOrEqual(20 * 60 + 25);
  });

  test("a queue at night adds no instance beyond the night's bound", () => {
    const keeper = keep([{ ...model("a", 1, 4), schedule: { timeZone: "UTC", windows } }]);
    fleet.load.set("a", { waiting: 60, inFlight: 8 });
    fleet.advance(keeper, HOUR);
    expect(keeper.target("a")).toBe(1);
    fleet.advance(keeper, 8 * HOUR);
    expect(keeper.target("a")).toBe(4);
  });

  test("a spare instance is ready before the load needs it, and is replaced at once when it is taken", () => {
    const keeper = keep([{ ...model("a", 1, 4), rules: { ...DEFAULT_AUTOSCALE, min: 1, max: 4, spare: 1 } }]);
    fleet.load.set("a", { waiting: 0, inFlight: 3 });
    fleet.advance(keeper, 2);
    expect(keeper.target("a")).toBe(2);
    fleet.load.set("a", { waiting: 0, inFlight: 9 });
    fleet.advance(keeper, 10);
    expect(keeper.target("a")).toBe(3);
    fleet.load.set("a", { waiting: 0, inFlight: 0 });
    fleet.advance(keeper, HOUR);
    expect(keeper.target("a")).toBe(1);
  });
});

describe("models on demand", () => {
  test("the first request loads one, ten idle minutes unload it", () => {
    const keeper = keep([model("a", 0, 2)]);
    fleet.advance(keeper, 5);
    expect(fleet.log).toEqual([]);
    expect(keeper.demand("a")).toBe(true);
    expect(fleet.log).toEqual(["a 0→1"]);
    fleet.advance(keeper, 590);
    expect(keeper.target("a")).toBe(1);
    fleet.advance(keeper, 30);
    expect(fleet.log).toEqual(["a 0→1", "a 1→0"]);
  });

  test("another model's request replaces an idle model, once that has ended", () => {
    const keeper = keep([model("a", 0, 1, 60), model("b", 0, 1, 60)], 100);
    keeper.demand("a");
    fleet.load.set("a", { waiting: 0, inFlight: 1 });
    fleet.advance(keeper, 60);
    expect(keeper.demand("b")).toBe(true);
    fleet.load.set("b", { waiting: 1, inFlight: 0 });
    expect(fleet.log).toEqual(["a 0→1", "a 1→0"]);
    fleet.advance(keeper, 5);
    // The last answer of "a" is still under way.
    expect(keeper.target("b")).toBe(0);
    fleet.settle("a");
    fleet.advance(keeper, 1);
    expect(keeper.target("b")).toBe(1);
  });

  test("a model that was given up holds no memory and keeps no request waiting", () => {
    const keeper = keep([model("a", 0, 1, 60), model("b", 0, 1, 60)], 100);
    keeper.demand("a");
    Object.assign(fleet.running.get("a")![0]!, { state: "failed", isGivenUp: true });
    fleet.load.set("a", { waiting: 1, inFlight: 0 });
    expect(keeper.demand("b")).toBe(true);
    expect(keeper.target("b")).toBe(1);
    expect(keeper.demand("a")).toBe(false);
  });

  test("another file with the same name does not inherit the measured size", () => {
    const keeper = keep([model("a", 0, 1, 60), model("b", 0, 1, 60)], 100);
    keeper.demand("a");
    keeper.configure([model("a", 0, 1, 30), model("b", 0, 1, 60)], budget(100));
    fleet.advance(keeper, 10);
    expect(keeper.demand("b")).toBe(true);
    expect([keeper.target("a"), keeper.target("b")]).toEqual([1, 1]);
  });

  test("a sleeping model has released its memory", () => {
    const keeper = keep([model("a", 0, 1, 60), model("b", 0, 1, 60)], 100);
    keeper.demand("a");
    fleet.advance(keeper, 60);
    keeper.demand("b");
    fleet.running.set("a", [{ id: "a-0", state: "asleep", pid: 9, isGivenUp: false }]);
    fleet.load.set("b", { waiting: 1, inFlight: 0 });
    fleet.advance(keeper, 1);
    expect(keeper.target("b")).toBe(1);
  });

  test("a model that can never fit is refused with its size", () => {
    const keeper = keep([model("a", 1, 1, 60), model("b", 0, 1, 60)], 100);
    expect(() => keeper.demand("b")).toThrow(/expected b to fit into the memory budget of 100 bytes, got 60/);
  });

  test("a measurement replaces the estimate", () => {
    const keeper = keep([model("a", 1, 1, 10), model("b", 0, 1, 60)], 100);
    fleet.bytesOfPid.set(1, 50);
    fleet.advance(keeper, 10);
    expect(() => keeper.demand("b")).toThrow(/got 60/);
  });

  test("requests do not wait for a model that was given up", () => {
    const keeper = keep([model("a", 1, 1)]);
    expect(keeper.demand("a")).toBe(true);
    for (const instance of fleet.running.get("a") ?? []) Object.assign(instance, { state: "failed", isGivenUp: true });
    expect(keeper.demand("a")).toBe(false);
    expect(keeper.demand("nobody")).toBe(false);
  });

  test("only a model that loads on demand may have no instance, unless it was given up", () => {
    const keeper = keep([model("a", 0, 1), model("b", 1, 1)]);
    expect(["a", "b", "nobody"].map((name) => keeper.startsOnDemand(name))).toEqual([true, false, false]);
    keeper.demand("a");
    expect(keeper.startsOnDemand("a")).toBe(true);
    for (const instance of fleet.running.get("a") ?? []) Object.assign(instance, { state: "failed", isGivenUp: true });
    expect(keeper.startsOnDemand("a")).toBe(false);
  });
});

describe("scaling", () => {
  test("a queue adds another instance", () => {
    const keeper = keep([model("a", 1, 3)]);
    fleet.advance(keeper, 10);
    fleet.load.set("a", { waiting: 20, inFlight: 8 });
    fleet.advance(keeper, 31);
    expect(fleet.log).toEqual(["a 1→2"]);
  });

  test("a queue adds no instance that does not fit in memory", () => {
    const keeper = keep([model("a", 1, 3, 40)], 100);
    fleet.advance(keeper, 10);
    fleet.load.set("a", { waiting: 90, inFlight: 8 });
    fleet.advance(keeper, 300);
    expect(fleet.log).toEqual(["a 1→2"]);
  });

  /** The figures that all instances show. */
  function showMetrics(figures: Partial<EngineMetrics>): void {
    const own = fleet.instances.bind(fleet);
    const metrics = { ...NO_METRICS, ...figures };
    Object.assign(fleet, { instances: (name: string) => own(name).map((each) => ({ ...each, metrics })) });
  }

  test("requests in an engine's own queue count as waiting", () => {
    const keeper = keep([model("a", 1, 3)]);
    fleet.advance(keeper, 10);
    fleet.load.set("a", { waiting: 0, inFlight: 30 });
    showMetrics({ numRunning: 8, numWaiting: 22 });
    fleet.advance(keeper, 31);
    expect(fleet.log).toEqual(["a 1→2"]);
  });

  test("full KV memory leaves fewer seats than the engine reports", () => {
    const keeper = keep([model("a", 1, 3)]);
    fleet.advance(keeper, 10);
    // Two long sequences fill the instance; four wait: half of eight seats, but twice as many as two.
    fleet.load.set("a", { waiting: 4, inFlight: 2 });
    showMetrics({ numRunning: 2, numWaiting: 0, kvUsage: 0.3 });
    fleet.advance(keeper, 60);
    expect(fleet.log).toEqual([]);
    showMetrics({ numRunning: 2, numWaiting: 0, kvUsage: 0.95 });
    fleet.advance(keeper, 32);
    expect(fleet.log).toEqual(["a 1→2"]);
  });

  test("the administrator's number holds until the queue requires another", () => {
    const keeper = keep([model("a", 1, 3)]);
    fleet.advance(keeper, 10);
    keeper.scaleTo("a", 3);
    fleet.advance(keeper, 300);
    expect(keeper.target("a")).toBe(3);
    fleet.advance(keeper, 1300);
    expect(keeper.target("a")).toBe(1);
  });

  test("new bounds apply at the next check, and the model's state is kept", () => {
    const keeper = keep([model("a", 1, 1)]);
    fleet.advance(keeper, 10);
    keeper.configure([model("a", 2, 4)], budget(1e9));
    fleet.advance(keeper, 1);
    keeper.configure([model("a", 0, 1)], budget(1e9));
    fleet.advance(keeper, 1);
    expect(fleet.log).toEqual(["a 1→2", "a 2→1"]);
  });
});

test("instances that are given up neither keep others running nor prevent new ones", () => {
  const keeper = keep([model("a", 1, 4)]);
  keeper.scaleTo("a", 4);
  fleet.advance(keeper, 10);
  Object.assign(fleet.running.get("a")![3]!, { state: "failed", isGivenUp: true });
  fleet.advance(keeper, 3000);
  expect(keeper.target("a")).toBe(1);
});
