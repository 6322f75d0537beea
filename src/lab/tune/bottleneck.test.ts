import { expect, test } from "vitest";
import { type Bottleneck, findingsOf, type Objective } from "./bottleneck.js";
import type { Evidence } from "./evidence.js";

/** A server that decodes for eight clients and is limited by nothing else. */
const DECODING: Evidence = {
  numClients: 8,
  seats: 64,
  threads: 4,
  cores: 4,
  cpuCores: 3.9,
  ttftMs: 40,
  tpotMs: 20,
  queueShare: 0.02,
  maxRunning: 8,
  maxKvUsage: 0.3,
  preemptionsPerRequest: 0,
  repeatedShare: 0,
  movedShare: 0,
  cacheHitShare: 0,
  acceptance: undefined,
  rejectedPerToken: 0,
  prefillShare: 0.1,
  kernelShare: 0.9,
  interference: 1.2,
  clientUtilization: 0.2,
  isVoid: false,
  isServerKnown: true,
};

const firstOf = (change: Partial<Evidence>, objective: Objective = "throughput"): Bottleneck =>
  findingsOf({ ...DECODING, ...change }, objective)[0]!.bottleneck;

test.each<[Bottleneck, Partial<Evidence>, Objective?]>([
  ["bandwidth", {}],
  ["client", { clientUtilization: 0.95 }],
  ["client", { numClients: undefined, cpuCores: 0.4 }],
  ["kv memory", { preemptionsPerRequest: 0.1, maxKvUsage: 0.99 }],
  ["kv memory", { queueShare: 0.6, maxRunning: 3, maxKvUsage: 0.7 }],
  ["seats", { queueShare: 0.6, seats: 4, maxRunning: 4 }],
  ["threads", { threads: 2, cpuCores: 1.9 }],
  ["cache", { repeatedShare: 0.8, cacheHitShare: 0 }],
  ["cache", { movedShare: 0.8 }],
  ["drafts", { acceptance: 0.1, rejectedPerToken: 4 }],
  ["interference", { interference: 9 }, "tpot"],
  ["host", { kernelShare: 0.4 }],
  ["prefill", { prefillShare: 0.8 }],
])("names %s", (bottleneck, change, objective) => {
  expect(firstOf(change, objective)).toBe(bottleneck);
});

test("a limit that hides others is named first, and all are listed", () => {
  const findings = findingsOf({ ...DECODING, queueShare: 0.7, seats: 2, maxRunning: 2, prefillShare: 0.8 }, "ttft");
  expect(findings.map(({ bottleneck }) => bottleneck)).toEqual(["seats", "prefill", "bandwidth"]);
  expect(findings[0]!.because).toBe(
    "70 % of the time to the first token is waiting, with 2 of 2 seats taken by 8 clients",
  );
});

test.each<[string, Partial<Evidence>, Objective?]>([
  ["prompts that disturb decoding where only throughput counts", { interference: 9 }, "throughput"],
  ["repeated tokens that take no time", { repeatedShare: 0.8, prefillShare: 0.05 }],
  ["a cache that finds the repeated tokens", { repeatedShare: 0.8, cacheHitShare: 0.7 }],
  [
    "seats that keep requests waiting where the time after the first token counts",
    { queueShare: 0.6, seats: 4, maxRunning: 4 },
    "tpot",
  ],
  ["drafts that are accepted", { acceptance: 0.5, rejectedPerToken: 1 }],
  ["the few drafts of a server that tries whether they pay", { acceptance: 0.1, rejectedPerToken: 0.02 }],
  ["a queue before memory that has room for one more", { queueShare: 0.6, maxRunning: 4, maxKvUsage: 0.6 }],
  ["a queue before free seats and free memory", { queueShare: 0.5, maxRunning: 8, maxKvUsage: 0.2 }],
  ["figures that the server does not tell", { maxRunning: undefined, maxKvUsage: undefined, kernelShare: undefined }],
])("%s are no bottleneck", (_, change, objective) => {
  expect(firstOf(change, objective)).toBe("bandwidth");
});
