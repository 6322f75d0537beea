import { expect, test } from "vitest";
import { fitServing, servingReport } from "./calibrate-serving.js";
import { GPU_HOUR } from "./data/prices.js";
import { instanceFor } from "./fitting.js";
import { parseHardware } from "./hardware.js";
import { knownModel } from "./known-model.js";
import { makePlan } from "./plan.js";
import { predict } from "./predict.js";
import type { PlanRequest } from "./request.js";

const REQUEST: PlanRequest = {
  model: knownModel("llama-3.1-8b"),
  machine: parseHardware("h100"),
  inputTokens: 1000,
  outputTokens: 200,
  prefixShare: 0,
  load: { concurrency: 32 },
  slo: {},
  objective: "throughput",
  isSimpleTask: false,
  smallestRecovery: 98,
  price: GPU_HOUR.h100!,
};

/** The report that `bench run` would write for a machine with these shares. */
function reportOf(memoryShare: number, computeShare: number): unknown {
  const [first] = makePlan(REQUEST).configurations;
  const { quantization, kv, tensorParallel, seats, options, drafting } = first!;
  const instance = { ...instanceFor(REQUEST, quantization, tensorParallel), kv };
  const efficiencies = { ...instance.efficiencies, memoryShare, computeShare };
  const limits = { seats: Math.min(seats, options.maxNumSeqs), maxNumBatchedTokens: options.maxNumBatchedTokens };
  const runs = [1, 8, 32].map((concurrency) => {
    const traffic = { inputTokens: 1000, outputTokens: 200, prefixHit: 0, load: { concurrency } };
    const { outputTokensPerS } = predict({ ...instance, efficiencies }, traffic, limits, drafting);
    const numRequests = 100;
    const counts = { numRequests, promptTokens: 1000 * numRequests, cachedTokens: 0, outputTokens: 200 * numRequests };
    return { target: "vllm", voidReasons: [] as string[], metrics: { ...counts, outputTokensPerS, concurrency } };
  });
  // Neither run counts: one is void, the other is of another server.
  const wrong = { ...runs[0]!, metrics: { ...runs[0]!.metrics, outputTokensPerS: 1 } };
  const others = [
    { ...wrong, voidReasons: ["the client was late"] },
    { ...wrong, target: "llama-server" },
  ];
  return { format: "millrace-bench", runs: [...runs, ...others] };
}

test("runs of a server as planned give the shares it reached", () => {
  const report = servingReport(reportOf(0.6, 0.3))!;
  const fit = fitServing(REQUEST, makePlan(REQUEST).configurations[0]!, report, "run.json")!;
  expect(fit.efficiencies.memoryShare).toBeCloseTo(0.6, 1);
  expect(fit.efficiencies.computeShare).toBeCloseTo(0.3, 1);
  expect(fit.errorBefore).toBeGreaterThan(0.1);
  expect(fit.errorAfter).toBeLessThan(0.01);
  expect(fit.source).toMatch(/^3 runs in run\.json/);
});

test("a slower machine makes a slower plan", () => {
  const report = servingReport(reportOf(0.4, 0.2))!;
  const fit = fitServing(REQUEST, makePlan(REQUEST).configurations[0]!, report, "run.json")!;
  const speed = (request: PlanRequest): number => makePlan(request).configurations[0]!.prediction.outputTokensPerS;
  expect(speed({ ...REQUEST, efficiencies: fit.efficiencies })).toBeLessThan(speed(REQUEST));
});

test("other files are none, and runs without requests say nothing", () => {
  expect(servingReport({ format: "other", runs: [] })).toBeUndefined();
  const empty = servingReport({ format: "millrace-bench", runs: [] })!;
  expect(fitServing(REQUEST, makePlan(REQUEST).configurations[0]!, empty, "x")).toBeUndefined();
});
