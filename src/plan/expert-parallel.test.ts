/** Whole experts on GPUs, attention in groups, and layers on several hosts: properties of their arithmetic. */
import { expect, test } from "vitest";
import { planRequest as request } from "../../test/helpers/plan-request.js";
import { totalParameters, weightBytes } from "../model/description/sizes.js";
import { KV_TYPES, QUANTIZATIONS } from "./data/quantizations.js";
import { expertLoad } from "./expert-load.js";
import { instanceOf } from "./fitting.js";
import { knownModel } from "./known-model.js";
import { sharingsOf } from "./layouts.js";
import { planMemory } from "./memory.js";
import { makePlan } from "./plan.js";
import { predict } from "./predict.js";
import type { PlanRequest } from "./request.js";
import { devicesOf, type Sharing, sharingText } from "./sharing.js";
import { DECODE, stepTime } from "./step-time.js";

const GROUPS = { tensorParallel: 1, dataParallel: 8, hasWholeExperts: true } as const;
const WHOLE = { tensorParallel: 8, hasWholeExperts: true } as const;
const CUT = { tensorParallel: 8 } as const;

const instanceFor = (asked: PlanRequest, sharing: Sharing) =>
  instanceOf(asked, { quantization: QUANTIZATIONS.fp8, kv: KV_TYPES["16"], ...sharing });

const shapes = (asked: PlanRequest): string[] => makePlan(asked).configurations.map(sharingText);

test("the fullest of eight GPUs has a multiple of a row's experts, and of many rows' about the mean", () => {
  const experts = { kind: "experts", count: 256, active: 8, width: 1, sharedWidth: 0 } as const;
  expect(expertLoad(experts, 1, 8).read).toBeCloseTo(3, 0);
  expect(expertLoad(experts, 4096, 8)).toMatchObject({ read: 1, rows: expect.closeTo(1.01, 1) });
  expect(expertLoad(experts, 64, 1)).toEqual({ read: 1, rows: 1 });
});

test("each GPU has its group's part of the weights, and its share of the experts", () => {
  const asked = request("deepseek-v3", "h200x8");
  const demand = { maxNumBatchedTokens: 512, maxNumSeqs: 1 };
  const weightsOf = (sharing: Sharing) => planMemory(instanceFor(asked, sharing), demand).weightBytes;
  const all = weightBytes(asked.model, QUANTIZATIONS.fp8);
  expect(weightsOf(CUT)).toBeCloseTo(all / 8, -6);
  expect(weightsOf(WHOLE)).toBe(weightsOf(CUT));
  // 58 layers of 256 experts of 3 × 7168 × 2048 are 654 of its 671 billion parameters.
  const inExperts = 58 * 256 * 3 * 7168 * 2048;
  const others = totalParameters(asked.model) - inExperts;
  expect(inExperts / 1e9).toBeCloseTo(653.9, 1);
  expect(weightsOf(GROUPS)).toBeGreaterThan(inExperts / 8 + others);
  expect(weightsOf(GROUPS)).toBeLessThan(inExperts / 8 + 1.2 * others);
});

test("groups keep keys of a latent width once where cut attention keeps them on every GPU", () => {
  const asked = request("deepseek-v3", "h200x8", { load: { concurrency: 1024 } });
  const seatsOf = (shape: string) => makePlan(asked).configurations.find((each) => sharingText(each) === shape)!.seats;
  expect(seatsOf("TP2 DP4 EP8")).toBeGreaterThan(2.5 * seatsOf("TP8"));
});

test("cut experts serve one request faster, groups serve many", () => {
  const asked = request("qwen3-235b-a22b", "h200x8");
  const speed = (sharing: Sharing, concurrency: number) => {
    const traffic = { inputTokens: 1024, outputTokens: 512, prefixHit: 0, load: { concurrency } };
    const limits = { seats: 1024, maxNumBatchedTokens: 8192 };
    return predict(instanceFor(asked, sharing), traffic, limits).outputTokensPerS;
  };
  expect(speed(CUT, 1)).toBeGreaterThan(speed(GROUPS, 1));
  expect(speed({ tensorParallel: 4, dataParallel: 2, hasWholeExperts: true }, 1024)).toBeGreaterThan(speed(CUT, 1024));
});

test("rows exchanged with the experts' GPUs are half of what cut layers sum, and nothing without links", () => {
  const asked = request("qwen3-235b-a22b", "h200x8");
  const links = (sharing: Sharing, numDecoding: number) =>
    stepTime(instanceFor(asked, sharing), { ...DECODE, numDecoding, context: 1 }).allReduceSeconds;
  const latency = links(CUT, 1e-9);
  const bytesOfCut = links(CUT, 8000) - latency;
  const bytesOfGroups = links(GROUPS, 1000) - links(GROUPS, 1e-9);
  expect(bytesOfGroups / bytesOfCut).toBeCloseTo(0.5, 2);
  expect(links({ tensorParallel: 1 }, 8000)).toBe(0);
});

test("eight GPUs take a model whose experts cannot be cut into eight through a block of scales", () => {
  const asked = request("qwen3-30b-a3b", "l40sx8", { quantization: "fp8", engine: "vllm" });
  const sharings = sharingsOf(asked, "vllm", QUANTIZATIONS.fp8).filter((each) => devicesOf(each) === 8);
  expect(sharings.length).toBeGreaterThan(0);
  expect(sharings.every(({ hasWholeExperts }) => hasWholeExperts === true)).toBe(true);
});

test("dense models, CPUs and engines without it have no whole experts; TensorRT-LLM has one or all groups", () => {
  const has = (asked: PlanRequest): boolean => shapes(asked).some((shape) => shape.includes("EP"));
  expect(has(request("llama-3.3-70b", "h200x8"))).toBe(false);
  expect(has(request("qwen3-30b-a3b", "cpu-32"))).toBe(false);
  expect(has(request("mixtral-8x7b", "h100x8", { engine: "tgi" }))).toBe(false);
  const trt = shapes(request("deepseek-v3", "h200x8", { engine: "tensorrt-llm" }));
  expect(trt).toContain("TP1 DP8 EP8");
  expect(trt.some((shape) => /^TP[24] DP/.test(shape))).toBe(false);
});

test("the reason for whole experts has both layouts' times of a step", () => {
  const [best] = makePlan(request("deepseek-v3", "h200x8", { load: { concurrency: 512 } })).configurations;
  expect(best).toMatchObject({ hasWholeExperts: true, options: { enableExpertParallel: true } });
  const { choice, because } = best!.choices.find(({ about }) => about === "experts")!;
  expect(choice).toMatch(/of 256 on each GPU \(expert parallel\); attention in \d groups/);
  expect(because).toMatch(/tokens\/s against .* with 1 × TP8\. A step of the load: [\d.]+ ms for weights.*Predicted/);
});

test("a model that no host holds is planned on as few hosts as hold it", () => {
  const asked = request("deepseek-v3", "h100x8", { hosts: 4 });
  const [best] = makePlan(asked).configurations;
  expect(best).toMatchObject({ pipelineParallel: 2, tensorParallel: 8, instances: 1 });
  expect(best!.cost.usdPerHour).toBeCloseTo(16 * asked.price.usd);
  expect(best!.choices.find(({ about }) => about === "hosts")!.because).toMatch(/400 Gbit\/s.*assumed/);
  expect(best!.needs.join()).toMatch(/2 hosts/);
  const slow = makePlan({ ...asked, networkBytesPerS: 1e9 / 8 }).configurations[0]!;
  expect(slow.prediction.ttftMs).toBeGreaterThan(1.5 * best!.prediction.ttftMs);
});

test("a model that one host holds is not spread over several", () => {
  expect(shapes(request("llama-3.3-70b", "h100x8", { hosts: 4 })).join()).not.toContain("PP");
  expect(knownModel("llama-3.3-70b").layers.length).toBe(80);
});
