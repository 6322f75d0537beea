import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { TestPool, upstreamOf } from "../../../test/helpers/fleet-pool.js";
import { CachedBlocks } from "../../text/cached-blocks.js";
import type { EngineMetrics } from "../upstream/engine.js";
import type { UpstreamPool } from "../upstream/upstream.js";
import { DEFAULT_ROUTING, type Lease, type RoutedRequest, Router, type RoutingOptions } from "./router.js";

const keysOf = (group: number, count = 20) => Array.from({ length: count }, (_, i) => group * 1000 + i);
const request = (group: number, fields: Partial<RoutedRequest> = {}): RoutedRequest => ({
  model: "m",
  prefix: { keys: keysOf(group), numBlocks: 20, promptTokens: 640 },
  outputTokens: 100,
  numSequences: 1,
  session: undefined,
  ...fields,
});
const metrics = (numRunning: number, numWaiting = 0): EngineMetrics => ({
  numRunning,
  numWaiting,
  kvUsage: undefined,
  promptTokens: undefined,
  generationTokens: undefined,
  prefixQueries: undefined,
  prefixHits: undefined,
  preemptions: undefined,
  draftTokens: undefined,
  acceptedTokens: undefined,
});
const capacity = (seats: number) => ({ seats, kvTokens: 100_000, blockSize: 16 });

function setUp(ids: readonly string[], options: Partial<RoutingOptions> = {}, seats?: number) {
  const pool = new TestPool(ids.map((id) => upstreamOf(id, seats === undefined ? {} : { capacity: capacity(seats) })));
  const clock = { nowMs: 0 };
  let numRooms = 0;
  const router = new Router(
    pool,
    () => ({ ...DEFAULT_ROUTING, ...options }),
    () => 32,
    () => numRooms++,
    () => clock.nowMs,
  );
  const take = (group: number, excluded: readonly string[] = []): Lease => {
    const lease = router.acquire(request(group), excluded);
    if (typeof lease === "string") throw new Error(`expected a lease, got ${lease}`);
    return lease;
  };
  return { pool, clock, router, take, numRooms: () => numRooms };
}

test("a known prefix routes a request to the same instance, and the match is reported", () => {
  const { take } = setUp(["a", "b", "c"]);
  const homes = [1, 2, 3].map((group) => {
    const lease = take(group);
    expect(lease.matchedFraction).toBe(0);
    lease.end("answered");
    return lease.upstream.id;
  });
  expect(new Set(homes).size).toBe(3);
  for (let round = 0; round < 3; round++) {
    for (const group of [3, 1, 2]) {
      const lease = take(group);
      expect([lease.upstream.id, lease.matchedFraction]).toEqual([homes[group - 1], 1]);
      lease.end("answered");
    }
  }
});

test("an instance's cache events are used for prompts with token keys, while the events arrive", () => {
  const pool = new TestPool([upstreamOf("a")]);
  let blocks: CachedBlocks | undefined = new CachedBlocks([0], 16);
  const router = new Router(
    pool,
    () => DEFAULT_ROUTING,
    () => 16,
    () => {},
    () => 0,
    () => blocks,
  );
  const take = (blockSize?: number): Lease => {
    const prefix = {
      keys: [1, 2, 3, 4],
      numBlocks: 4,
      promptTokens: 64,
      ...(blockSize === undefined ? {} : { blockSize }),
    };
    return router.acquire(request(1, { prefix }), []) as Lease;
  };
  const first = take(16);
  expect([first.matchedFraction, take(16).matchedFraction]).toEqual([0, 1]);
  first.end("answered");
  blocks.apply([1, 1, 2, 1]);
  expect(take(16).matchedFraction).toBe(1);
  pool.change("a", { starts: 2 });
  const second = take(16);
  expect(second.matchedFraction).toBe(0.5);
  second.end("answered");
  blocks.apply([2, 0]);
  const third = take(16);
  third.end("answered");
  expect(third.matchedFraction).toBe(0.25);
  // With blocks of another size, text, or no report, only sent blocks are known.
  expect([take(32).matchedFraction, take().matchedFraction]).toEqual([1, 1]);
  blocks = undefined;
  expect(take(16).matchedFraction).toBe(1);
});

test("the cache of a restarted process or one that slept counts as empty", () => {
  const { pool, take } = setUp(["a"]);
  take(1).end("answered");
  pool.change("a", { starts: 2 });
  expect(take(1).matchedFraction).toBe(0);
  expect(take(1).matchedFraction).toBe(1);
  pool.change("a", { state: "asleep" });
  pool.change("a", { state: "ready" });
  expect(take(1).matchedFraction).toBe(0);
});

test("instances that are not ready or are excluded get no requests", () => {
  const { pool, router, take } = setUp(["a", "b"]);
  pool.change("a", { state: "draining" });
  for (let i = 0; i < 4; i++) expect(take(i).upstream.id).toBe("b");
  expect(router.acquire(request(1), ["b 1"])).toBe("none");
  pool.change("b", { state: "failed" });
  expect(router.acquire(request(1), [])).toBe("none");
});

test("the work of a dead process no longer counts, and ending its leases is harmless", () => {
  const { pool, router, take } = setUp(["a", "b"]);
  const leases = Array.from({ length: 4 }, (_, i) => take(i));
  pool.change("a", { state: "failed" });
  pool.change("a", { state: "ready", starts: 2 });
  const numInFlight = () => ["a", "b"].map((id) => router.numInFlight(id));
  expect(numInFlight()).toEqual([0, 2]);
  for (const lease of leases) lease.end("unknown");
  expect(numInFlight()).toEqual([0, 0]);
});

test("the work of an unhealthy process still counts; its state is dropped with its last request", () => {
  const { pool, router, take } = setUp(["a"]);
  const [first, second] = [take(1), take(2)];
  pool.change("a", { state: "failed" });
  expect(router.numInFlight("a")).toBe(2);
  first!.end("answered");
  pool.change("a", { state: "ready" });
  expect(router.numInFlight("a")).toBe(1);
  take(3).end("answered");
  pool.change("a", { state: "draining" });
  expect(router.numInFlight("a")).toBe(1);
  pool.change("a", { state: "stopped" });
  second!.end("failed");
  expect(router.numInFlight("a")).toBe(0);
  pool.change("a", { state: "ready" });
  expect(take(3).matchedFraction).toBe(0);
});

test("instances that vanish without notice are dropped when their last request ends", () => {
  const { pool, router, take } = setUp(["a", "b"]);
  const [last] = [take(1), take(2)];
  const restart = () => {
    pool.change("b", { starts: pool.upstreams("m")[0]!.starts + 1 });
    take(3).end("answered");
  };
  pool.remove("a");
  restart();
  expect(router.numInFlight("a")).toBe(1);
  last!.end("answered");
  restart();
  pool.add(upstreamOf("a"));
  expect(take(1, ["b 1"]).matchedFraction).toBe(0);
});

test("an instance with two names shares its seats and its cached prefixes", () => {
  const upstream = upstreamOf("a", { capacity: capacity(1) });
  const pool = new TestPool([upstream]);
  const aliased: UpstreamPool = {
    models: () => ["m", "alias"],
    upstreams: (model) => pool.upstreams("m").map((each) => ({ ...each, model })),
    onChange: (listener) => pool.onChange(listener),
    reportFailure: (id) => pool.reportFailure(id),
  };
  const router = new Router(
    aliased,
    () => DEFAULT_ROUTING,
    () => 32,
    () => {},
    () => 0,
  );
  const lease = router.acquire(request(1), []) as Lease;
  expect(router.acquire(request(1, { model: "alias" }), [])).toBe("full");
  lease.end("answered");
  expect((router.acquire(request(1, { model: "alias" }), []) as Lease).matchedFraction).toBe(1);
  expect(router.numInFlight("a")).toBe(1);
});

describe("seats", () => {
  test("are full when this gateway's or other clients' requests take all; the end of a request frees a seat and notifies", () => {
    const { pool, router, numRooms, take } = setUp(["a", "b"], {}, 2);
    pool.change("b", { metrics: metrics(1, 1) });
    const first = take(1);
    take(2);
    expect(router.acquire(request(3), [])).toBe("full");
    first.end("answered");
    first.end("answered");
    expect(numRooms()).toBe(2);
    expect(take(3).upstream.id).toBe("a");
  });

  test("apply even if an instance reports them after its first request", () => {
    const { pool, router, take } = setUp(["a"]);
    take(1);
    pool.change("a", { capacity: capacity(2) });
    take(2);
    expect(router.acquire(request(3), [])).toBe("full");
  });

  test("are all given to a request with more sequences than seats if the instance is idle", () => {
    const { router } = setUp(["a"], {}, 2);
    const lease = router.acquire(request(1, { numSequences: 5 }), []) as Lease;
    expect(lease.upstream.id).toBe("a");
    expect(router.acquire(request(2), [])).toBe("full");
  });
});

test("this gateway's own requests in a scrape do not count as other clients', even if they have ended since", () => {
  const { pool, router, take } = setUp(["a"], {}, 4);
  const leases = [take(1), take(2), take(3)];
  for (const lease of leases) lease.end("answered");
  pool.change("a", { metrics: metrics(3) });
  const seats = Array.from({ length: 5 }, (_, i) => typeof router.acquire(request(i), []));
  expect(seats).toEqual(["object", "object", "object", "object", "string"]);
});

test("the last scrape is valid for half a minute", () => {
  const { pool, clock, router, take } = setUp(["a"], {}, 2);
  pool.change("a", { metrics: metrics(2) });
  for (const nowMs of [0, 30_000]) {
    clock.nowMs = nowMs;
    expect(router.acquire(request(1), [])).toBe("full");
  }
  clock.nowMs = 30_001;
  expect(take(2).upstream.id).toBe("a");
});

test("other clients' work counts as load", () => {
  const { pool, take } = setUp(["a", "b"], { policy: "least-load" }, 8);
  pool.change("a", { metrics: metrics(5) });
  for (let i = 0; i < 2; i++) expect(take(i).upstream.id).toBe("b");
});

test("an instance that keeps failing is avoided for a second and then tried", () => {
  const { clock, router, take } = setUp(["a", "b"]);
  for (let i = 0; i < 3; i++) take(100 + i, ["b 1"]).end("failed");
  expect([router.breakerState("a"), router.breakerState("b")]).toEqual(["open", "closed"]);
  clock.nowMs = 999;
  expect([take(1), take(2)].map(({ upstream }) => upstream.id)).toEqual(["b", "b"]);
  clock.nowMs = 1000;
  const probe = take(3);
  expect(probe.upstream.id).toBe("a");
  expect(router.breakerState("a")).toBe("half-open");
  expect(take(4).upstream.id).toBe("b");
  probe.end("answered");
  expect(take(5).upstream.id).toBe("a");
});

test("a trial succeeds with the first byte of a successful answer", () => {
  const { clock, router, take } = setUp(["a", "b"]);
  for (let i = 0; i < 3; i++) take(100 + i, ["b 1"]).end("failed");
  clock.nowMs = 1000;
  const probe = take(3, ["b 1"]);
  probe.promptDone(false);
  expect(router.breakerState("a")).toBe("half-open");
  probe.end("failed");
  clock.nowMs = 10_000;
  const again = take(4, ["b 1"]);
  again.promptDone(true);
  expect(router.breakerState("a")).toBe("closed");
  // Its answer breaks off: one failure is enough.
  again.end("failed");
  expect(router.breakerState("a")).toBe("open");
  for (let i = 0; i < 3; i++) {
    const broken = take(200 + i, ["a 1"]);
    broken.promptDone(true);
    broken.end("failed");
  }
  expect(router.breakerState("b")).toBe("open");
});

test("a request larger than all seats goes to an instance with a free seat, or waits for one", () => {
  const { router, take } = setUp(["a"], {}, 2);
  const large = { ...request(1), numSequences: 5 };
  const first = take(1);
  const lease = router.acquire(large, []);
  expect(typeof lease).toBe("object");
  expect(router.acquire(large, [])).toBe("full");
  expect(router.acquire(request(2), [])).toBe("full");
  if (typeof lease === "object") lease.end("answered");
  expect(typeof router.acquire(request(3), [])).toBe("object");
  first.end("answered");
});

test("if all instances fail, all are tried", () => {
  const { take } = setUp(["a", "b"]);
  const failOn = (id: string) => {
    for (let i = 0; i < 3; i++) take(100 + i, id === "a" ? ["b 1"] : ["a 1"]).end("failed");
  };
  failOn("a");
  for (let i = 0; i < 6; i++) {
    const lease = take(i);
    expect(lease.upstream.id).toBe("b");
    lease.end("answered");
  }
  failOn("b");
  expect(new Set([take(201), take(202)].map(({ upstream }) => upstream.id))).toEqual(new Set(["a", "b"]));
});

test("the number in flight is never negative and ends at zero, in any order of events", () => {
  const step = fc.tuple(fc.constantFrom("take", "prompt", "end", "restart"), fc.nat(9));
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const { pool, router, take } = setUp(["a", "b", "c"]);
      const leases: Lease[] = [];
      for (const [what, which] of steps) {
        if (what === "take") leases.push(take(which));
        else if (what === "prompt") leases[which]?.promptDone(true);
        else if (what === "end") leases[which]?.end("answered");
        else pool.change("a", { starts: pool.upstreams("m")[0]!.starts + 1 });
        for (const { id } of pool.upstreams("m")) expect(router.numInFlight(id)).toBeGreaterThanOrEqual(0);
      }
      for (const lease of leases) lease.end("answered");
      for (const { id } of pool.upstreams("m")) expect(router.numInFlight(id)).toBe(0);
    }),
  );
});
