/**
 * Holds a model folder's log-probabilities, computed in process without rounding activations, to those another program
 * computed.
 */
import { readdirSync } from "node:fs";
import { expect } from "vitest";
import { createCpuBackend } from "../../src/backend/cpu/cpu-backend.js";
import { DEFAULT_ENGINE_OPTIONS } from "../../src/engine/api/options.js";
import { EngineCore } from "../../src/engine/engine-core.js";
import { openModel } from "../../src/model/open-model.js";
import { request, runAlone } from "./engine-requests.js";
import { fixture } from "./fixtures.js";

/** As test/fixtures/make-hf-models.py writes it. */
export interface ExpectedLogprobs {
  readonly tokens: readonly number[];
  /** Of each token after the first. */
  readonly logprobs: readonly number[];
  /** The best few after each position. */
  readonly top: readonly (readonly (readonly [id: number, logprob: number])[])[];
}

/** Folders of models that generate text. */
export const MODEL_FOLDERS: readonly string[] = readdirSync(fixture("hf"));

/** Folders that are read and not written. */
export const isReadOnlyFolder = (name: string): boolean =>
  /^(?:gpt2|gpt_neox|gpt_bigcode|exaone$|phi$|opt|bailing_|phimoe|deepseek_|mistral4|glm4_moe_lite|granitehybrid|nemotron_h)/.test(
    name,
  );

/** F32 sums in another order, over a few layers. */
const TOLERANCE = 5e-5;
/**
 * An output of its own is sharper than a tied one: transformers' own F32 is 3e-5 off its F64. Latent attention sums
 * scores over more numbers than transformers does, which computes each head's keys first.
 */
export const TOLERANCES: Readonly<Record<string, number>> = { qwen35_vision: 1e-4, glm4_moe_lite: 1e-4 };

/** @returns of each token after the first */
export async function expectLogprobs(
  path: string,
  expected: ExpectedLogprobs,
  tolerance = TOLERANCE,
): Promise<number[]> {
  const backend = createCpuBackend({ numThreads: 2, activationDtype: "f32" });
  try {
    const options = { modelPath: path, numThreads: 2, kvCacheDtype: "f32", kvCacheMemoryBytes: 2 ** 22 } as const;
    const core = await EngineCore.create(openModel(path), { ...DEFAULT_ENGINE_OPTIONS, ...options }, backend);
    const prompt = request(expected.tokens, { maxTokens: 1, numPromptLogprobs: expected.top[0]!.length });
    const { promptLogprobs } = await runAlone(core, prompt);
    const scored = promptLogprobs!.slice(1).map((entry) => entry!);
    expect(scored).toHaveLength(expected.logprobs.length);
    for (const [position, { logprob, top }] of scored.entries()) {
      const where = `position ${position}`;
      expect(Math.abs(logprob - expected.logprobs[position]!), where).toBeLessThan(tolerance);
      for (const [rank, [, wanted]] of expected.top[position]!.entries()) {
        expect(Math.abs(top[rank]!.logprob - wanted), where).toBeLessThan(tolerance);
      }
    }
    return scored.map(({ logprob }) => logprob);
  } finally {
    backend.destroy();
  }
}
