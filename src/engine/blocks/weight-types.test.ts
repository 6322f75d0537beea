/** A model file of every quantised type computes what the same values stored as F32 compute. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { request, runAlone } from "../../../test/helpers/engine-requests.js";
import { someOf } from "../../../test/helpers/long.js";
import { type RandomModelOptions, writeRandomModel } from "../../../test/helpers/random-model.js";
import type { ActivationDtype } from "../../backend/backend.js";
import { createCpuBackend } from "../../backend/cpu/cpu-backend.js";
import { BLOCK_LAYOUT } from "../../formats/dequantize.js";
import { TENSOR_TYPES } from "../../formats/gguf/tensor-types.js";
import type { TensorType } from "../../formats/gguf/types.js";
import { openModel } from "../../model/open-model.js";
import { DEFAULT_ENGINE_OPTIONS } from "../api/options.js";
import { EngineCore } from "../engine-core.js";

const GGUF_TYPES = Object.keys(TENSOR_TYPES) as readonly TensorType[];

const folder = mkdtempSync(join(tmpdir(), "millrace-weight-types-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Every width is a multiple of 256, the largest block. */
const SHAPE = { architecture: "llama", width: 256, ff: 512, seed: 7 } as const;
const PROMPT = Int32Array.from({ length: 64 }, (_, i) => (i * 97 + 13) % 300);

/** Log-probabilities of a fixed text's tokens. */
async function scoresOf(options: RandomModelOptions, activationDtype: ActivationDtype = "auto"): Promise<number[]> {
  const path = join(folder, `${options.type}-${options.isDequantised ?? false}.gguf`);
  writeRandomModel(path, options);
  const backend = createCpuBackend({ numThreads: 2, activationDtype });
  try {
    const memory = { maxModelLen: 128, kvCacheMemoryBytes: 2 ** 24 };
    const engineOptions = { modelPath: path, numThreads: 2, ...memory, kvCacheDtype: "f32" } as const;
    const core = await EngineCore.create(openModel(path), { ...DEFAULT_ENGINE_OPTIONS, ...engineOptions }, backend);
    const { promptLogprobs } = await runAlone(core, request(PROMPT, { maxTokens: 1, numPromptLogprobs: 0 }));
    return promptLogprobs!.slice(1).map((logprob) => logprob!.logprob);
  } finally {
    backend.destroy();
  }
}

/** Each has its own tests of what it stores (formats) and of its products (the kernels). */
const BLOCK_TYPES = GGUF_TYPES.filter((name) => BLOCK_LAYOUT[name].numValues > 1);

describe("a model file of", () => {
  for (const type of someOf(BLOCK_TYPES, 5)) {
    it(`${type} scores a text as its values in F32 do`, async () => {
      const scores = await scoresOf({ ...SHAPE, type });
      const wanted = await scoresOf({ ...SHAPE, type, isDequantised: true });
      // Room for activations in eight bits; a value read wrongly is off by whole nats.
      const errors = scores.map((score, i) => Math.abs(score - wanted[i]!));
      expect(Math.max(...errors)).toBeLessThan(0.5);
      expect(errors.reduce((sum, error) => sum + error, 0) / errors.length).toBeLessThan(0.1);
      expect(Math.max(...wanted) - Math.min(...wanted)).toBeGreaterThan(2);
    });
  }

  it.each(
    someOf(["Q4_K", "MXFP4", "NVFP4", "Q8_0", "IQ2_S", "IQ3_XXS"] as const, 2),
  )("experts of %s does so too", async (type) => {
    const options = {
      ...SHAPE,
      architecture: "qwen3moe",
      headDim: 64,
      ff: 96,
      downType: "Q5_0",
      type,
      experts: { count: 6, active: 2 },
    } as const;
    const scores = await scoresOf(options);
    const wanted = await scoresOf({ ...options, isDequantised: true });
    // A router whose inputs differ a little may choose another expert here and there.
    const errors = scores.map((score, i) => Math.abs(score - wanted[i]!)).toSorted((a, b) => a - b);
    expect(errors[Math.floor(errors.length / 2)]).toBeLessThan(0.1);
  });

  const SCALED = [
    ["matrices", { ...SHAPE, type: "NVFP4" }],
    ["fused matrices", { ...SHAPE, architecture: "phi3", type: "NVFP4" }],
    ["experts", { ...SHAPE, architecture: "qwen3moe", headDim: 64, ff: 64, type: "NVFP4" }],
    [
      "experts in one matrix each",
      { ...SHAPE, architecture: "qwen3moe", ff: 64, type: "NVFP4", expertLayout: "apart" },
    ],
    ["experts' gates above ups", { ...SHAPE, architecture: "qwen3moe", ff: 64, type: "NVFP4", expertLayout: "fused" }],
  ] as const;
  it.each(
    someOf<(typeof SCALED)[number]>(SCALED, 2),
  )("NVFP4 %s that have scales beside them score as scaled values in F32 do", async (_, shape) => {
    const options = { ...shape, hasMatrixScales: true };
    const scores = await scoresOf(options);
    const wanted = await scoresOf({ ...options, isDequantised: true });
    const errors = scores.map((score, i) => Math.abs(score - wanted[i]!)).toSorted((a, b) => a - b);
    expect(errors[Math.floor(errors.length / 2)]).toBeLessThan(0.1);
    const unscaled = await scoresOf({ ...options, hasMatrixScales: false });
    const others = unscaled.map((score, i) => Math.abs(score - wanted[i]!)).toSorted((a, b) => a - b);
    expect(others[Math.floor(others.length / 2)]).toBeGreaterThan(1);
  });

  it("Q8_0 differs a little, and no more, where its activations have eight bits", async () => {
    const options = { ...SHAPE, type: "Q8_0" } as const;
    const [wanted, sixteen, eight] = [
      await scoresOf({ ...options, isDequantised: true }),
      await scoresOf(options),
      await scoresOf(options, "int8"),
    ];
    const worst = (scores: readonly number[]) => Math.max(...scores.map((score, i) => Math.abs(score - wanted[i]!)));
    expect(worst(sixteen)).toBeLessThan(0.01);
    expect(worst(eight)).toBeGreaterThan(worst(sixteen));
    expect(worst(eight)).toBeLessThan(0.5);
  });
});
