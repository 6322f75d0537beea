import { expect, test } from "vitest";
import type { ExpertsFeedForward } from "../model/description/model-description.js";
import {
  activeLinearParameters,
  expertsRead,
  kvBytes,
  tableParameters,
  totalParameters,
  weightBytes,
  weightBytesPerStep,
} from "../model/description/sizes.js";
import { KNOWN_MODELS } from "./data/models.js";
import { KV_TYPES, QUANTIZATIONS } from "./data/quantizations.js";
import { findKnownModel, KNOWN_NAMES, knownModel, plannedModelOf } from "./known-model.js";

const numTables = ({ isTied }: { readonly isTied: boolean }): number => (isTied ? 1 : 2);

test.each(KNOWN_MODELS)("$name has the parameters its card states", (known) => {
  const model = plannedModelOf(known);
  expect(Math.abs(totalParameters(model) / known.publishedParameters - 1)).toBeLessThan(0.01);
  if (known.publishedActiveParameters === undefined) return;
  // Some cards count the embedding table among the active parameters.
  const active = [0, 1].map(
    (numLeftOut) => activeLinearParameters(model) + (numTables(model) - numLeftOut) * tableParameters(model),
  );
  expect(Math.min(...active.map((count) => Math.abs(count / known.publishedActiveParameters! - 1)))).toBeLessThan(0.03);
});

test("names are found whatever the case, the dashes and the maker's ending, and no two are alike", () => {
  for (const name of ["gemma4-31b", "gemma-4-31B-it", "google/gemma-4-31B-it"])
    expect(findKnownModel(name)?.name).toBe("gemma4-31b");
  for (const { name } of KNOWN_MODELS) expect(findKnownModel(name)?.name).toBe(name);
});

test("keys and values per token are what the engines say", () => {
  // 2 × layers × KV heads × head size × 2 bytes.
  expect(kvBytes(knownModel("llama-3.3-70b"), KV_TYPES["16"].vectorBytes, 1)).toBe(2 * 80 * 8 * 128 * 2);
  expect(kvBytes(knownModel("llama-3.3-70b"), KV_TYPES.fp8.vectorBytes, 1)).toBe(2 * 80 * 8 * 128);
  expect(kvBytes(knownModel("llama-3.1-8b"), KV_TYPES.int8.vectorBytes, 1)).toBe(2 * 32 * 8 * (128 + 4));
  // DeepSeek's latent attention stores 576 numbers per token and layer.
  expect(kvBytes(knownModel("deepseek-v3"), KV_TYPES["16"].vectorBytes, 1)).toBe(61 * 576 * 2);
});

test("layers with a window stop growing", () => {
  const gemma = knownModel("gemma3-27b");
  const perLayer = 2 * 16 * 128 * 2;
  expect(kvBytes(gemma, KV_TYPES["16"].vectorBytes, 10_000)).toBe(perLayer * (10 * 10_000 + 52 * 1024));
});

test("a step of a mixture reads the experts that somebody chose", () => {
  const mixtral = knownModel("mixtral-8x7b");
  const experts = mixtral.layers[0]!.feedForward as ExpertsFeedForward;
  expect(expertsRead(experts, 1)).toBeCloseTo(0.25);
  expect(expertsRead(experts, 100)).toBeCloseTo(1);
  const [one, many] = [1, 512].map((numTokens) => weightBytesPerStep(mixtral, QUANTIZATIONS.bf16, numTokens));
  expect(one! / 2).toBeCloseTo(activeLinearParameters(mixtral) + tableParameters(mixtral), -6);
  expect(many! / 2).toBeCloseTo(totalParameters(mixtral) - tableParameters(mixtral), -6);
});

test("a tied table is read whole, another one only by rows", () => {
  const [tied, untied] = [knownModel("qwen2.5-3b"), knownModel("qwen2.5-7b")];
  expect(weightBytesPerStep(tied, QUANTIZATIONS.bf16, 1)).toBe(weightBytes(tied, QUANTIZATIONS.bf16));
  expect(weightBytesPerStep(untied, QUANTIZATIONS.bf16, 1)).toBe(
    weightBytes(untied, QUANTIZATIONS.bf16) - 2 * tableParameters(untied),
  );
});

test("a model is found by our name or the hub's", () => {
  expect(findKnownModel("Meta-Llama/llama-3.3-70b-instruct")?.name).toBe("llama-3.3-70b");
  expect(() => knownModel("gpt-5")).toThrow(/expected --model to be a file, hf:org\/repo or a known name, got "gpt-5"/);
});

test("the embedded engine computes every model that plans know by name", () => {
  for (const name of KNOWN_NAMES) expect(knownModel(name).embeddedRefusal, name).toBeUndefined();
});

test("the 12B of Gemma 4 keeps one key/value head where a layer sees everything", () => {
  // 40 layers with 8 heads of 256 for the last 1,024 tokens, 8 layers with one head of 512, whose values are keys
  // before the norm.
  const bytes = kvBytes(knownModel("gemma4-12b"), KV_TYPES["16"].vectorBytes, 10_000);
  expect(bytes).toBe(40 * 1024 * 8 * 2 * 256 * 2 + 8 * 10_000 * 2 * 512 * 2);
});
