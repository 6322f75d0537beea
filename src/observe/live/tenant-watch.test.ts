import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { tempTree } from "../../../test/scripts/temp-tree.js";
import { LiveFeed } from "./feed.js";
import { History } from "./history.js";
import { keyOf, type Reading, readingOf } from "./load.js";
import { MOST_SERIES, SeriesStore, TENANTS } from "./series-store.js";
import { type TenantSource, TenantWatch } from "./tenant-watch.js";

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date", "performance"] }));
afterEach(() => void vi.useRealTimers());

const START = Date.UTC(2026, 0, 1);
const DAY = 24 * 3_600_000;

const tenant = (name: string): string => keyOf({ kind: "tenant", name });

function reading(atMs: number, requests: number): Reading {
  const times = new Map([
    [0.1, requests],
    [Number.POSITIVE_INFINITY, requests],
  ]);
  const counters = { tokensIn: 40 * requests, tokensOut: 20 * requests, fleetRequests: requests, cost: requests / 100 };
  return { ...readingOf([], atMs), counters, firstToken: times };
}

/** Counts of requests by tenant, for tests to change. */
class Counted implements TenantSource {
  readonly requests = new Map<string, number>();

  readings(atMs: number, wanted?: ReadonlySet<string>): ReadonlyMap<string, Reading> {
    const all = [...this.requests].map(([name, count]) => [tenant(name), reading(atMs, count)] as const);
    return new Map(all.filter(([key]) => wanted?.has(key) ?? true));
  }
}

test("the first requests of a tenant are part of its history, and of what it does now", () => {
  const source = new Counted();
  const watch = new TenantWatch(source);
  source.requests.set("early", 5);
  watch.take(START);
  source.requests.set("early", 10).set("late", 20);
  watch.take(START + 10_000);
  const loads = watch.find(tenant("late"))!.read("hour", START + 10_000);
  expect(loads).toMatchObject([{ atMs: START + 10_000, requestsPerS: 2, tokensInPerS: 80, tokensOutPerS: 40 }]);
  expect(loads[0]!.costPerH).toBeCloseTo(72, 9);
  expect(loads[0]!.ttft.p95).toBeCloseTo(95, 9);
  // Requests before the first look belong to an earlier run of the gateway.
  expect(watch.now().map(({ name, requestsPerS }) => [name, requestsPerS])).toEqual([
    ["late", 2],
    ["early", 0.5],
  ]);
});

test("now is the last minute, the dearest first", () => {
  const source = new Counted();
  const watch = new TenantWatch(source);
  for (let i = 0; i <= 18; i++) {
    source.requests.set("was-busy", Math.min(10 * i, 60)).set("is-busy", i < 9 ? 0 : 6 * (i - 9));
    watch.take(START + 10_000 * i);
  }
  const now = watch.now().map(({ name, requestsPerS, costPerH }) => [name, requestsPerS, Math.round(costPerH!)]);
  expect(now).toEqual([
    ["is-busy", 0.6, 22],
    ["was-busy", 0, 0],
  ]);
});

test("a tenant that is gone has its history for a week, and no figures now", () => {
  const source = new Counted();
  const watch = new TenantWatch(source);
  for (let i = 0; i < 3; i++) {
    source.requests.set("gone", i).set("there", i);
    watch.take(START + 10_000 * i);
  }
  source.requests.delete("gone");
  watch.take(START + 30_000);
  expect([[...watch.current()], watch.keys().includes(tenant("gone"))]).toEqual([[tenant("there")], true]);
  expect(watch.now().map(({ name }) => name)).toEqual(["there"]);
  const readings = watch.readings(START + 31_000, [tenant("gone"), tenant("there")]);
  expect(readings.map(([, { counters }]) => counters.tokensOut)).toEqual([undefined, 40]);
  watch.take(START + 8 * DAY);
  expect(watch.keys()).toEqual([tenant("there")]);
});

test("a year of tenants that come and go keeps its own bound, in a folder of its own, over restarts", () => {
  const folder = join(tempTree({}), "tenants");
  const source = new Counted();
  let watch = new TenantWatch(source, new SeriesStore(folder, undefined, TENANTS));
  for (let day = 0; day < 365; day++) {
    source.requests.clear();
    source.requests.set("stays", day);
    for (let i = 0; i < 12; i++) source.requests.set(`t-${day}-${i}`, 1);
    for (const hour of [0, 12]) watch.take(START + day * DAY + (hour * DAY) / 24);
    expect(watch.keys().length).toBeLessThanOrEqual(MOST_SERIES);
  }
  const files = readdirSync(folder);
  expect(files).toHaveLength(MOST_SERIES);
  expect(files.reduce((sum, name) => sum + statSync(join(folder, name)).size, 0)).toBeLessThan(13_000_000);
  watch.close();
  watch = new TenantWatch(source, new SeriesStore(folder, undefined, TENANTS));
  expect(watch.find(tenant("stays"))!.read("week", START + 365 * DAY).length).toBeGreaterThan(10);
  // A file with another kind's layout does not count as one of theirs.
  const problems: string[] = [];
  new SeriesStore(folder, (text) => problems.push(text));
  expect(problems).toEqual([expect.stringContaining("the history of models and instances is kept in memory")]);
  watch.close();
});

test("a tenant's stream ends as soon as its watcher may see it no more; the server's goes on", async () => {
  const source = new Counted();
  let requests = 0;
  const text = async () => {
    source.requests.set("acme", requests++);
    return "millrace:num_requests_running 1\n";
  };
  const feed = new LiveFeed(text, new History(), { tenants: new TenantWatch(source) });
  feed.start();
  await vi.advanceTimersByTimeAsync(0);
  let mayRead = true;
  const reader = (answer: Response) => answer.body!.pipeThrough(new TextDecoderStream() as never).getReader();
  const own = reader(feed.live({ tenant: "acme" }, () => mayRead));
  const all = reader(feed.live());
  for (const each of [own, all]) await each.read();
  await vi.advanceTimersByTimeAsync(2000);
  const { value } = (await own.read()) as { value: string };
  expect(JSON.parse(value.slice("data: ".length))).toMatchObject({
    requests_per_s: 1,
    tokens_out_per_s: 20,
    cost_per_h: 36,
  });
  mayRead = false;
  await vi.advanceTimersByTimeAsync(3000);
  while (!(await own.read()).done);
  await vi.advanceTimersByTimeAsync(1000);
  expect((await all.read()).done).toBe(false);
  const kinds = async (withTenants: boolean) =>
    ((await feed.parts(withTenants).json()) as { data: { kind: string; name: string }[] }).data;
  await vi.advanceTimersByTimeAsync(10_000);
  expect(await kinds(true)).toEqual([{ kind: "tenant", name: "acme", is_current: true }]);
  expect(await kinds(false)).toEqual([]);
  expect(() => feed.past({ tenant: "acme", model: "m" })).toThrow("got model and tenant");
  expect(() => feed.past({ tenant: "nobody" })).toThrow('expected the name of a tenant, got "nobody"');
  feed.stop();
});
