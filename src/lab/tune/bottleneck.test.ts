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
  cacheHitShare: 0,
  acceptance: undefined,
  prefillShare: 0.1,
  kernelShare: 0.9,
  interference: 1.2,
  clientUtilization: 0.2,
  isVoid: false,
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
  ["drafts", { acceptance: 0.1 }],
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
  ["a cache that finds the repeated tokens", { repeatedShare: 0.8, cacheHitShare: 0.7 }],
  ["drafts that are accepted", { acceptance: 0.5 }],
  ["a queue before free seats and free memory", { queueShare: 0.5, maxRunning: 8, maxKvUsage: 0.2 }],
  ["figures that the server does not tell", { maxRunning: undefined, maxKvUsage: undefined, kernelShare: undefined }],
])("%s are no bottleneck", (_, change, objective) => {
  expect(firstOf(change, objective)).toBe("bandwidth");
});
