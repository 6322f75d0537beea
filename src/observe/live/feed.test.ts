import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { LiveFeed } from "./feed.js";
import { History } from "./history.js";

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date", "performance"] }));
afterEach(() => void vi.useRealTimers());

let numReadings = 0;
/** A server that makes ten tokens between two readings. */
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
  const { loads, every_ms } = (await feed.past("hour").json()) as { loads: object[]; every_ms: number };
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
  // A stream that begins after the end is over at once.
  expect(await feed.live().text()).toBe("");
});

test("of more than a hundred watchers the oldest leaves; a body that nobody reads is no watcher", async () => {
  const feed = tenTokens();
  feed.start();
  const watchers = await Promise.all(
    Array.from({ length: 100 }, async () => {
      const watcher = reader(feed.live());
      await watcher.read();
      return watcher;
    }),
  );
  // As the answers to HEAD.
  for (let i = 0; i < 200; i++) feed.live();
  await vi.advanceTimersByTimeAsync(1000);
  expect((await watchers[0]!.read()).done).toBe(false);
  const last = reader(feed.live());
  await last.read();
  while (!(await watchers[0]!.read()).done);
  await vi.advanceTimersByTimeAsync(1000);
  expect((await last.read()).value).toContain("data: ");
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
  const { events } = (await feed.past("day").json()) as { events: object[] };
  expect(events).toMatchObject([{ kind: "start" }, { kind: "reload", text: "read again" }]);
  feed.stop();
});

test("an unknown window is refused", () => {
  expect(() => tenTokens().past("year")).toThrow(/window to be one of hour, day, week, got "year"/);
});

test("a feed that was stopped reads no more", async () => {
  const feed = tenTokens();
  feed.start();
  feed.stop();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(numReadings).toBe(1);
});
