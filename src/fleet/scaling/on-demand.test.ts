import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DEFAULT_RESIDENCE, decideResidence, type ModelResidence, spareBytes } from "./on-demand.js";

const TICK_MS = 100;

interface Arrival {
  readonly atMs: number;
  readonly model: string;
}

interface Host {
  readonly budgetBytes: number;
  /** Model → bytes. */
  readonly bytes: Readonly<Record<string, number>>;
  readonly pinned?: readonly string[];
  readonly loadMs?: number;
  readonly serviceMs?: number;
}

interface Outcome {
  readonly waitsMs: number[];
  readonly loads: string[];
  readonly refused: string[];
  readonly numLeft: number;
}

type State = { -readonly [K in keyof ModelResidence]: ModelResidence[K] };

/**
 * Models that take time to load and time per request, under the policy's decisions, until every request is answered.
 */
function simulate(
  arrivals: readonly Arrival[],
  { budgetBytes, bytes, pinned = [], loadMs = 3000, serviceMs = 500 }: Host,
): Outcome {
  const rules = { ...DEFAULT_RESIDENCE, budgetBytes };
  const models = Object.entries(bytes).map(([name, numBytes]): State => {
    const isPinned = pinned.includes(name);
    return {
      name,
      numBytes,
      isPinned,
      state: isPinned ? "loaded" : "unloaded",
      waiting: 0,
      waitingSinceMs: 0,
      inFlight: 0,
      lastUsedMs: 0,
      loadedAtMs: 0,
      loadMs,
    };
  });
  const queue = [...arrivals];
  const waiting: Arrival[] = [];
  const running: { model: State; untilMs: number }[] = [];
  const outcome = { waitsMs: [] as number[], loads: [] as string[], refused: [] as string[] };
  let nowMs = 0;
  const isOver = (): boolean => queue.length + waiting.length + running.length === 0;
  for (; !isOver() && nowMs < 4 * 3_600_000; nowMs += TICK_MS) {
    while (queue[0] !== undefined && queue[0].atMs <= nowMs) waiting.push(queue.shift()!);
    for (const each of running.filter(({ untilMs }) => untilMs <= nowMs)) {
      running.splice(running.indexOf(each), 1);
      each.model.lastUsedMs = nowMs;
    }
    for (const model of models) {
      if (model.state === "loading" && nowMs - model.loadedAtMs >= loadMs)
        Object.assign(model, { state: "loaded", loadedAtMs: nowMs });
      for (const request of waiting.filter((each) => each.model === model.name)) {
        model.lastUsedMs = nowMs;
        if (model.state !== "loaded") continue;
        waiting.splice(waiting.indexOf(request), 1);
        running.push({ model, untilMs: nowMs + serviceMs });
        outcome.waitsMs.push(nowMs - request.atMs);
      }
      model.inFlight = running.filter((each) => each.model === model).length;
      if (model.state === "draining" && model.inFlight === 0) model.state = "unloaded";
      const own = waiting.filter((each) => each.model === model.name);
      model.waiting = own.length;
      model.waitingSinceMs = own[0]?.atMs ?? 0;
    }
    const decision = decideResidence(models, rules, nowMs);
    for (const model of models) {
      if (decision.load.includes(model.name)) {
        expect(model.state).toBe("unloaded");
        Object.assign(model, { state: "loading", loadedAtMs: nowMs });
        outcome.loads.push(model.name);
      }
      if (decision.drain.includes(model.name)) {
        expect(model).toMatchObject({ state: "loaded", isPinned: false });
        model.state = "draining";
      }
      if (decision.impossible.includes(model.name)) {
        outcome.refused.push(model.name);
        for (const each of waiting.filter(({ model: name }) => name === model.name))
          waiting.splice(waiting.indexOf(each), 1);
      }
    }
    const held = models.filter(({ state }) => state !== "unloaded").reduce((sum, { numBytes }) => sum + numBytes, 0);
    expect(held).toBeLessThanOrEqual(budgetBytes);
  }
  return { ...outcome, numLeft: queue.length + waiting.length + running.length };
}

const every = (stepMs: number, untilMs: number, ...models: string[]): Arrival[] =>
  Array.from({ length: Math.floor(untilMs / stepMs) }, (_, i) => ({
    atMs: i * stepMs,
    model: models[i % models.length]!,
  }));

describe("under simulated requests", () => {
  test("models that fit together are loaded once", () => {
    const { loads, numLeft } = simulate(every(1000, 300_000, "a", "b"), { budgetBytes: 10, bytes: { a: 4, b: 6 } });
    expect(loads.sort()).toEqual(["a", "b"]);
    expect(numLeft).toBe(0);
  });

  test("two alternating models with room for one are served in turns, not swapped per request", () => {
    const requests = every(250, 600_000, "a", "b");
    const { loads, waitsMs, numLeft } = simulate(requests, { budgetBytes: 10, bytes: { a: 8, b: 8 } });
    expect(numLeft).toBe(0);
    // 2400 requests; a turn is a stay of 15 s and a load of 3 s.
    expect(loads.length).toBeLessThanOrEqual(600 / 18 + 2);
    expect(loads.length).toBeGreaterThan(10);
    expect(Math.max(...waitsMs)).toBeLessThanOrEqual(2 * 18_000 + 3000);
  });

  test("slow loads have longer turns, but no turn lasts longer than a minute", () => {
    const requests = every(500, 1_200_000, "a", "b");
    const { loads, waitsMs } = simulate(requests, { budgetBytes: 10, bytes: { a: 8, b: 8 }, loadMs: 30_000 });
    expect(loads.length).toBeLessThanOrEqual(1200 / 90 + 2);
    expect(Math.max(...waitsMs)).toBeLessThanOrEqual(60_000 + 2 * 30_000 + 2000);
  });

  test("a client that alternates and waits for each answer gets a swap once the other model was idle for as long as a load", () => {
    const requests = [0, 20_000, 40_000, 60_000].map((atMs, i) => ({ atMs, model: "ab"[i % 2]! }));
    const { waitsMs } = simulate(requests, { budgetBytes: 10, bytes: { a: 8, b: 8 } });
    for (const waitMs of waitsMs) expect(waitMs).toBeLessThanOrEqual(3000 + 2 * TICK_MS);
  });

  test("the least recently used model is unloaded", () => {
    const order = [..."abc"].map((model, i) => ({ atMs: i * 30_000, model }));
    const used = [
      { atMs: 45_000, model: "a" },
      { atMs: 90_000, model: "d" },
      { atMs: 120_000, model: "a" },
    ];
    const requests = [...order.slice(0, 2), used[0]!, order[2]!, ...used.slice(1)];
    const { loads } = simulate(requests, { budgetBytes: 3, bytes: { a: 1, b: 1, c: 1, d: 1 } });
    expect(loads).toEqual(["a", "b", "c", "d"]);
  });

  test("a large model gets its turn among small ones that never stop", () => {
    const requests = [...every(200, 120_000, "s1", "s2", "s3"), { atMs: 5000, model: "large" }].sort(
      (a, b) => a.atMs - b.atMs,
    );
    const { loads, numLeft } = simulate(requests, { budgetBytes: 10, bytes: { s1: 3, s2: 3, s3: 3, large: 9 } });
    expect(loads).toContain("large");
    expect(numLeft).toBe(0);
  });

  test("a model that can never fit is refused at once, also next to models that stay loaded", () => {
    const { refused, loads } = simulate([{ atMs: 0, model: "b" }], {
      budgetBytes: 10,
      bytes: { a: 6, b: 5 },
      pinned: ["a"],
    });
    expect([refused[0], loads]).toEqual(["b", []]);
  });

  test("any requests stay within the budget, none starves, and loads take a bounded share of the time", () => {
    const names = ["a", "b", "c", "d"];
    const host = fc.record({
      budgetBytes: fc.constant(10),
      bytes: fc
        .tuple(...names.map(() => fc.integer({ min: 1, max: 10 })))
        .map((sizes) => Object.fromEntries(names.map((name, i) => [name, sizes[i]!]))),
      loadMs: fc.integer({ min: 100, max: 20_000 }),
      serviceMs: fc.integer({ min: 100, max: 5000 }),
    });
    const arrivals = fc
      .array(fc.record({ atMs: fc.nat(240_000), model: fc.constantFrom(...names) }), { maxLength: 60 })
      .map((all) => all.sort((a, b) => a.atMs - b.atMs));
    fc.assert(
      fc.property(arrivals, host, (all, where) => {
        const { numLeft, waitsMs } = simulate(all, where);
        expect(numLeft).toBe(0);
        // Before that, each of the others may stay, finish and load once.
        const turnMs = DEFAULT_RESIDENCE.maxStayMs + where.serviceMs + where.loadMs + 3 * TICK_MS;
        expect(Math.max(0, ...waitsMs)).toBeLessThanOrEqual(names.length * turnMs);
      }),
      { numRuns: 60 },
    );
  });
});

test("spare memory is the unused memory, and zero while a request waits", () => {
  const base = { isPinned: false, waitingSinceMs: 0, inFlight: 0, lastUsedMs: 0, loadedAtMs: 0, loadMs: 1 };
  const loaded: ModelResidence = { ...base, name: "a", state: "loaded", numBytes: 4, waiting: 0 };
  const asked: ModelResidence = { ...base, name: "b", state: "unloaded", numBytes: 9, waiting: 1 };
  const rules = { ...DEFAULT_RESIDENCE, budgetBytes: 10 };
  expect(spareBytes([loaded], rules)).toBe(6);
  expect(spareBytes([loaded, asked], rules)).toBe(0);
});
