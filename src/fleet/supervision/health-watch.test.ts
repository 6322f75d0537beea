/** The frequency of each kind of request to an engine, on the test's own clock. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from "vitest";
import { ADAPTERS } from "../adapters/index.js";
import { HealthWatch } from "./health-watch.js";
import { DEFAULT_TIMING } from "./timing.js";

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => void vi.useRealTimers());

/** @param answer the status of an answer; undefined: no answer */
async function watched(answer: (path: string) => number | undefined) {
  const asked: string[] = [];
  const told: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url!);
    const status = answer(request.url!);
    if (status !== undefined) response.writeHead(status).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const listener = {
    onMetrics: () => {},
    onHealth: (problem: string | undefined, isSure: boolean) =>
      void told.push(problem === undefined ? "well" : `${isSure ? "sure: " : ""}${problem}`),
  };
  const target = { url, apiKey: undefined, modelName: undefined };
  const watch = new HealthWatch(ADAPTERS.vllm, target, DEFAULT_TIMING, listener);
  const end = new AbortController();
  const ended = watch.run(end.signal);
  onTestFinished(async () => {
    end.abort();
    server.closeAllConnections();
    await ended;
    server.close();
  });
  return { watch, end, asked, told, numAsked: (path: string) => asked.filter((each) => each === path).length };
}

/** Advances the test's clock in tenths of a second; answers use real sockets. @returns seconds */
async function secondsUntil(holds: () => boolean): Promise<number> {
  let tenths = 0;
  while (!holds()) {
    if (tenths > 600) throw new Error(`not within a minute: ${holds}`);
    await vi.advanceTimersByTimeAsync(100);
    for (let turn = 0; turn < 20 && !holds(); turn++) await new Promise((resolve) => setImmediate(resolve));
    tenths++;
  }
  return tenths / 10;
}

it("checks health and metrics every second, independently of each other", async () => {
  const { told, numAsked } = await watched((path) => (path === "/metrics" ? undefined : 200));
  const seconds = await secondsUntil(() => told.length === 5);
  expect(told).toEqual(Array(5).fill("well"));
  // Missing metrics delay nothing; the next request for them follows their time limit.
  expect(seconds).toBeGreaterThanOrEqual(5);
  expect(numAsked("/metrics")).toBeLessThanOrEqual(2);
});

it("suspects an engine that does not answer within three seconds, and considers it dead after the third time", async () => {
  let isStopped = false;
  const { told } = await watched(() => (isStopped ? undefined : 200));
  await secondsUntil(() => told.length === 1);
  isStopped = true;
  const silence = "expected an answer to GET /health, got none in 2 s";
  expect(await secondsUntil(() => told.length === 2)).toBeLessThan(4);
  await secondsUntil(() => told.length === 4);
  expect(told.slice(1)).toEqual([silence, silence, `sure: ${silence}`]);
  isStopped = false;
  await secondsUntil(() => told.at(-1) === "well");
});

it("a doubt is answered by a check that began after it", async () => {
  let isUp = true;
  const { watch, told } = await watched(() => (isUp ? 200 : 500));
  isUp = false;
  await watch.nudge();
  expect(told).toEqual(["expected 200 from GET /health, got 500"]);
});

it("answers a doubt at once if the engine has ended or ends meanwhile", async () => {
  const { watch, end } = await watched(() => undefined);
  const doubt = watch.nudge();
  end.abort();
  await Promise.all([doubt, watch.nudge()]);
  await new Promise((resolve) => setImmediate(resolve));
  await watch.nudge();
});

it("does not check a sleeping engine, even after a doubt", async () => {
  const { watch, asked } = await watched(() => 200);
  watch.isResting = true;
  await watch.nudge();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(asked).toEqual([]);
  watch.isResting = false;
  await secondsUntil(() => asked.length > 0);
});
