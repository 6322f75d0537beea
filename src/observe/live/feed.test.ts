import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { LiveFeed } from "./feed.js";
import { History } from "./history.js";

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] }));
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
    expect(JSON.parse(value.slice("data: ".length)).tokensOutPerS).toBe(10);
  }
  await watcher.cancel();
  const before = numReadings;
  await vi.advanceTimersByTimeAsync(30_000);
  expect(numReadings - before).toBeLessThanOrEqual(4);
  const { loads, everyMs } = (await feed.past("hour").json()) as { loads: object[]; everyMs: number };
  expect([loads.length > 3, everyMs]).toEqual([true, 10_000]);
  feed.stop();
});

test("a watcher who does not read is not waited for, and too many are refused", async () => {
  const feed = tenTokens();
  feed.start();
  const slow = feed.live();
  await vi.advanceTimersByTimeAsync(60_000);
  const others = Array.from({ length: 99 }, () => feed.live());
  expect(others).toHaveLength(99);
  expect(() => feed.live()).toThrow(/at most 100 who watch/);
  feed.stop();
  // The stream ends, with no more than ten events.
  const text = await slow.text();
  expect(text.split("data: ").length - 1).toBeLessThanOrEqual(10);
  expect(await feed.live().text()).toBe("");
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
  await vi.advanceTimersByTimeAsync(5000);
  isBroken = false;
  await vi.advanceTimersByTimeAsync(3000);
  expect((await watcher.read()).value).toContain('"running":1');
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
