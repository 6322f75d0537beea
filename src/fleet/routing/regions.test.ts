import { expect, test } from "vitest";
import { TestPool, upstreamOf } from "../../../test/helpers/fleet-pool.js";
import { DEFAULT_ROUTING, type Lease, type RoutedRequest, Router } from "./router.js";

const SEATS = 2;
const target = (distance: number) => ({ url: "http://127.0.0.1:9", apiKey: undefined, modelName: undefined, distance });
const capacity = { seats: SEATS, kvTokens: 100_000, blockSize: 16 };
const request: RoutedRequest = {
  model: "m",
  prefix: { keys: [1, 2, 3], numBlocks: 3, promptTokens: 96 },
  outputTokens: 10,
  numSequences: 1,
  session: undefined,
};

/** An instance here, and servers in a near region and in a far one. */
function setUp() {
  const pool = new TestPool([
    upstreamOf("far", { capacity, target: target(2) }),
    upstreamOf("near", { capacity, target: target(1) }),
    upstreamOf("here", { capacity }),
  ]);
  const router = new Router(
    pool,
    () => DEFAULT_ROUTING,
    () => 32,
    () => {},
    () => 0,
  );
  const take = () => router.acquire(request, []);
  const idOf = (lease: Lease | string) => (typeof lease === "string" ? lease : lease.upstream.id);
  return { pool, router, take, idOf };
}

test("requests fill the nearest region, and spill over to the next only when it is full", () => {
  const { take, idOf } = setUp();
  const leases = Array.from({ length: 3 * SEATS + 1 }, take);
  expect(leases.map(idOf)).toEqual(["here", "here", "near", "near", "far", "far", "full"]);
  (leases[0] as Lease).end("answered");
  expect(idOf(take())).toBe("here");
});

test("a region that fails loses its requests to the next, and gets new ones when it is back", () => {
  const { pool, take, idOf } = setUp();
  pool.change("here", { state: "failed" });
  expect(idOf(take())).toBe("near");
  pool.change("here", { state: "ready" });
  expect(idOf(take())).toBe("here");
});

test("a cached prefix in another region does not outweigh a free seat here", () => {
  const { pool, take, idOf } = setUp();
  pool.change("here", { state: "starting" });
  const warm = take() as Lease;
  expect(idOf(warm)).toBe("near");
  warm.end("answered");
  pool.change("here", { state: "ready" });
  expect(idOf(take())).toBe("here");
});

test("a request from another region does not leave this one", () => {
  const { router, pool } = setUp();
  const fromAfar = { ...request, isFromAfar: true };
  for (let i = 0; i < SEATS; i++) expect(router.acquire(fromAfar, [])).toMatchObject({ upstream: { id: "here" } });
  expect(router.acquire(fromAfar, [])).toBe("full");
  expect(router.hasRoom(fromAfar)).toBe(false);
  expect(router.hasRoom(request)).toBe(true);
  // A request from afar cannot wait for instances of other regions.
  expect([router.hasReady(fromAfar, ["here 1"]), router.hasReady(request, ["here 1"])]).toEqual([false, true]);
  pool.change("here", { state: "failed" });
  expect(router.acquire(fromAfar, [])).toBe("none");
  pool.change("near", { state: "starting", isComing: true });
  expect([router.isComing(fromAfar), router.isComing(request)]).toEqual([false, true]);
});
