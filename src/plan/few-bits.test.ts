/**
 * Files of one to three bits: their true size, their size in our engine, and that plans choose them only on request.
 */
import { expect, test } from "vitest";
import { planRequest as request } from "../../test/helpers/plan-request.js";
import { weightBytes } from "../model/description/sizes.js";
import { FEW_BIT_IDS, FEW_BITS, type FewBitId } from "./data/few-bits.js";
import { knownModel } from "./known-model.js";
import { makePlan } from "./plan.js";
import type { PlanRequest } from "./request.js";

const GIB = 2 ** 30;

/** llama.cpp's tools/perplexity/README.md, Llama 3 8B: a different table from that of the bits. */
test.each([
  ["q3_k_m", 3.74],
  ["iq3_m", 3.53],
  ["iq3_xxs", 3.05],
  ["q2_k", 2.96],
  ["iq2_m", 2.74],
  ["iq2_xs", 2.43],
  ["iq2_xxs", 2.24],
  ["iq1_m", 2.01],
  ["iq1_s", 1.88],
] as const)("an 8B in %s is a file of %d GiB", (id, gibibytes) => {
  expect(weightBytes(knownModel("llama-3.1-8b"), FEW_BITS[id]) / GIB / gibibytes).toBeCloseTo(1, 1.7);
});

test("each has a published loss, but for the ternary ones, and none has passed a gate", () => {
  const divergences = FEW_BIT_IDS.map((id) => Number(/divergence ([\d.]+)/.exec(FEW_BITS[id].gate.evidence)?.[1]));
  expect(divergences.filter((value) => value > 0.05).length).toBe(9);
  for (const id of FEW_BIT_IDS) expect(FEW_BITS[id].gate.recovery).toBeUndefined();
});

const weightsOf = (asked: PlanRequest): number => makePlan(asked).configurations[0]!.memory.weightBytes;

test.each([
  ["iq1_m", 1.89],
  ["iq2_xxs", 1.55],
  ["iq3_m", 1.22],
  ["tq2_0", 1],
  ["q2_k", 1],
] as const)("layers in %s take %d times the file's bytes in our engine, and the file's in llama-server", (id, factor) => {
  const asked = (engine: "millrace" | "llama-server") =>
    request("llama-3.1-8b", "cpu-16", { engine, quantization: id });
  const file = weightsOf(asked("llama-server"));
  expect(file).toBeCloseTo(weightBytes(knownModel("llama-3.1-8b"), FEW_BITS[id]), -3);
  const tables = 2 * 4096 * 128_256 * FEW_BITS[id].tableBytes;
  expect((weightsOf(asked("millrace")) - tables) / (file - tables)).toBeCloseTo(factor, 1);
});

test("a file's own bytes are counted for llama-server, and ours for millrace", () => {
  const stored = { label: "IQ2_XXS", weightBytes: 3.3e9, fileBytes: 2.4e9, embeddingBytes: 1.7e8 };
  const model = { ...knownModel("llama-3.1-8b"), stored, location: "a.gguf" };
  expect(weightsOf(request("llama-3.1-8b", "cpu-16", { model }))).toBe(3.3e9);
  expect(weightsOf(request("llama-3.1-8b", "cpu-16", { model, engine: "llama-server" }))).toBe(2.4e9);
  expect(weightsOf(request("llama-3.1-8b", "rtx4090", { model }))).toBe(2.4e9);
});

test("none is chosen by the rules; by name each is, with its figure", () => {
  const few: readonly string[] = FEW_BIT_IDS;
  const { configurations } = makePlan(request("llama-3.3-70b", "cpu-32", { smallestRecovery: 0 }));
  expect(configurations.filter(({ quantization }) => few.includes(quantization.id))).toEqual([]);
  const asked = makePlan(
    request("llama-3.3-70b", "rtx4090", { engine: "llama-server", quantization: "iq2_xxs", ...one }),
  );
  expect(asked.configurations[0]).toMatchObject({
    quantization: { id: "iq2_xxs" },
    options: { model: "hf:bartowski/Llama-3.3-70B-Instruct-GGUF:IQ2_XXS" },
  });
  const { because } = asked.configurations[0]!.choices.find(({ about }) => about === "weights")!;
  expect(because).toMatch(/KL divergence 0\.81/);
});

const one = { load: { concurrency: 1 } } as const;

test("where memory demands it, the best that fits is named", () => {
  const { configurations, nearest } = makePlan(request("llama-3.3-70b", "rtx4090", { engine: "llama-server", ...one }));
  expect(configurations).toEqual([]);
  const [, id] = /GGUF \S+ would fit, but KL divergence .*--quantization (\S+) takes it nevertheless/.exec(
    nearest.join(),
  )!;
  expect(FEW_BIT_IDS.indexOf(id as FewBitId)).toBeGreaterThan(3);
  expect(FEW_BIT_IDS.indexOf(id as FewBitId)).toBeLessThan(8);
});
