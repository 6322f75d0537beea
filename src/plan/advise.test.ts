/** Advice without a trial, and the split of the money: both are the plan's own figures beside each other. */
import { expect, test } from "vitest";
import { planRequest } from "../../test/helpers/plan-request.js";
import { advise } from "./advise.js";
import { busySeconds, tokenScales } from "./cost-scales.js";
import { GPU_HOUR } from "./data/prices.js";
import { QUANTIZATIONS } from "./data/quantizations.js";
import { capacityOf } from "./load-curve.js";
import { makePlan } from "./plan.js";
import type { PlanRequest } from "./request.js";
import { defaultEfficiencies } from "./step-time.js";

const request = (model: string, hardware: string, more: Partial<PlanRequest> = {}): PlanRequest =>
  planRequest(model, hardware, { objective: "cost", ...more });

const named = (of: PlanRequest, name: string) =>
  advise(of, "cost")!.techniques.find((each) => each.name.startsWith(name))!;
const scalesOf = (of: PlanRequest) => tokenScales(of, makePlan(of).configurations[0]!);

test("eight techniques, the easiest first among those that better the bottleneck", () => {
  const { techniques, order } = advise(request("llama-3.3-70b", "h100x4"), "latency")!;
  expect(techniques).toHaveLength(8);
  const efforts = ["low", "medium", "high", "very high"];
  const ranks = order.map((name) => efforts.indexOf(techniques.find((each) => each.name === name)!.effort));
  expect(ranks).toEqual(ranks.toSorted((a, b) => a - b));
  // Batching makes a request wait for the others.
  expect(order).not.toContain("continuous batching");
  for (const name of order) expect(techniques.find((each) => each.name === name)!.latency).toBeLessThan(0.95);
  expect(advise(request("llama-3.3-70b", "h100x4"), "cost")!.order).toContain("continuous batching");
});

test("a technique that cannot be had says so", () => {
  expect(named(request("qwen2.5-7b", "h100"), "speculative")).toMatchObject({
    cost: undefined,
    note: expect.stringMatching(/no drafter/),
  });
  expect(named(request("deepseek-v3", "b200x8"), "8-bit")).toMatchObject({
    cost: undefined,
    note: expect.stringMatching(/published so/),
  });
  expect(named(request("llama-3.3-70b", "h100x4"), "8-bit").cost).toBeLessThan(0.9);
});

test("where 16 bits have no room, not even for keys, advice starts from the plan's own types", () => {
  const long = request("llama-3.1-8b", "rtx4090", { maxModelLen: 131_072 });
  expect(named(long, "8-bit")).toMatchObject({ cost: undefined, note: expect.stringMatching(/compared with/) });
  expect(named(long, "4-bit")).toMatchObject({
    cost: undefined,
    note: expect.stringMatching(/not for sequences of 131072 tokens/),
  });
  expect(named(long, "shorter").cost).toBeLessThan(1);
});

test("advice has what plans of the engine have: its drafts, its weight types, its speed", () => {
  const on = (engine: PlanRequest["engine"]) => request("llama-3.1-8b", "h100", { engine });
  expect(named(on("vllm"), "speculative").cost).toBeLessThan(0.9);
  expect(named(on("tgi"), "speculative")).toMatchObject({
    cost: undefined,
    note: expect.stringMatching(/none are planned for tgi/),
  });
  expect(named(on("llama-server"), "8-bit").name).toMatch(/Q8_0/);
  expect(named(on("llama-server"), "4-bit")).toMatchObject({
    name: expect.stringMatching(/Q4_K_M/),
    note: expect.stringMatching(/beside BF16/),
  });
  // A shared prefix would make the planner choose SGLang, whose speed is no gain of the KV cache.
  expect(named(on(undefined), "KV cache").cost).toBe(named(on("vllm"), "KV cache").cost);
});

test("advice says when not to: for quality, for money, and for simple tasks", () => {
  const of = request("llama-3.3-70b", "h100x8", { load: { concurrency: 1 } });
  const { order, notTo } = advise(of, "quality")!;
  expect(order).toEqual([]);
  expect(notTo.join()).toMatch(
    /better model.*do not serve this load yourself for the money.*API.*batch work.*llama-3\.1-8b/,
  );
  // The named bottleneck decides, whatever the objective.
  expect(advise(of, "latency")!.notTo.join()).not.toMatch(/batch work/);
});

test("a month's money is divided without rest, and goes from holding weights to work as tokens grow", () => {
  const scales = scalesOf(request("llama-3.3-70b", "h100x2"));
  expect(scales.map(({ tokensPerDay }) => tokensPerDay)).toEqual([1e6, 1e8, 1e9]);
  for (const { split, usdPerMonth, numMachines, tokensPerDay, usdPerThousandRequests } of scales) {
    const shares = Object.values(split);
    expect(shares.reduce((sum, each) => sum + each, 0)).toBeCloseTo(1);
    for (const share of shares) expect(share).toBeGreaterThanOrEqual(-1e-9);
    expect(usdPerMonth).toBeCloseTo(numMachines * 2 * GPU_HOUR.h100!.usd * 730);
    const requestsPerMonth = (tokensPerDay / 1536) * (730 / 24);
    expect(usdPerThousandRequests).toBeCloseTo((usdPerMonth / requestsPerMonth) * 1000);
  }
  const [least, , most] = scales;
  expect(least!.split.capacity).toBeGreaterThan(0.9);
  // The busiest hour has three times the mean's requests, also with one machine.
  for (const { split } of scales) {
    const used = split.arithmetic + split.bandwidth + split.linksAndHost;
    expect(split.idle / used).toBeCloseTo(2);
  }
  expect(most!.split.capacity).toBeLessThan(0.1);
  expect(most!.vanillaUsdPerMonth!).toBeGreaterThan(most!.usdPerMonth);
  const months = scales.map(({ distillation }) => distillation!.months);
  expect(months[2]).toBeLessThan(months[0]!);
  expect(scales.map(({ distillation }) => distillation!.isWorthIt)).toEqual(months.map((each) => each <= 3));
  expect(least!.distillation!.isWorthIt).not.toBe(most!.distillation!.isWorthIt);
});

test.each([
  ["llama-3.3-70b", "h100x2", {}],
  ["llama-3.3-70b", "h100x2", { slo: { tpotMs: 15 } }],
  ["llama-3.3-70b", "h100x2", { inputTokens: 4000, outputTokens: 16 }],
  ["llama-3.3-70b", "h100x2", { prefixShare: 0.8 }],
  ["llama-3.1-8b", "l40sx4", { load: { concurrency: 256 } }],
  ["llama-3.1-8b", "cpu-16", {}],
] as const)("what a request of %s on %s takes is what the machine is predicted to give: %o", (model, machine, more) => {
  const asked = request(model, machine, more);
  const best = makePlan(asked).configurations[0]!;
  const seconds = Object.values(busySeconds(asked, best)).reduce((sum, each) => sum + each, 0);
  const ratio = (seconds * capacityOf(asked, best).requestsPerS) / best.instances;
  expect(ratio).toBeGreaterThan(0.95);
  expect(ratio).toBeLessThan(1.05);
});

test("a vanilla engine is as full as the targets let it be, on speeds that are calibrated alike", () => {
  const vanilla = (more: Partial<PlanRequest>) => scalesOf(request("llama-3.3-70b", "h100x2", more)).at(-1)!;
  const plain = vanilla({}).vanillaUsdPerMonth!;
  // A target that every load keeps changes nothing.
  expect(vanilla({ slo: { ttftMs: 1e9 } }).vanillaUsdPerMonth).toBe(plain);
  const efficiencies = defaultEfficiencies(request("llama-3.3-70b", "h100").machine, QUANTIZATIONS.bf16);
  const half = {
    ...efficiencies,
    memoryShare: efficiencies.memoryShare / 2,
    computeShare: efficiencies.computeShare / 2,
  };
  expect(vanilla({ efficiencies: half }).vanillaUsdPerMonth! / plain).toBeGreaterThan(1.5);
  // A wider instance keeps the targets that two GPUs miss, for no less; and none keeps a millisecond.
  expect(vanilla({ slo: { tpotMs: 15 } }).vanillaUsdPerMonth).toBeGreaterThanOrEqual(plain);
  expect(vanilla({ slo: { tpotMs: 1 } })).toMatchObject({
    vanillaUsdPerMonth: undefined,
    whyNoVanilla: "misses targets",
  });
});

test("requests that come faster than the machine serves are reckoned as many as it holds, not as an endless wait", () => {
  const { load, techniques } = advise(request("llama-3.1-8b", "h100", { load: { requestsPerS: 100 } }), "latency")!;
  expect(load).toEqual({ concurrency: expect.any(Number) });
  for (const { name, latency } of techniques) expect(latency, name).toBeGreaterThan(0);
  for (const { name, latency } of techniques) expect(latency, name).toBeLessThan(100);
  const slow = { load: { requestsPerS: 0.1 } };
  expect(advise(request("llama-3.1-8b", "h100", slow), "latency")!.load).toEqual(slow.load);
});
