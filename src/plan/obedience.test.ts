/**
 * A plan obeys itself: no alternative that it shows is better in every figure, and every reason holds in the numbers
 * that it names.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { cases, someOf } from "../../test/helpers/long.js";
import { planRequest } from "../../test/helpers/plan-request.js";
import { KV_TYPES, QUANTIZATIONS } from "./data/quantizations.js";
import { type Evaluation, evaluate } from "./evaluate.js";
import { fits, instanceFor } from "./fitting.js";
import { makePlan } from "./plan.js";
import { eagle3Drafting, predict } from "./predict.js";
import {
  type Choice,
  type Configuration,
  type ConfigurationKey,
  OBJECTIVES,
  type Plan,
  type PlanRequest,
} from "./request.js";
import { sharingOf } from "./sharing.js";

/** Model, machine, requests at once, and targets: 30 pairs, each planned for every objective. */
const PAIRS: readonly (readonly [string, string, number, PlanRequest["slo"]?])[] = [
  ["llama-3.3-70b", "h100x2", 16],
  ["llama-3.3-70b", "h100x8", 256],
  ["llama-3.3-70b", "h100x4", 16, { ttftMs: 200, tpotMs: 33 }],
  ["llama-3.3-70b", "a100-80x4", 64],
  ["llama-3.3-70b", "a100-40x2", 8],
  ["llama-3.3-70b", "l40sx4", 16, { tpotMs: 33 }],
  ["llama-3.3-70b", "h200x2", 128],
  ["llama-3.3-70b", "b200", 1],
  ["llama-3.3-70b", "mi300xx2", 32],
  ["llama-3.1-8b", "h100", 64],
  ["llama-3.1-8b", "h100x8", 1024],
  ["llama-3.1-8b", "h100x8", 16],
  ["llama-3.1-8b", "a10g", 16, { tpotMs: 33 }],
  ["llama-3.1-8b", "l40s", 180],
  ["llama-3.1-8b", "l40sx4", 64, { ttftMs: 500, tpotMs: 40 }],
  ["llama-3.1-8b", "rtx4090", 1],
  ["llama-3.1-8b", "rtx4000-adax4", 32],
  ["llama-3.1-8b", "cpu-16", 4],
  ["llama-3.1-8b", "a100-80", 256, { tpotMs: 1 }],
  ["qwen2.5-32b", "h100", 64],
  ["qwen2.5-32b", "a100-80x2", 16, { tpotMs: 33 }],
  ["qwen2.5-32b", "rtx6000-adax2", 16],
  ["qwen2.5-7b", "l40s", 400],
  ["qwen3-30b-a3b", "h100x8", 32],
  ["qwen3-235b-a22b", "h200x8", 128],
  ["mixtral-8x7b", "h100x4", 48],
  ["gpt-oss-20b", "a10gx2", 16],
  ["gemma3-27b", "l40sx2", 16],
  ["phi-4", "a100-40", 24],
  ["deepseek-v3", "h200x8", 64],
];

const requestFor = (
  [model, hardware, concurrency, slo = {}]: (typeof PAIRS)[number],
  objective: PlanRequest["objective"],
): PlanRequest => planRequest(model, hardware, { slo, objective, load: { concurrency } });

/** Each figure is better when smaller. */
const figuresOf = ({ prediction, cost }: Pick<Evaluation, "prediction" | "cost">): readonly number[] => [
  prediction.ttftMs,
  prediction.ttftP95Ms,
  prediction.tpotMs,
  -prediction.outputTokensPerS,
  cost.usdPerMillionOutput,
  cost.usdPerMillionTotal,
];

function dominates(a: readonly number[], b: readonly number[]): boolean {
  return a.every((value, i) => value <= b[i]!) && a.some((value, i) => value < b[i]!);
}

const VALUE: Readonly<Record<string, (request: PlanRequest, evaluation: Evaluation) => number>> = {
  "tokens/s": (_, { prediction }) => prediction.outputTokensPerS,
  "$/M output tokens": (_, { cost }) => cost.usdPerMillionOutput,
  "ms a request": ({ outputTokens }, { prediction }) => prediction.ttftMs + outputTokens * prediction.tpotMs,
  "ms to the first token": (_, { prediction }) => prediction.ttftMs,
  "ms to the first token, p95": (_, { prediction }) => prediction.ttftP95Ms,
  "times its targets": ({ slo }, { prediction, misses }) =>
    misses.length === 0
      ? 0
      : Math.max(
          slo.ttftMs === undefined ? 0 : prediction.ttftP95Ms / slo.ttftMs,
          slo.tpotMs === undefined ? 0 : prediction.tpotMs / slo.tpotMs,
        ),
};

/** Evaluates again the configuration that a reason names. */
function evaluationOf(plan: Plan, { weights, kv, drafts, ...shape }: ConfigurationKey): Evaluation {
  const { request, configurations, requiredLength } = plan;
  const { engine } = configurations[0]!;
  const quantization =
    configurations.find((each) => each.quantization.id === weights)?.quantization ?? QUANTIZATIONS[weights];
  const drafting = drafts === 0 ? undefined : eagle3Drafting(instanceFor(request, quantization, 1));
  const candidate = { engine, quantization, kv: KV_TYPES[kv], ...shape, drafting };
  return evaluate(request, candidate, requiredLength)!;
}

const keyOf = (configuration: Configuration): ConfigurationKey => ({
  weights: configuration.quantization.id,
  kv: configuration.kv.id,
  ...sharingOf(configuration),
  instances: configuration.instances,
  drafts: configuration.drafting?.depth ?? 0,
});

const numbersIn = (text: string): number[] =>
  (text.match(/\d[\d,]*(\.\d+)?/g) ?? []).map((number) => Number(number.replaceAll(",", "")));

/** The figures are those of the two configurations, and the sentence prints each on its side. */
function expectHolds(plan: Plan, { because, versus }: Pick<Choice, "because" | "versus">): void {
  if (versus === undefined) return;
  const value = VALUE[versus.figure]!;
  const [left = "", right] = because.split(" against ");
  const isPrinted = (figure: number, numbers: readonly number[]): boolean =>
    !Number.isFinite(figure) ||
    numbers.some((number) => Math.abs(number - figure) <= Math.max(0.5, 0.006 * figure) && number > 0 === figure > 0);
  for (const [key, figure] of [
    [versus.of, versus.mine],
    [versus.with, versus.other],
  ] as const) {
    // Where requests come faster than they are served, latency misses its target without bound.
    if (figure > 1e14) continue;
    expect(value(plan.request, evaluationOf(plan, key)) / figure || 1, because).toBeCloseTo(1, 9);
  }
  if (right === undefined) return;
  expect(isPrinted(versus.mine, numbersIn(left)), because).toBe(true);
  expect(isPrinted(versus.other, numbersIn(right).slice(0, 1)), because).toBe(true);
}

/** A comparison of the winning configuration favours it: the winner is better in the first figure that differs. */
function expectWins(plan: Plan, choice: Choice): void {
  const { versus, because } = choice;
  // A combination that a rule left out may be better, and the reason says by how little.
  if (versus === undefined || because.includes("must win")) return;
  expect(versus.of, because).toEqual(keyOf(plan.configurations[0]!));
  const isMoreBetter = versus.figure === "tokens/s";
  const isBetter = isMoreBetter ? versus.mine >= versus.other : versus.mine <= versus.other;
  expect(isBetter || because.includes("which this misses"), `${choice.about}: ${because}`).toBe(true);
  if (because.includes("within a thousandth") || because.includes("more requests come than either serves")) return;
  const aim = { throughput: "tokens/s", cost: "$/M output tokens", latency: "ms a request" }[plan.request.objective];
  expect([aim, "times its targets"], because).toContain(versus.figure);
}

describe.each(someOf(PAIRS, 10).map((pair) => ({ name: pair.slice(0, 3).join(", "), pair })))("$name at once", ({
  pair,
}) => {
  test.each(OBJECTIVES)("%s", (objective) => {
    const plan = makePlan(requestFor(pair, objective));
    const [first, ...others] = plan.configurations as [Configuration, ...Configuration[]];
    const own = figuresOf(first);
    const better = others.filter((other) => dominates(figuresOf(other), own));
    expect(better.map((other) => JSON.stringify(keyOf(other)))).toEqual([]);
    if (others.some(({ meetsSlo }) => meetsSlo)) expect(first.meetsSlo).toBe(true);
    // Also by the objective, no alternative within the targets is better by more than the tolerance.
    const aim = { throughput: 3, cost: 4, latency: undefined }[objective];
    const aimOf = (each: Configuration): number =>
      aim === undefined ? each.prediction.ttftMs + 512 * each.prediction.tpotMs : figuresOf(each)[aim]!;
    for (const other of others.filter(({ meetsSlo }) => meetsSlo === first.meetsSlo && meetsSlo)) {
      expect(aimOf(first)).toBeLessThanOrEqual(aimOf(other) + Math.abs(aimOf(other)) * 0.002);
    }
    for (const choice of first.choices) {
      expectHolds(plan, choice);
      expectWins(plan, choice);
    }
    for (const refusal of plan.refusals) expectHolds(plan, refusal);
    for (const row of others.slice(0, 3)) for (const choice of row.choices) expectHolds(plan, choice);
  });
});

test("what drafts, narrow keys and other shapes would give is in the reasons of the winner", () => {
  const [first] = makePlan(requestFor(["llama-3.3-70b", "h100x8", 256], "throughput")).configurations;
  const compared = first!.choices.filter(({ versus }) => versus !== undefined).map(({ about }) => about);
  expect(compared).toEqual(["weights", "GPUs an instance", "instances", "KV memory", "speculation"]);
});

test("what is left out says by how little it wins, in its own figures", () => {
  const plan = makePlan(requestFor(["llama-3.3-70b", "h100x2", 16], "throughput"));
  const refusal = plan.refusals.find(({ what }) => what.startsWith("keys and values"))!;
  const { mine, other } = refusal.versus!;
  expect(mine / other).toBeLessThan(1.1);
  expect(refusal.because).toContain(Math.round(mine).toLocaleString("en-US"));
});

describe("what just fits is planned", () => {
  test("8B in 16 bits with 32,000 tokens on 24 GB: with smaller steps, not refused with a hint at itself", () => {
    const request: PlanRequest = {
      ...requestFor(["llama-3.1-8b", "a10g", 16], "throughput"),
      maxModelLen: 32_000,
      quantization: "bf16",
    };
    const { configurations } = makePlan(request);
    expect(configurations.length).toBeGreaterThan(0);
    expect(configurations[0]!.memory.kvBytes).toBeGreaterThan(0);
  });

  const lengths = [1024, 4096, 16_000, 24_000, 30_000, 32_000, 33_000, 34_000, 36_000, 48_000, 100_000, 131_072];
  test.each(lengths)("%i tokens: judged as it is said to fit", (maxModelLen) => {
    for (const hardware of ["a10g", "l40s", "rtx4000-ada", "h100"]) {
      for (const concurrency of [1, 16, 4096]) {
        for (const drafts of [false, true]) {
          const request = requestFor(["llama-3.1-8b", hardware, concurrency], "throughput");
          const instance = instanceFor(request, QUANTIZATIONS.bf16, 1);
          const drafting = drafts ? eagle3Drafting(instance) : undefined;
          const candidate = {
            engine: "vllm",
            quantization: QUANTIZATIONS.bf16,
            kv: KV_TYPES["16"],
            tensorParallel: 1,
          } as const;
          const evaluation = evaluate(
            { ...request, inputTokens: 512 },
            { ...candidate, instances: 1, drafting },
            maxModelLen,
          );
          const smallest = { maxNumBatchedTokens: 512, maxNumSeqs: 1 };
          expect(evaluation !== undefined).toBe(fits(instance, maxModelLen, smallest, drafting));
          if (evaluation === undefined) continue;
          expect(evaluation.seats).toBeGreaterThan(0);
          expect(evaluation.memory.kvBytes).toBeGreaterThan(0);
        }
      }
    }
  });
});

test("the step and the sequences that are printed are those that are predicted with", () => {
  for (const [objective, tpotMs] of [
    ["throughput", 12],
    ["latency", undefined],
    ["cost", 20],
  ] as const) {
    const concurrency = 60;
    const inputTokens = 6000;
    const plan = makePlan({
      ...requestFor(["llama-3.1-8b", "h100x2", concurrency, { tpotMs }], objective),
      inputTokens,
    });
    for (const {
      quantization,
      kv,
      tensorParallel,
      instances,
      drafting,
      seats,
      options,
      prediction,
    } of plan.configurations) {
      const instance = { ...instanceFor(plan.request, quantization, tensorParallel), kv };
      const traffic = {
        inputTokens,
        outputTokens: 512,
        prefixHit: 0,
        load: { concurrency: concurrency / instances },
      };
      const limits = { seats, maxNumBatchedTokens: options.maxNumBatchedTokens };
      const own = predict(instance, traffic, limits, drafting);
      expect(own.outputTokensPerS * instances).toBeCloseTo(prediction.outputTokensPerS, 6);
      expect(own.ttftP95Ms).toBeCloseTo(prediction.ttftP95Ms, 6);
      expect(options.maxNumSeqs).toBeLessThanOrEqual(seats);
      expect(options.maxNumSeqs * (2 + (drafting?.depth ?? 0))).toBeLessThanOrEqual(options.maxNumBatchedTokens);
    }
  }
});

test("whatever the traffic: nothing dominates the first row, and all figures are numbers", () => {
  fc.assert(
    fc.property(
      fc.constantFrom("llama-3.1-8b", "llama-3.3-70b", "qwen3-30b-a3b", "gemma-2-9b"),
      fc.constantFrom("h100", "l40sx2", "a100-80x4", "cpu-16"),
      fc.constantFrom(...OBJECTIVES),
      fc.oneof(
        fc.record({ concurrency: fc.constantFrom(1, 7, 4096) }),
        fc.record({ requestsPerS: fc.constantFrom(1e-6, 3, 1e6) }),
      ),
      fc.record({ inputTokens: fc.constantFrom(1, 900, 7000), outputTokens: fc.constantFrom(1, 200, 1100) }),
      fc.constantFrom(0, 0.7, 1),
      fc.constantFrom({}, { tpotMs: 20 }, { ttftMs: 0.001, tpotMs: 0.001 }),
      (model, hardware, objective, load, lengths, prefixShare, slo) => {
        const plan = makePlan({
          ...requestFor([model, hardware, 1], objective),
          ...lengths,
          load,
          prefixShare,
          slo,
        });
        const [first, ...others] = plan.configurations;
        if (first === undefined) return;
        const own = figuresOf(first);
        expect(own.filter(Number.isNaN)).toEqual([]);
        const better = others.filter((other) => dominates(figuresOf(other), own));
        expect(better.map((other) => JSON.stringify(keyOf(other)))).toEqual([]);
        for (const { because } of first.choices) expect(because).not.toMatch(/NaN|undefined|Infinity|\d\.\d{6}/);
        for (const choice of first.choices) expectWins(plan, choice);
      },
    ),
    { seed: 7, numRuns: cases(15, 40) },
  );
});

test("what does not fit is never told to fit on the same machine", () => {
  for (const [model, hardware] of [
    ["llama-3.1-8b", "a10g"],
    ["llama-3.3-70b", "h100"],
    ["qwen2.5-32b", "rtx4090"],
    ["deepseek-v3", "h100x8"],
  ] as const) {
    for (const maxModelLen of [8192, 16_384, 32_000]) {
      const request = { ...requestFor([model, hardware, 16], "cost"), maxModelLen };
      const plan = makePlan({ ...request, quantization: model === "deepseek-v3" ? undefined : "bf16" });
      if (plan.configurations.length > 0) continue;
      const { device, count } = request.machine;
      expect(plan.nearest.join("; ")).not.toContain(`--hardware ${device.id}x${count})`);
    }
  }
});
