import { setTimeout as sleep } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import { until } from "../../../test/helpers/fake-server.js";
import { TestPool, upstreamOf } from "../../../test/helpers/fleet-pool.js";
import { MillraceError } from "../../core/errors.js";
import { CachedBlocks } from "../../text/cached-blocks.js";
import { CacheWatch } from "./cache-watch.js";

/** A watch over one instance; each attempt yields blocks and then throws. */
function watchThrowing(thrown: Error) {
  const pool = new TestPool([upstreamOf("a", { url: "http://127.0.0.1:1", engine: "vllm" })]);
  const told: unknown[] = [];
  const seen = { numAttempts: 0, told, pool };
  const follow = async function* () {
    seen.numAttempts++;
    yield new CachedBlocks([0], 16);
    throw thrown;
  };
  const watch = new CacheWatch(
    pool,
    () => follow,
    (id, error) => told.push([id, error]),
  );
  return Object.assign(seen, { watch, [Symbol.dispose]: () => watch.close() });
}

test("a lost connection is tried again, and told once for each start", async () => {
  const lost = new Error("lost");
  using seen = watchThrowing(lost);
  await until(() => seen.numAttempts >= 3, "three attempts");
  expect(seen.told).toEqual([["a", lost]]);
  seen.pool.change("a", { starts: 2 });
  await until(() => seen.told.length === 2, "the error of the next start");
});

test("a report that cannot be read is told, and not asked for again before the next start", async () => {
  using seen = watchThrowing(new MillraceError("upstream_failed", "expected another format"));
  await until(() => seen.told.length === 1, "the error");
  await sleep(300);
  expect(seen.numAttempts).toBe(1);
  expect(seen.watch.blocksOf(seen.pool.upstreams("m")[0]!)).toBeUndefined();
  seen.pool.change("a", { starts: 2 });
  await until(() => seen.numAttempts === 2, "another attempt");
});

test("a report that is lost at once after each beginning is asked for ever less often", async () => {
  using seen = watchThrowing(new Error("lost"));
  await sleep(1000);
  // Pauses of 50, 100, 200, 400 and 800 ms.
  expect(seen.numAttempts).toBeLessThan(8);
});

test.each([
  [6_000, 50],
  [4_000, 5_000],
])("after a connection that reported at once and was lost %i ms later, the next attempt comes after %i ms", async (lastsMs, pauseMs) => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  const pool = new TestPool([upstreamOf("a", { url: "http://127.0.0.1:1", engine: "vllm" })]);
  const attempts: number[] = [];
  const follow = async function* () {
    attempts.push(performance.now());
    yield new CachedBlocks([0], 16);
    // The tenth attempt lasts, without news.
    if (attempts.length === 10) await new Promise((resolve) => setTimeout(resolve, lastsMs));
    throw new Error("lost");
  };
  const watch = new CacheWatch(pool, () => follow);
  try {
    await vi.advanceTimersByTimeAsync(60_000);
    expect(attempts[8]! - attempts[7]!).toBe(5_000);
    expect(attempts[10]! - attempts[9]! - lastsMs).toBe(pauseMs);
  } finally {
    watch.close();
    vi.useRealTimers();
  }
});
