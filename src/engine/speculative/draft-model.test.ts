import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Completion, collect, inTurn, request } from "../../../test/helpers/engine-requests.js";
import { writeRandomModel } from "../../../test/helpers/random-model.js";
import { createCpuBackend } from "../../backend/cpu/cpu-backend.js";
import { openModel } from "../../model/open-model.js";
import { DEFAULT_ENGINE_OPTIONS, type EngineOptions } from "../api/options.js";
import type { SamplingParams } from "../api/request.js";
import { DEFAULT_SPECULATIVE_CONFIG, NO_SPECULATION, type SpeculativeConfig } from "../api/speculative-config.js";
import { EngineCore } from "../engine-core.js";

let folder = "";
const pathOf = (name: string): string => join(folder, `${name}.gguf`);
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "millrace-draft-model-"));
  writeRandomModel(pathOf("model"), { architecture: "llama", seed: 1, type: "F16", contextLength: 512 });
  writeRandomModel(pathOf("other"), { architecture: "qwen3", seed: 2, type: "Q8_0", contextLength: 512 });
  writeRandomModel(pathOf("short"), { architecture: "llama", seed: 3, type: "F16", contextLength: 64 });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const SAMPLING: readonly Partial<SamplingParams>[] = [
  { temperature: 0 },
  { temperature: 0.8, seed: 7n, topP: 0.9, topK: 40 },
  { temperature: 1.3, seed: 8n, repetitionPenalty: 1.2, presencePenalty: 0.5, minTokens: 10 },
];

async function run(speculative: SpeculativeConfig, options: Partial<EngineOptions> = {}) {
  const backend = createCpuBackend({ numThreads: 1 });
  const all = { ...DEFAULT_ENGINE_OPTIONS, modelPath: pathOf("model"), numThreads: 1, kvCacheMemoryBytes: 2 ** 24 };
  try {
    const core = await EngineCore.create(openModel(pathOf("model")), { ...all, speculative, ...options }, backend);
    const completions = new Map<number, Completion>();
    SAMPLING.forEach((sampling, id) => {
      const ids = Array.from({ length: 20 + 30 * id }, (_, i) => (i * (id + 3)) % 97);
      core.add(id, request(ids, { ...sampling, maxTokens: 60, numLogprobs: 2 }));
    });
    while (core.hasWork) for (const { requestId, output } of await core.step()) collect(completions, requestId, output);
    return { completions, stats: core.stats() };
  } finally {
    backend.destroy();
  }
}

const guessedBy = (name: string): SpeculativeConfig => ({
  ...DEFAULT_SPECULATIVE_CONFIG,
  method: "draft_model",
  draftModelPath: pathOf(name),
  isAdaptive: false,
  numSpeculativeTokens: 5,
});

describe("draft model", () => {
  test("a model that guesses for itself is always right, at any temperature and with any filter", async () => {
    const plain = await run(NO_SPECULATION);
    const guessed = await run(guessedBy("model"));
    expect(guessed.completions).toEqual(plain.completions);
    const { numDraftTokens, numAcceptedTokens } = guessed.stats.speculation;
    expect(numDraftTokens).toBeGreaterThan(100);
    expect(numAcceptedTokens).toBe(numDraftTokens);
    expect(guessed.stats.numSteps).toBeLessThan(plain.stats.numSteps / 4);
  });

  test("another model's guesses are taken back without a trace", async () => {
    const { completions, stats } = await run(guessedBy("other"));
    expect(completions).toEqual((await run(NO_SPECULATION)).completions);
    expect(stats.speculation.numDraftTokens).toBeGreaterThan(stats.speculation.numAcceptedTokens);
  });

  test("guesses up to the end of the context", async () => {
    const backend = createCpuBackend({ numThreads: 1 });
    try {
      const all = { ...DEFAULT_ENGINE_OPTIONS, modelPath: pathOf("model"), numThreads: 1, kvCacheMemoryBytes: 2 ** 24 };
      const answers = await inTurn([NO_SPECULATION, guessedBy("model")], async (speculative) => {
        const core = await EngineCore.create(openModel(pathOf("model")), { ...all, speculative }, backend);
        const completions = new Map<number, Completion>();
        // 500 + 12 tokens are all that a context of 512 holds.
        for (const id of [0, 1])
          core.add(id, request(new Array<number>(500 - 3 * id).fill(7), { maxTokens: 12 + 3 * id }));
        while (core.hasWork)
          for (const { requestId, output } of await core.step()) collect(completions, requestId, output);
        return completions;
      });
      expect(answers[1]).toEqual(answers[0]);
      expect(answers[1]!.get(0)!.tokenIds).toHaveLength(12);
    } finally {
      backend.destroy();
    }
  });

  test("guesses for a request that has taken the seat of another one", async () => {
    const backend = createCpuBackend({ numThreads: 1 });
    try {
      const seats = { maxNumSeqs: 1, schedulingPolicy: "priority" } as const;
      const all = { ...DEFAULT_ENGINE_OPTIONS, ...seats, modelPath: pathOf("model"), numThreads: 1 };
      const options = { ...all, kvCacheMemoryBytes: 2 ** 24, speculative: guessedBy("model") };
      const core = await EngineCore.create(openModel(pathOf("model")), options, backend);
      const draftedSoFar = () => core.stats().speculation.numDraftTokens;
      const [late, urgent] = [request([1, 2, 3], { maxTokens: 200 }), request([4, 5, 6], { maxTokens: 60 })];
      core.add(0, { ...late, priority: 1 });
      while (draftedSoFar() === 0) await core.step();
      const numDraftedBefore = draftedSoFar();
      core.add(1, { ...urgent, priority: 0 });
      const completions = new Map<number, Completion>();
      const step = async () => {
        for (const { requestId, output } of await core.step()) collect(completions, requestId, output);
      };
      while (completions.get(1)?.finishReason === undefined) await step();
      expect([core.stats().numPreemptions, completions.has(0)]).toEqual([1, false]);
      expect(draftedSoFar() - numDraftedBefore).toBeGreaterThan(40);
      const numDraftedForUrgent = draftedSoFar();
      while (core.hasWork) await step();
      expect(draftedSoFar() - numDraftedForUrgent).toBeGreaterThan(100);
    } finally {
      backend.destroy();
    }
  });

  test("refuses a draft model whose context is too short", async () => {
    await expect(run(guessedBy("short"))).rejects.toThrow(/a context of 512 tokens, got 64/);
  });
});
