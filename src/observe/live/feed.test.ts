import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { LiveFeed } from "./feed.js";
import { History } from "./history.js";
import { loadSchema } from "./load-schema.js";

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date", "performance"] }));
afterEach(() => void vi.useRealTimers());

let numReadings = 0;
/** A server that computes ten tokens between two readings. */
function tenTokens(): LiveFeed {
  numReadings = 0;
  return new LiveFeed(async () => `millrace:generation_tokens_total ${10 * numReadings++}\n`, new History());
}

const reader = (answer: Response) => answer.body!.pipeThrough(new TextDecoderStream() as never).getReader();

test("who watches gets figures each second, and nobody else costs a reading", async () => {
  const feed = tenTokens();
  feed.start();
  await vi.advanceTimersByTimeAsync(30_000);
  expect(numReadings).toBe(4);
  const watcher = reader(feed.live());
  expect((await watcher.read()).value).toBe(": figures follow\n\n");
  for (let second = 1; second <= 3; second++) {
    await vi.advanceTimersByTimeAsync(1000);
    const { value } = (await watcher.read()) as { value: string };
    expect(JSON.parse(value.slice("data: ".length)).tokens_out_per_s).toBe(10);
  }
  await watcher.cancel();
  const before = numReadings;
  await vi.advanceTimersByTimeAsync(30_000);
  expect(numReadings - before).toBeLessThanOrEqual(4);
  const { loads, every_ms } = (await feed.past({ window: "hour" }).json()) as { loads: object[]; every_ms: number };
  expect([loads.length > 3, every_ms]).toEqual([true, 10_000]);
  feed.stop();
});

test("a watcher who does not read is not waited for", async () => {
  const feed = tenTokens();
  feed.start();
  const slow = reader(feed.live());
  await slow.read();
  await vi.advanceTimersByTimeAsync(60_000);
  feed.stop();
  let numEvents = 0;
  while (!(await slow.read()).done) numEvents++;
  expect(numEvents).toBeGreaterThan(5);
  expect(numEvents).toBeLessThanOrEqual(11);
  // A stream that begins after the feed's end is over at once.
  expect(await feed.live().text()).toBe("");
});

test("of more than a hundred watchers the oldest leaves; a body that nobody reads is no watcher", async () => {
  const feed = tenTokens();
  feed.start();
  const operator = reader(feed.live({}, () => true, true));
  await operator.read();
  const watchers = await Promise.all(
    Array.from({ length: 100 }, async () => {
      const watcher = reader(feed.live());
      await watcher.read();
      return watcher;
    }),
  );
  // Like the answers to HEAD.
  for (let i = 0; i < 200; i++) feed.live();
  await vi.advanceTimersByTimeAsync(1000);
  expect((await watchers[0]!.read()).done).toBe(false);
  const last = reader(feed.live());
  await last.read();
  while (!(await watchers[0]!.read()).done);
  await vi.advanceTimersByTimeAsync(1000);
  expect((await last.read()).value).toContain("data: ");
  // An operator's stream, though older, is counted separately.
  expect((await operator.read()).value).toContain("data: ");
  feed.stop();
});

test("others who come and go do not change a watcher's second", async () => {
  const feed = tenTokens();
  feed.start();
  const watcher = reader(feed.live());
  await watcher.read();
  await vi.advanceTimersByTimeAsync(3000);
  const before = numReadings;
  for (let i = 0; i < 30; i++) {
    const other = reader(feed.live());
    await other.read();
    await vi.advanceTimersByTimeAsync(100);
    await other.cancel();
  }
  expect(numReadings - before).toBeLessThanOrEqual(4);
  feed.stop();
});

test("metrics that cannot be read interrupt the figures only", async () => {
  let isBroken = false;
  const feed = new LiveFeed(async () => {
    if (isBroken) throw new Error("no answer");
    return "millrace:num_requests_running 1\n";
  }, new History());
  feed.start();
  const watcher = reader(feed.live());
  await watcher.read();
  isBroken = true;
  await vi.advanceTimersByTimeAsync(2000);
  expect((await watcher.read()).value).toContain("expected metrics that can be read, got no answer");
  isBroken = false;
  await vi.advanceTimersByTimeAsync(3000);
  let text = "";
  while (!text.includes('"running":1')) text = String((await watcher.read()).value);
  feed.stop();
});

test("figures come with what binds and with the targets, a history's with the targets", async () => {
  const text =
    'millrace:num_requests_running 2\nmillrace:num_requests_waiting 3\nmillrace:cache_config_info{max_num_seqs="2"} 1\n';
  const targets = () => ({ ttftMs: 200, tpotMs: undefined, name: "ttft=200" });
  const feed = new LiveFeed(async () => text, new History(), { targets });
  feed.start();
  const watcher = reader(feed.live());
  await watcher.read();
  await vi.advanceTimersByTimeAsync(2000);
  const load = JSON.parse(String((await watcher.read()).value).slice("data: ".length));
  expect(load).toMatchObject({
    targets: { ttft_ms: 200 },
    binding: { name: "seats", evidence: "num_requests_waiting is 3, with 2 of 2 seats taken" },
  });
  expect(loadSchema.strict().safeParse(load).error).toBeUndefined();
  expect(await feed.past({}).json()).toMatchObject({ targets: { ttft_ms: 200 } });
  feed.stop();
});

test("events come with the next figures, once, and with those of a window", async () => {
  const feed = tenTokens();
  feed.start();
  const watcher = reader(feed.live());
  await watcher.read();
  await vi.advanceTimersByTimeAsync(1000);
  feed.events.add("reload", "read again");
  const texts: string[] = [];
  for (let second = 0; second < 3; second++) {
    await vi.advanceTimersByTimeAsync(1000);
    const { value } = (await watcher.read()) as { value: string };
    texts.push(...(JSON.parse(value.slice("data: ".length)).events ?? []).map(({ text }: { text: string }) => text));
  }
  expect(texts.filter((text) => text === "read again")).toHaveLength(1);
  const { events } = (await feed.past({ window: "day" }).json()) as { events: object[] };
  expect(events).toMatchObject([{ kind: "start" }, { kind: "reload", text: "read again" }]);
  feed.stop();
});

test("an unknown window is refused", () => {
  expect(() => tenTokens().past({ window: "year" })).toThrow(/window to be one of hour, day, week, got "year"/);
});

test("a feed that was stopped reads no more", async () => {
  const feed = tenTokens();
  feed.start();
  feed.stop();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(numReadings).toBe(1);
});

/** Two instances, of which the second disappears; each computes five tokens between two readings. */
function twoInstances() {
  numReadings = 0;
  let ids = ["m-0", "m-1"];
  const text = async () => {
    numReadings++;
    const lines = ids.flatMap((id) => [
      `millrace_fleet:in_flight{model="m",instance="${id}"} 1`,
      `millrace:generation_tokens_total{model="m",instance="${id}"} ${5 * numReadings}`,
    ]);
    return ['millrace_fleet:queue_depth{model="m"} 0', ...lines].join("\n");
  };
  return {
    feed: new LiveFeed(text, new History()),
    lose: (id: string): void => {
      ids = ids.filter((own) => own !== id);
    },
  };
}

test("a model and an instance have live figures and a history of their own", async () => {
  const { feed, lose } = twoInstances();
  feed.start();
  await vi.advanceTimersByTimeAsync(0);
  const watchers = [{}, { model: "m" }, { instance: "m-1" }].map((query) => reader(feed.live(query)));
  const next = async () => {
    const values = await Promise.all(watchers.map(async (watcher) => String((await watcher.read()).value)));
    return values.map((value) => JSON.parse(value.slice("data: ".length)));
  };
  for (const watcher of watchers) await watcher.read();
  // Wait for the second figures: a part's first reading covers its first second.
  await vi.advanceTimersByTimeAsync(1000);
  await watchers[0]!.read();
  await vi.advanceTimersByTimeAsync(1000);
  expect((await next()).map((load) => load.tokens_out_per_s)).toEqual([10, 10, 5]);
  lose("m-1");
  await vi.advanceTimersByTimeAsync(1000);
  // For a missing part, only the time is known.
  expect((await next()).map((load) => load.running)).toEqual([1, 1, undefined]);
  for (const watcher of watchers) await watcher.cancel();
  await vi.advanceTimersByTimeAsync(60_000);
  const parts = (await feed.parts().json()) as object;
  expect(parts).toEqual({
    object: "list",
    data: [
      { kind: "model", name: "m", is_current: true },
      { kind: "instance", name: "m-0", is_current: true },
      { kind: "instance", name: "m-1", is_current: false },
    ],
  });
  const past = async (query: object) => ((await feed.past(query).json()) as { loads: object[] }).loads;
  expect((await past({ instance: "m-0" })).length).toBeGreaterThan(2);
  expect((await past({ instance: "m-0" })).at(-1)).toMatchObject({ running: 1 });
  expect((await past({ model: "m" })).length).toBe((await past({ instance: "m-0" })).length);
  expect((await past({ instance: "m-1" })).length).toBeLessThan((await past({ instance: "m-0" })).length);
  feed.stop();
});

test("watchers of many parts cost one reading of the metrics a second", async () => {
  const { feed } = twoInstances();
  feed.start();
  await vi.advanceTimersByTimeAsync(0);
  const queries = [{}, { model: "m" }, { instance: "m-0" }, { instance: "m-1" }];
  const watchers = Array.from({ length: 40 }, (_, i) => reader(feed.live(queries[i % 4])));
  for (const watcher of watchers) await watcher.read();
  const before = numReadings;
  await vi.advanceTimersByTimeAsync(10_000);
  expect(numReadings - before).toBeLessThanOrEqual(11);
  feed.stop();
});

test("unknown parts, and two at once, are refused", async () => {
  const { feed } = twoInstances();
  feed.start();
  await vi.advanceTimersByTimeAsync(0);
  expect(() => feed.past({ model: "x".repeat(500) })).toThrow(/name of a model of a fleet, got "x{40}"$/);
  expect(() => feed.live({ instance: "m" })).toThrow('name of an instance of a fleet, got "m"');
  expect(() => feed.live({ model: "m", instance: "m-0" })).toThrow(/model, instance, tenant, got model and instance$/);
  // Nobody counts tenants here.
  expect(() => feed.past({ tenant: "m" })).toThrow('expected the name of a tenant, got "m"');
  expect(((await feed.tenantsNow().json()) as { data: object[] }).data).toEqual([]);
  feed.stop();
});
