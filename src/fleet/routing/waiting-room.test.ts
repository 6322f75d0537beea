import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { TestPool, upstreamOf } from "../../../test/helpers/fleet-pool.js";
import { MillraceError } from "../../core/errors.js";
import { NamedPool } from "../upstream/named-pool.js";
import type { UpstreamPool } from "../upstream/upstream.js";
import { DEFAULT_ROUTING, type Lease, Router } from "./router.js";
import { type Demand, type Entrant, WaitingRoom } from "./waiting-room.js";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const entrant = (tenant: string, fields: Partial<Entrant> = {}): Entrant => ({
  request: {
    model: "m",
    prefix: { keys: [], numBlocks: 1, promptTokens: 10 },
    outputTokens: 10,
    numSequences: 1,
    session: undefined,
  },
  tenant,
  priority: 0,
  excluded: [],
  isRetry: false,
  ...fields,
});

const routerOf = (pool: UpstreamPool, onRoom: () => void): Router =>
  new Router(
    pool,
    () => DEFAULT_ROUTING,
    () => 32,
    onRoom,
    () => Date.now(),
  );

function setUp(
  seats: number,
  options: { readonly maxWaiting?: number; readonly demand?: Demand; readonly ids?: readonly string[] } = {},
) {
  const capacity = { seats, kvTokens: undefined, blockSize: undefined };
  const pool = new TestPool((options.ids ?? ["a"]).map((id) => upstreamOf(id, { capacity })));
  const router = routerOf(pool, () => room.admit());
  const limits = { maxWaiting: options.maxWaiting ?? 10, maxWaitMs: 5000 };
  const room = new WaitingRoom(router, limits, options.demand ?? (() => false));
  const order: string[] = [];
  const enter = async (name: string, entering: Entrant): Promise<Lease> => {
    const lease = await room.enter(entering, () => {});
    order.push(name);
    return lease;
  };
  return { pool, room, order, enter };
}

test("a refused request gets a retry time of at most one minute", async () => {
  for (const [meanSeconds, retryAfterSeconds] of [
    [0.2, 1],
    [59.5, 60],
    [3600, 60],
  ] as const) {
    const router = {
      acquire: () => "full" as const,
      hasReady: () => true,
      hasRoom: () => false,
      opensInMs: () => 0,
      isComing: () => false,
      meanSeconds: () => meanSeconds,
    };
    const room = new WaitingRoom(router, { maxWaiting: 0, maxWaitMs: 5000 }, () => false);
    await expect(room.enter(entrant("t"), () => {})).rejects.toMatchObject({ code: "queue_full", retryAfterSeconds });
  }
});

test("no request waits while a seat is free; otherwise the next in line gets the next free seat", async () => {
  const { room, order, enter } = setUp(1);
  const first = await enter("first", entrant("t"));
  const waiting = [
    enter("late class", entrant("t", { priority: 1 })),
    enter("t again", entrant("t")),
    enter("t once more", entrant("t")),
    enter("u", entrant("u")),
    enter("urgent", entrant("t", { priority: -1 })),
  ];
  expect(room.numWaiting("m")).toBe(5);
  first.end("answered");
  await Promise.all(waiting.map(async (lease) => (await lease).end("answered")));
  expect(order).toEqual(["first", "urgent", "u", "t again", "t once more", "late class"]);
  expect(room.numWaiting("m")).toBe(0);
});

test("a retry that has tried the only free instance lets others pass, and takes its turn after the instance restarts", async () => {
  const { pool, room, order, enter } = setUp(1, { ids: ["a", "b"] });
  const [onA, onB] = [await enter("first", entrant("t")), await enter("second", entrant("t"))];
  expect([onA.upstream.id, onB.upstream.id]).toEqual(["a", "b"]);
  const retry = enter("retry", entrant("t", { isRetry: true, excluded: ["a 1"] }));
  const later = enter("later", entrant("t"));
  onA.end("failed");
  const passed = await later;
  expect([passed.upstream.id, room.numWaiting("m")]).toEqual(["a", 1]);
  passed.end("answered");
  // The queue may be empty beforehand.
  const direct = await enter("direct", entrant("t"));
  expect(direct.upstream.id).toBe("a");
  const last = enter("last", entrant("t"));
  pool.change("a", { state: "ready", starts: 2 });
  expect((await retry).upstream).toMatchObject({ id: "a", starts: 2 });
  onB.end("answered");
  await last;
  expect(order).toEqual(["first", "second", "later", "direct", "retry", "last"]);
});

test("requests that wait for a paid API learn that its limit is used up for long, and wait on where it is not", async () => {
  const { room, enter } = setUp(1);
  const first = await enter("first", entrant("t"));
  const waiting = ["second", "third"].map((name) => enter(name, entrant("t")));
  first.learn({ retryAfterMs: 3000 }, true);
  first.end("answered");
  expect(room.numWaiting("m")).toBe(2);
  await vi.advanceTimersByTimeAsync(3000);
  const second = await waiting[0]!;
  second.learn({ retryAfterMs: 60_000 }, true);
  second.end("answered");
  await expect(waiting[1]).rejects.toMatchObject({ code: "upstream_limited", retryAfterSeconds: 60 });
  expect(room.numWaiting("m")).toBe(0);
});

test("a full room refuses with a retry time", async () => {
  const { enter } = setUp(1, { maxWaiting: 2 });
  await enter("first", entrant("t"));
  void enter("second", entrant("t"));
  void enter("third", entrant("t"));
  await expect(enter("fourth", entrant("t"))).rejects.toMatchObject({ code: "queue_full", retryAfterSeconds: 1 });
});

test("a request that waits too long is refused and leaves the queue", async () => {
  const { room, enter } = setUp(1);
  await enter("first", entrant("t"));
  const second = expect(enter("second", entrant("t"))).rejects.toMatchObject({ code: "queue_full" });
  await vi.advanceTimersByTimeAsync(5000);
  await second;
  expect(room.numWaiting("m")).toBe(0);
});

test("a request whose client leaves frees its place in the queue and takes no seat", async () => {
  const { room, enter } = setUp(1);
  const first = await enter("first", entrant("t"));
  let leave = () => {};
  const gone = room.enter(entrant("t"), (giveUp) => {
    leave = giveUp;
  });
  const third = enter("third", entrant("t"));
  leave();
  await expect(gone).rejects.toMatchObject({ code: "client_closed" });
  first.end("answered");
  await third;
  expect(room.numWaiting("m")).toBe(0);
});

test("without a ready instance a request is refused, unless one is started on demand", async () => {
  const { pool, enter } = setUp(1);
  pool.change("a", { state: "starting" });
  await expect(enter("x", entrant("t"))).rejects.toMatchObject({ code: "no_instance_ready", retryAfterSeconds: 1 });

  const asked: string[] = [];
  const onDemand = setUp(1, { demand: (model) => asked.push(model) > 0 });
  onDemand.pool.change("a", { state: "stopped" });
  const waiting = onDemand.enter("y", entrant("t"));
  expect(new Set(asked)).toEqual(new Set(["m"]));
  onDemand.pool.change("a", { state: "ready", starts: 2 });
  expect((await waiting).upstream.id).toBe("a");
});

test("a request is refused if the instance it waits for does not start in time", async () => {
  const { pool, enter } = setUp(1, { demand: () => true });
  pool.change("a", { state: "starting" });
  const waiting = expect(enter("x", entrant("t"))).rejects.toMatchObject({ code: "no_instance_ready" });
  await vi.advanceTimersByTimeAsync(5000);
  await waiting;
});

test("waiting and new requests wait for a starting instance, and are refused as soon as none is starting", async () => {
  const { pool, room, enter } = setUp(1);
  await enter("first", entrant("t"));
  const second = enter("second", entrant("t"));
  pool.change("a", { state: "failed", isComing: true });
  const third = enter("third", entrant("t"));
  pool.change("a", { state: "ready", isComing: false, starts: 2 });
  expect((await second).upstream.starts).toBe(2);
  const refused = expect(third).rejects.toMatchObject({ code: "no_instance_ready", retryAfterSeconds: 1 });
  pool.change("a", { state: "failed" });
  // The refusal needs no timer.
  await refused;
  expect(room.numWaiting("m")).toBe(0);
  await expect(enter("fourth", entrant("t"))).rejects.toMatchObject({ code: "no_instance_ready" });
});

test("a request for a model that turns out to be too large is refused while it waits", async () => {
  let isPossible = true;
  const demand = (): boolean => {
    if (isPossible) return true;
    throw new MillraceError("memory_budget", "expected a small model, got a large one");
  };
  const { pool, enter } = setUp(1, { demand });
  pool.change("a", { state: "stopped" });
  const waiting = expect(enter("first", entrant("t"))).rejects.toMatchObject({ code: "memory_budget" });
  isPossible = false;
  pool.change("a", { state: "failed" });
  await waiting;
});

test("a retry goes first, even if the queue is full", async () => {
  const { order, enter } = setUp(1, { maxWaiting: 1 });
  const first = await enter("first", entrant("t"));
  const second = enter("second", entrant("t", { priority: -5 }));
  const again = enter("again", entrant("t", { isRetry: true }));
  first.end("answered");
  (await again).end("answered");
  (await second).end("answered");
  expect(order).toEqual(["first", "again", "second"]);
});

test("a model with two names has one queue, and a reassigned name moves its requests", async () => {
  const capacity = { seats: 1, kvTokens: undefined, blockSize: undefined };
  const pool = new NamedPool(new TestPool([upstreamOf("a", { capacity }), upstreamOf("b", { capacity, model: "n" })]));
  pool.configure(new Map([["m", ["m", "alias"]]]));
  const router = routerOf(pool, () => room.admit());
  const limits = { maxWaiting: 10, maxWaitMs: 5000 };
  const room = new WaitingRoom(
    router,
    limits,
    () => false,
    (name) => pool.modelOf(name) ?? name,
  );
  const asFor = (model: string) => entrant("t", { request: { ...entrant("t").request, model } });
  const order: string[] = [];
  const enter = async (name: string, model: string): Promise<Lease> => {
    const lease = await room.enter(asFor(model), () => {});
    order.push(`${name} ${lease.upstream.id}`);
    return lease;
  };
  const first = await enter("first", "m");
  const second = enter("second", "alias");
  const third = enter("third", "m");
  const fourth = enter("fourth", "alias");
  expect(room.numWaiting("m")).toBe(3);
  first.end("answered");
  (await second).end("answered");
  const held = await third;
  pool.configure(
    new Map([
      ["m", ["m"]],
      ["n", ["n", "alias"]],
    ]),
  );
  room.admit();
  (await fourth).end("answered");
  held.end("answered");
  expect(order).toEqual(["first a", "second a", "third a", "fourth b"]);
});
