/** Properties of every prediction, whatever the constants. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Gpu, Machine } from "./data/device.js";
import { KNOWN_MODELS } from "./data/models.js";
import { KV_TYPES, QUANTIZATIONS } from "./data/quantizations.js";
import { findGpu, parseHardware } from "./hardware.js";
import { knownModel, plannedModelOf } from "./known-model.js";
import { planMemory, seatsOf } from "./memory.js";
import { expectedTokens, predict } from "./predict.js";
import { DECODE, defaultEfficiencies, type PlannedInstance, stepTime } from "./step-time.js";

const H100 = findGpu("h100")!;

function instanceOn(device: Gpu, modelName = "llama-3.1-8b", tensorParallel = 1): PlannedInstance {
  const machine: Machine = { kind: "gpu", device, count: 8 };
  const quantization = QUANTIZATIONS.fp8;
  return {
    model: knownModel(modelName),
    quantization,
    kv: KV_TYPES["16"],
    machine,
    tensorParallel,
    efficiencies: defaultEfficiencies(machine, quantization),
  };
}

/**
 * Leaves out loads where the model is rough (docs/background/planning.md): answers of a few tokens mostly wait for
 * whole steps of prompts, where the curve's kink (HAIR) is up to a tenth of their time; a prompt that just fills a step
 * takes two steps beside more sequences.
 */
const requests = fc.record({
  inputTokens: fc.integer({ min: 1, max: 7500 }),
  outputTokens: fc.integer({ min: 64, max: 2000 }),
  prefixHit: fc.double({ min: 0, max: 1, noNaN: true }),
});
const loads = fc.integer({ min: 1, max: 300 });
const models = fc.constantFrom(...KNOWN_MODELS.map(({ name }) => name));
const LIMITS = { seats: 256, maxNumBatchedTokens: 8192 };
/** Bisection ends at a hair's breadth, and the curve has a kink where prompts begin to share steps. */
const HAIR = 1.01;
/** Where prompts are all the work, sequences that wait between them cost a little time. */
const CROWD = 1.15;

test("all figures are positive and finite, and 95 of 100 wait no less than the mean", () => {
  fc.assert(
    fc.property(models, requests, loads, (model, request, concurrency) => {
      const prediction = predict(instanceOn(H100, model), { ...request, load: { concurrency } }, LIMITS);
      for (const value of [
        prediction.ttftMs,
        prediction.tpotMs,
        prediction.outputTokensPerS,
        prediction.requestsPerS,
      ]) {
        expect(value).toBeGreaterThan(0);
        expect(value).toBeLessThan(Number.POSITIVE_INFINITY);
      }
      expect(prediction.ttftP95Ms).toBeGreaterThanOrEqual(prediction.ttftMs * (1 - 1e-9));
    }),
    { numRuns: 100 },
  );
});

test("more bandwidth, and more arithmetic, are never slower", () => {
  fc.assert(
    fc.property(
      models,
      requests,
      loads,
      fc.double({ min: 1, max: 4, noNaN: true }),
      (model, request, concurrency, factor) => {
        const traffic = { ...request, load: { concurrency } };
        const before = predict(instanceOn(H100, model), traffic, LIMITS);
        const faster: readonly Gpu[] = [
          { ...H100, bytesPerS: H100.bytesPerS * factor },
          { ...H100, flops: { float16: H100.flops.float16! * factor, fp8: H100.flops.fp8! * factor } },
        ];
        for (const device of faster) {
          const after = predict(instanceOn(device, model), traffic, LIMITS);
          expect(after.outputTokensPerS * HAIR).toBeGreaterThanOrEqual(before.outputTokensPerS);
        }
      },
    ),
    { numRuns: 100 },
  );
});

test("more memory never holds fewer sequences", () => {
  fc.assert(
    fc.property(
      models,
      fc.integer({ min: 1, max: 8 }),
      fc.integer({ min: 1, max: 30_000 }),
      (model, factor, numTokens) => {
        const demand = { maxNumBatchedTokens: 8192, maxNumSeqs: 64 };
        const seats = (device: Gpu): number => {
          const instance = instanceOn(device, model);
          return seatsOf(instance, planMemory(instance, demand), numTokens, 0);
        };
        expect(seats({ ...H100, memoryBytes: H100.memoryBytes * factor })).toBeGreaterThanOrEqual(seats(H100));
      },
    ),
  );
});

test("memory's parts add up", () => {
  const memory = planMemory(instanceOn(H100), { maxNumBatchedTokens: 8192, maxNumSeqs: 64 });
  const { totalBytes, ...parts } = memory;
  expect(Object.values(parts).reduce((sum, bytes) => sum + bytes, 0)).toBeCloseTo(totalBytes, -1);
});

test("more requests at once: no fewer tokens in all, no more for each", () => {
  fc.assert(
    fc.property(requests, loads, fc.integer({ min: 1, max: 100 }), (request, concurrency, more) => {
      const [few, many] = [concurrency, concurrency + more].map((count) =>
        predict(instanceOn(H100), { ...request, load: { concurrency: count } }, LIMITS),
      );
      expect(many!.outputTokensPerS * CROWD).toBeGreaterThanOrEqual(few!.outputTokensPerS);
      expect(many!.tpotMs * HAIR).toBeGreaterThanOrEqual(few!.tpotMs);
    }),
    { numRuns: 100 },
  );
});

test("a closed load keeps Little's law: requests at once are the rate times the time each takes", () => {
  fc.assert(
    fc.property(requests, loads, (request, concurrency) => {
      const { requestsPerS, ttftMs, tpotMs } = predict(instanceOn(H100), { ...request, load: { concurrency } }, LIMITS);
      const seconds = (ttftMs + tpotMs * (request.outputTokens - 1)) / 1000;
      expect(requestsPerS * seconds).toBeCloseTo(concurrency, 1);
    }),
    { numRuns: 100 },
  );
});

test("an open load is served at its rate, or said to be too much", () => {
  const traffic = { inputTokens: 1000, outputTokens: 200, prefixHit: 0 };
  const calm = predict(instanceOn(H100), { ...traffic, load: { requestsPerS: 5 } }, LIMITS);
  expect(calm.requestsPerS).toBeCloseTo(5, 3);
  expect(calm.isSaturated).toBe(false);
  const flood = predict(instanceOn(H100), { ...traffic, load: { requestsPerS: 5000 } }, LIMITS);
  expect(flood).toMatchObject({ isSaturated: true, ttftMs: Number.POSITIVE_INFINITY });
});

test("a prefix that is cached shortens the time to first token", () => {
  const traffic = { inputTokens: 4000, outputTokens: 200, load: { concurrency: 8 } };
  const [cold, warm] = [0, 0.9].map((prefixHit) => predict(instanceOn(H100), { ...traffic, prefixHit }, LIMITS));
  expect(warm!.ttftMs).toBeLessThan(cold!.ttftMs / 2);
});

test("drafts give the sum of a geometric series, and win while memory binds", () => {
  const drafting = { depth: 3, acceptance: 0.5, weightShare: 0.02, weightBytes: 1e8 };
  expect(expectedTokens(drafting)).toBe(1 + 0.5 + 0.25 + 0.125);
  expect(expectedTokens({ ...drafting, acceptance: 1 })).toBe(4);
  const traffic = { inputTokens: 100, outputTokens: 500, prefixHit: 0, load: { concurrency: 1 } };
  const [plain, drafted] = [undefined, drafting].map((each) => predict(instanceOn(H100), traffic, LIMITS, each));
  expect(drafted!.tpotMs).toBeLessThan(plain!.tpotMs / 1.3);
});

test("sharing layers costs all-reduces: less over NVLink than over PCIe", () => {
  const work = { ...DECODE, numDecoding: 16, context: 1000 };
  const [alone, nvlink] = [1, 4].map((width) => stepTime(instanceOn(H100, "llama-3.3-70b", width), work));
  const pcie = stepTime(instanceOn(findGpu("l40s")!, "llama-3.3-70b", 4), work);
  expect(alone!.allReduceSeconds).toBe(0);
  expect(nvlink!.allReduceSeconds).toBeGreaterThan(0);
  expect(pcie.allReduceSeconds).toBeGreaterThan(2 * nvlink!.allReduceSeconds);
});

test("decode waits for memory, a long prompt for arithmetic", () => {
  const instance = instanceOn(H100);
  expect(stepTime(instance, { ...DECODE, numDecoding: 1, context: 1000 }).bound).toBe("memory");
  expect(stepTime(instance, { ...DECODE, numDecoding: 1, context: 1000, numPromptTokens: 4096 }).bound).toBe(
    "arithmetic",
  );
});

test("every known model has a shape that predicts", () => {
  for (const model of KNOWN_MODELS.map(plannedModelOf)) {
    const instance = { ...instanceOn(H100), model };
    expect(stepTime(instance, { ...DECODE, numDecoding: 1, context: 100 }).totalSeconds, model.name).toBeGreaterThan(0);
  }
});

test("a pipeline gives a request alone the speed of one stage, and many requests more", () => {
  const machine = parseHardware("a100-80x2");
  const quantization = QUANTIZATIONS.int8;
  const efficiencies = defaultEfficiencies(machine, quantization);
  const model = knownModel("llama-3.1-70b");
  const one = { model, quantization, kv: KV_TYPES["16"], machine, tensorParallel: 1, efficiencies };
  const two = { ...one, pipelineParallel: 2 };
  const demand = { maxNumBatchedTokens: 8192, maxNumSeqs: 256 };
  const speed = (instance: typeof two | typeof one, concurrency: number, seats: number) =>
    predict(
      instance,
      { inputTokens: 512, outputTokens: 512, prefixHit: 0, load: { concurrency } },
      { seats, maxNumBatchedTokens: 8192 },
    ).outputTokensPerS;
  expect(speed(two, 1, 8)).toBe(speed(one, 1, 8));
  expect(speed(two, 64, 64)).toBeCloseTo(2 * speed(one, 32, 32));
  // Each stage has half of the weights, which leaves room for more than twice the sequences.
  expect(planMemory(two, demand).weightBytes).toBe(planMemory(one, demand).weightBytes / 2);
  expect(seatsOf(two, planMemory(two, demand), 1024, 0)).toBeGreaterThan(
    2 * seatsOf(one, planMemory(one, demand), 1024, 0),
  );
});
