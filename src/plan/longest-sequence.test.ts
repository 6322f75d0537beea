import fc from "fast-check";
import { expect, test } from "vitest";
import { planRequest } from "../../test/helpers/plan-request.js";
import { kvBytes } from "../model/description/sizes.js";
import { GPUS } from "./data/hardware.js";
import { KNOWN_MODELS } from "./data/models.js";
import { makePlan } from "./plan.js";
import type { Configuration, PlanRequest } from "./request.js";

const best = (request: PlanRequest): Configuration => makePlan(request).configurations[0]!;
const reason = ({ choices }: Configuration): string =>
  choices.find(({ about }) => about === "longest sequence")!.because;
/** Bytes of the keys and values of so many tokens, on one device. */
const kvOf = ({ model }: PlanRequest, { kv, tensorParallel }: Configuration, numTokens: number): number =>
  kvBytes(model, kv.vectorBytes, numTokens, tensorParallel);

test("the model's own context, where one sequence of it fits; seats stay those of the mean request", () => {
  const request = planRequest("llama-3.1-8b", "h100");
  const long = best(request);
  expect(long.options.maxModelLen).toBe(131_072);
  expect(reason(long)).toMatch(
    /^the model was trained for no more; .*16\.0 GiB of .* seats are planned by requests of 1536/,
  );
  // Memory has room for far fewer sequences of the longest length.
  expect(long.seats).toBeGreaterThan(20);
  const short = best({ ...request, maxModelLen: 3072 });
  expect(long).toMatchObject({ seats: short.seats, prediction: short.prediction });
  expect(short.options).toEqual({ ...long.options, maxModelLen: 3072 });
});

test("where memory ends before the context, the most whole steps that leave a tenth of it", () => {
  const request = planRequest("llama-3.1-8b", "a10g", { quantization: "bf16" });
  const configuration = best(request);
  const { maxModelLen } = configuration.options;
  expect(maxModelLen % 1024).toBe(0);
  expect(maxModelLen).toBeGreaterThan(10_000);
  expect(maxModelLen).toBeLessThan(131_072);
  const room = 0.9 * configuration.memory.kvBytes;
  expect(kvOf(request, configuration, maxModelLen)).toBeLessThanOrEqual(room);
  expect(kvOf(request, configuration, maxModelLen + 1024)).toBeGreaterThan(room);
  expect(reason(configuration)).toMatch(/^as many of the model's 131072 as there is room for/);
});

test("an explicit length is kept, and a short context is used up", () => {
  expect(best(planRequest("llama-3.1-8b", "h100", { maxModelLen: 8000 })).options.maxModelLen).toBe(8000);
  expect(best(planRequest("llama-2-7b", "h100")).options.maxModelLen).toBe(4096);
  expect(best(planRequest("qwen3-30b-a3b", "h100")).options.maxModelLen).toBe(40_960);
});

test("4-bit weights end where their evidence does", () => {
  const configuration = best(planRequest("llama-3.3-70b", "h100x8", { quantization: "awq", objective: "latency" }));
  expect(configuration.options.maxModelLen).toBe(65_536);
  expect(reason(configuration)).toMatch(/^4-bit weights lose/);
});

test("llama.cpp divides its memory among the slots, TGI takes a prompt whole", () => {
  for (const engine of ["llama-server", "ollama"] as const) {
    const request = planRequest("llama-3.1-8b", "h100", { engine });
    const { memory, options } = best(request);
    expect(options.maxModelLen).toBeGreaterThan(10_000);
    expect(kvOf(request, best(request), options.maxModelLen) * options.maxNumSeqs).toBeLessThanOrEqual(memory.kvBytes);
  }
  const tgi = best(planRequest("llama-3.1-8b", "h100", { engine: "tgi" })).options;
  expect(tgi.maxModelLen).toBe(tgi.maxNumBatchedTokens);
});

test("our engine's KV memory holds one longest sequence beside its sequences of the mean", () => {
  const request = planRequest("llama-3.1-8b", "cpu-32");
  const { options, memory, tensorParallel } = best(request);
  expect(tensorParallel).toBe(1);
  expect(options.maxModelLen).toBe(131_072);
  expect(options.kvCacheMemoryBytes).toBeGreaterThanOrEqual(kvOf(request, best(request), options.maxModelLen));
  expect(options.kvCacheMemoryBytes).toBeLessThanOrEqual(memory.kvBytes);
});

test("whatever the model and the machine: no shorter than what must fit, no longer than the context or the room", () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...KNOWN_MODELS.map(({ name }) => name)),
      fc.constantFrom(...GPUS.map(({ id }) => id)),
      fc.constantFrom(1, 8),
      fc.constantFrom(64, 6000),
      (model, gpu, count, inputTokens) => {
        if (count > GPUS.find(({ id }) => id === gpu)!.maxPerNode) return;
        const request = planRequest(model, `${gpu}x${count}`, { inputTokens });
        if (inputTokens + 512 > request.model.contextLength) return;
        const { configurations, requiredLength } = makePlan(request);
        for (const configuration of configurations) {
          const { maxModelLen } = configuration.options;
          expect(maxModelLen).toBeGreaterThanOrEqual(requiredLength);
          expect(maxModelLen).toBeLessThanOrEqual(request.model.contextLength);
          expect(kvOf(request, configuration, maxModelLen)).toBeLessThanOrEqual(configuration.memory.kvBytes);
        }
      },
    ),
    { numRuns: 20 },
  );
});
