/** The weight of a lease, the router's lessons from it, and the notices when instances change. */
import { describe, expect, test } from "vitest";
import { TestPool, upstreamOf } from "../../../test/helpers/fleet-pool.js";
import type { EngineMetrics } from "../upstream/engine.js";
import type { Upstream } from "../upstream/upstream.js";
import type { PrefixKeys } from "./key-source.js";
import { DEFAULT_ROUTING, type Lease, type RoutedRequest, Router, type RoutingOptions } from "./router.js";

const NO_PREFIX: PrefixKeys = { keys: [], numBlocks: 0, promptTokens: 0 };
const PROMPT: PrefixKeys = { keys: [1, 2, 3], numBlocks: 3, promptTokens: 641 };

const requestOf = (fields: Partial<RoutedRequest> = {}): RoutedRequest => ({
  model: "m",
  prefix: NO_PREFIX,
  outputTokens: 0,
  numSequences: 1,
  session: undefined,
  ...fields,
});

const metrics = (numRunning: number): EngineMetrics => ({
  numRunning,
  numWaiting: 0,
  kvUsage: undefined,
  promptTokens: undefined,
  generationTokens: undefined,
  prefixQueries: undefined,
  prefixHits: undefined,
  preemptions: undefined,
  draftTokens: undefined,
  acceptedTokens: undefined,
});

const seats = (count: number) => ({ seats: count, kvTokens: 100_000, blockSize: 16 });

/** Instances "a" and "b". */
function setUp(options: Partial<RoutingOptions> = {}, fields: Partial<Upstream> = {}) {
  const pool = new TestPool(["a", "b"].map((id) => upstreamOf(id, fields)));
  const clock = { nowMs: 0 };
  const rooms = { count: 0 };
  const router = new Router(
    pool,
    () => ({ ...DEFAULT_ROUTING, ...options }),
    () => 32,
    () => rooms.count++,
    () => clock.nowMs,
  );
  /** Takes a lease of the instance `id`, against the policy's choice if necessary. */
  const takeOf = (id: "a" | "b", request: Partial<RoutedRequest> = {}): Lease =>
    router.acquire(requestOf(request), [id === "a" ? "b 1" : "a 1"]) as Lease;
  return { pool, clock, rooms, router, takeOf };
}

describe("an instance's load", () => {
  const setUpByLoad = () => setUp({ policy: "least-load" }, { capacity: seats(8) });

  /** Whether "a" carries less than so many tokens: with this many on "b", the next request goes to "a". */
  function isLessThan(tokens: number, { router, takeOf }: ReturnType<typeof setUpByLoad>): boolean {
    const other = takeOf("b", { outputTokens: tokens });
    const next = router.acquire(requestOf(), []) as Lease;
    other.end("unknown");
    next.end("unknown");
    return next.upstream.id === "a";
  }

  function expectLoad(tokens: number, world: ReturnType<typeof setUpByLoad>): void {
    expect([isLessThan(tokens - 0.5, world), isLessThan(tokens + 0.5, world)]).toEqual([false, true]);
  }

  test("counts a prompt both as held and as pending computation, until the answer begins", () => {
    const world = setUpByLoad();
    const lease = world.takeOf("a", { prefix: PROMPT, outputTokens: 100 });
    expectLoad(641 + 100 + 641, world);
    lease.promptDone(true);
    expectLoad(741, world);
    lease.promptDone(true);
    expectLoad(741, world);
    const second = world.takeOf("a", { outputTokens: 1000 });
    expectLoad(1741, world);
    lease.end("answered");
    lease.promptDone(true);
    lease.end("answered");
    expectLoad(1000, world);
    const unanswered = world.takeOf("a", { prefix: { ...PROMPT, keys: [7, 8, 9] } });
    unanswered.end("unknown");
    unanswered.promptDone(true);
    expectLoad(1000, world);
    second.end("answered");
  });

  test("counts the cached part of a prompt only once", () => {
    const world = setUpByLoad();
    world.takeOf("a", { prefix: { keys: [1], numBlocks: 1, promptTokens: 10 } }).end("answered");
    const lease = world.takeOf("a", { prefix: PROMPT });
    expect(lease.matchedFraction).toBeCloseTo(1 / 3);
    // Two thirds of 641 tokens are still uncomputed.
    expectLoad(641 + 428, world);
    lease.promptDone(true);
    expectLoad(641, world);
  });

  test("counts other clients' sequences as mean requests; the mean starts at 512 tokens", () => {
    const world = setUpByLoad();
    world.pool.change("a", { metrics: metrics(1) });
    expect([isLessThan(511.5, world), isLessThan(512.5, world)]).toEqual([false, true]);
  });

  test.each([
    ["one sequence", 1, 2512],
    ["each of several sequences", 4, 4 * 2512],
  ])("moves the mean request by a twentieth towards %s", (_, numSequences, outputTokens) => {
    const world = setUpByLoad();
    world.takeOf("b", { numSequences, outputTokens }).end("answered");
    world.pool.change("a", { metrics: metrics(1) });
    expect([isLessThan(611.5, world), isLessThan(612.5, world)]).toEqual([false, true]);
  });
});

test("a prompt without blocks matches nothing, and a prompt of a single block matches as a whole", () => {
  const { takeOf } = setUp();
  expect(takeOf("a").matchedFraction).toBe(0);
  const prefix = { keys: [7], numBlocks: 1, promptTokens: 32 };
  expect([takeOf("a", { prefix }).matchedFraction, takeOf("a", { prefix }).matchedFraction]).toEqual([0, 1]);
});

test("the expected duration starts at one second; answers move it by a twentieth of the difference, failures do not", () => {
  const { clock, router, takeOf } = setUp();
  expect(router.meanSeconds("m")).toBe(1);
  clock.nowMs = 10_000;
  const leases = (["answered", "failed", "unknown"] as const).map((how) => ({ how, lease: takeOf("a") }));
  clock.nowMs = 13_000;
  for (const { how, lease } of leases) lease.end(how);
  expect(router.meanSeconds("m")).toBeCloseTo(1.1);
  expect(router.meanSeconds("another")).toBe(1);
});

describe("a breaker learns", () => {
  const states = (hows: readonly ("answered" | "failed" | "unknown")[]) => {
    const { router, takeOf } = setUp();
    for (const how of hows) takeOf("a").end(how);
    return router.breakerState("a");
  };

  test("nothing from requests without a conclusive outcome", () => {
    expect(states(["unknown", "unknown", "unknown", "unknown"])).toBe("closed");
    expect(states(["failed", "failed", "unknown", "failed"])).toBe("open");
  });

  test("from an answer that earlier failures no longer count", () => {
    expect(states(["failed", "failed", "answered", "failed", "failed"])).toBe("closed");
  });

  test("nothing from an inconclusive probe, so that another probe may start", () => {
    const { clock, router, takeOf } = setUp();
    for (let n = 0; n < 3; n++) takeOf("a").end("failed");
    clock.nowMs = 1000;
    const probe = takeOf("a");
    expect(router.breakerState("a")).toBe("half-open");
    probe.end("unknown");
    expect(router.breakerState("a")).toBe("open");
  });
});

describe("availability", () => {
  test("depends on seats for `hasRoom`, and on readiness alone for `hasReady`", () => {
    const { pool, router, takeOf } = setUp({}, { capacity: seats(1) });
    expect([router.hasRoom(requestOf()), router.hasReady(requestOf(), [])]).toEqual([true, true]);
    takeOf("a");
    expect(router.hasRoom(requestOf())).toBe(true);
    takeOf("b");
    expect([router.hasRoom(requestOf()), router.hasReady(requestOf(), [])]).toEqual([false, true]);
    expect([router.hasReady(requestOf(), ["a 1"]), router.hasReady(requestOf(), ["a 1", "b 1"])]).toEqual([
      true,
      false,
    ]);
    pool.change("a", { state: "draining" });
    pool.change("b", { state: "draining" });
    expect(router.hasReady(requestOf(), [])).toBe(false);
  });

  test("is expected as soon as one instance is starting", () => {
    const { pool, router } = setUp();
    expect(router.isComing(requestOf())).toBe(false);
    pool.change("b", { state: "starting", isComing: true });
    expect(router.isComing(requestOf())).toBe(true);
  });

  test("excludes an instance without an address", () => {
    const { pool, router } = setUp();
    pool.change("a", { target: undefined });
    expect(router.acquire(requestOf(), ["b 1"])).toBe("none");
  });
});

describe("an unanswered request on a doubtful instance is notified", () => {
  function watch(lease: Lease) {
    const told = { times: 0 };
    lease.onLost(() => told.times++);
    return told;
  }

  test.each(["suspect", "failed"] as const)("when the instance is %s", (state) => {
    const { pool, takeOf } = setUp();
    const [waiting, answered, ended, elsewhere] = [takeOf("a"), takeOf("a"), takeOf("a"), takeOf("b")];
    const told = [waiting, answered, ended, elsewhere].map(watch);
    answered.promptDone(true);
    ended.end("unknown");
    pool.change("a", { metrics: metrics(1) });
    expect(told.map(({ times }) => times)).toEqual([0, 0, 0, 0]);
    pool.change("a", { state });
    expect(told.map(({ times }) => times)).toEqual([1, 0, 0, 0]);
  });

  test("again when another instance becomes ready while its own is still doubtful", () => {
    const { pool, takeOf } = setUp();
    const told = watch(takeOf("a"));
    pool.change("b", { state: "starting" });
    pool.change("a", { state: "suspect" });
    expect(told.times).toBe(1);
    pool.change("b", { state: "draining" });
    expect(told.times).toBe(1);
    pool.change("b", { state: "ready" });
    expect(told.times).toBe(2);
    pool.change("a", { state: "ready" });
    pool.change("b", { state: "ready" });
    expect(told.times).toBe(2);
  });
});

describe("the state of an instance", () => {
  const prefix = { keys: [1, 2], numBlocks: 2, promptTokens: 64 };

  test("is kept when its metrics change", () => {
    const { pool, takeOf } = setUp();
    takeOf("a", { prefix }).end("answered");
    pool.change("a", { metrics: metrics(0) });
    expect(takeOf("a", { prefix }).matchedFraction).toBe(1);
  });

  test.each(["stopped", "failed"] as const)("is dropped when it has %s without running requests", (state) => {
    const { pool, takeOf } = setUp();
    takeOf("a", { prefix }).end("answered");
    pool.change("a", { state });
    pool.change("a", { state: "ready" });
    expect(takeOf("a", { prefix }).matchedFraction).toBe(0);
  });

  test("is not affected by old requests once a new process has started", () => {
    const { pool, router, takeOf } = setUp();
    const old = takeOf("a");
    pool.change("a", { state: "failed", starts: 2 });
    pool.change("a", { state: "ready" });
    router.acquire(requestOf(), ["b 1"]);
    old.end("failed");
    expect(router.numInFlight("a")).toBe(1);
  });

  test("is dropped if the process was replaced without notice", () => {
    const { pool, takeOf } = setUp();
    takeOf("a", { prefix }).end("answered");
    pool.remove("a");
    pool.add(upstreamOf("a", { starts: 2 }));
    expect(takeOf("a", { prefix }).matchedFraction).toBe(0);
  });

  test("includes every scrape, even between two requests", () => {
    const { pool, router, takeOf } = setUp({}, { capacity: seats(4) });
    for (const lease of [takeOf("a"), takeOf("a"), takeOf("a")]) lease.end("answered");
    // The first scrape may still count our requests; the second counts others'.
    pool.change("a", { metrics: metrics(3) });
    pool.change("a", { metrics: metrics(3) });
    takeOf("a");
    expect(router.acquire(requestOf(), ["b 1"])).toBe("full");
  });
});

test("changes of the fleet notify waiting requests, until the router is closed", () => {
  const { pool, rooms, router } = setUp();
  pool.change("a", { state: "draining" });
  pool.change("a", { state: "ready" });
  expect(rooms.count).toBe(2);
  router.close();
  pool.change("a", { state: "draining" });
  expect(rooms.count).toBe(2);
});
