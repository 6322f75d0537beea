/** How often an engine is asked for what, on a clock of the test's own. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from "vitest";
import { ADAPTERS } from "./adapters/index.js";
import { HealthWatch } from "./health-watch.js";
import { DEFAULT_TIMING } from "./timing.js";

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => void vi.useRealTimers());

/** @returns what was asked so far, and a promise of the next question */
async function watched(answer: (path: string) => number) {
  const asked: string[] = [];
  const problems: (string | undefined)[] = [];
  let onAsked = (): void => {};
  const server = createServer((request, response) => {
    asked.push(request.url!);
    response.writeHead(answer(request.url!)).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const listener = {
    onMetrics: () => onAsked(),
    onHealth(problem: string | undefined) {
      const numChecks = asked.filter((path) => path === "/health").length;
      problems.push(problem === undefined ? undefined : `${problem} (after ${numChecks})`);
      if (problem !== undefined) onAsked();
    },
  };
  const watch = new HealthWatch(
    ADAPTERS.vllm,
    { url, apiKey: undefined, modelName: undefined },
    DEFAULT_TIMING,
    listener,
  );
  const end = new AbortController();
  const ended = watch.run(end.signal);
  onTestFinished(async () => {
    end.abort();
    await ended;
    server.close();
  });
  /** A second later, once it has been answered. */
  const nextRound = async (): Promise<readonly string[]> => {
    const before = asked.length;
    const answered = new Promise<void>((resolve) => {
      onAsked = resolve;
    });
    await vi.advanceTimersByTimeAsync(DEFAULT_TIMING.scrapeMs);
    await answered;
    return asked.slice(before);
  };
  return { watch, asked, problems, nextRound };
}

/** On the test's clock; answers come by real sockets. */
async function secondsUntil(holds: () => boolean): Promise<void> {
  while (!holds()) {
    await vi.advanceTimersByTimeAsync(1000);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

it("asks for metrics every second and for health every fifth", async () => {
  const { nextRound, problems } = await watched(() => 200);
  const rounds: (readonly string[])[] = [];
  for (let round = 0; round < 10; round++) rounds.push(await nextRound());
  const usual = ["/metrics"];
  const fifth = ["/health", "/metrics"];
  expect(rounds).toEqual([usual, usual, usual, usual, fifth, usual, usual, usual, usual, fifth]);
  expect(problems).toEqual([undefined, undefined]);
});

it("asks for health when metrics fail, and every second while it is bad", async () => {
  let isUp = true;
  const { nextRound, problems } = await watched(() => (isUp ? 200 : 500));
  await nextRound();
  isUp = false;
  // The first two failures in a row are kept to itself.
  await secondsUntil(() => problems.length > 0);
  expect(problems).toEqual(["expected 200 from GET /health, got 500 (after 3)"]);
  isUp = true;
  await secondsUntil(() => problems.at(-1) === undefined);
});

it("asks nothing of an engine that sleeps, not even when it is doubted", async () => {
  const { watch, asked, nextRound } = await watched(() => 200);
  watch.isResting = true;
  watch.nudge();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(asked).toEqual([]);
  watch.isResting = false;
  expect((await nextRound()).length).toBeGreaterThan(0);
});
