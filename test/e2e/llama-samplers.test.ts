/**
 * Each of llama.cpp's samplers, alone, leaves the same tokens with the same probabilities as in a real llama-server.
 * MILLRACE_LLAMA_SERVER names its binary (scripts/engines/llama-server.sh).
 */
import { spawn } from "node:child_process";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createCpuBackend } from "../../src/backend/cpu/cpu-backend.js";
import { DEFAULT_ENGINE_OPTIONS } from "../../src/engine/api/options.js";
import { GREEDY_SAMPLING, type SamplingParams } from "../../src/engine/api/request.js";
import { NO_SPECULATION } from "../../src/engine/api/speculative-config.js";
import { EngineCore } from "../../src/engine/engine-core.js";
import { openModel } from "../../src/model/open-model.js";
import { dryBreakersOf } from "../../src/text/dry-breakers.js";
import { loadTextSide, type TextSide } from "../../src/text/text-side.js";
import { fixture } from "../helpers/fixtures.js";
import { freePort } from "../helpers/free-port.js";
import { sampledProbabilities } from "../reference/sample.js";
import { sampleRowOf } from "../reference/sample-row.js";

const program = process.env.MILLRACE_LLAMA_SERVER;
const START_MS = 120_000;
const modelPath = fixture("models/stories260k.gguf");
/** Repetitive, so that DRY and penalties have something to do. */
const PROMPTS = [
  "Once upon a time there was a cat. The cat was big. The cat",
  "Lily and Tom went to the park. Lily and Tom saw a dog. Lily and",
  "The dog ran. The dog ran. The dog",
  "One day",
];
/** Everything that llama-server has on by default, off. */
const OFF = { temperature: 1, top_k: 0, top_p: 1, min_p: 0, repeat_penalty: 1, cache_prompt: false };

const DRY = { multiplier: 1.5, base: 1.75, allowedLength: 1 };
const dry = { dry_multiplier: 1.5, dry_base: 1.75, dry_allowed_length: 1 };
/** A request's fields, and what they are for the engine. DRY's breakers are those of the fields. */
const CASES: readonly (readonly [fields: Record<string, unknown>, sampling: Partial<SamplingParams>])[] = [
  [{}, {}],
  [{ temperature: 0.7 }, { temperature: 0.7 }],
  ...[0.1, 0.3, 0.9].map((p) => [{ typical_p: p }, { typicalP: p }] as const),
  [
    { typical_p: 0.6, temperature: 0.5 },
    { typicalP: 0.6, temperature: 0.5 },
  ],
  ...[0.1, 0.3, 0.5].map((n) => [{ top_n_sigma: n }, { topNSigma: n }] as const),
  [
    { top_n_sigma: 1, temperature: 1.8 },
    { topNSigma: 1, temperature: 1.8 },
  ],
  ...[0.01, 0.1, 0.3].map(
    (threshold) => [{ xtc_probability: 1, xtc_threshold: threshold }, { xtc: { probability: 1, threshold } }] as const,
  ),
  [
    { xtc_probability: 1, xtc_threshold: 0.05, temperature: 1.4 },
    { xtc: { probability: 1, threshold: 0.05 }, temperature: 1.4 },
  ],
  [{ dynatemp_range: 0.5 }, { dynamicTemperature: { range: 0.5, exponent: 1 } }],
  [{ dynatemp_range: 1.5, dynatemp_exponent: 0.4 }, { dynamicTemperature: { range: 1.5, exponent: 0.4 } }],
  [
    { dynatemp_range: 0.5, temperature: 1.2, dynatemp_exponent: 2 },
    { dynamicTemperature: { range: 0.5, exponent: 2 }, temperature: 1.2 },
  ],
  [
    { repeat_penalty: 1.8, repeat_last_n: 5 },
    { repetitionPenalty: 1.8, penaltyWindow: 5 },
  ],
  [{ repeat_penalty: 1.8, repeat_last_n: 200 }, { repetitionPenalty: 1.8 }],
  [{ repeat_penalty: 1.8, repeat_last_n: 0 }, {}],
  [{ ...dry, dry_sequence_breakers: ["Zz"] }, { dry: { ...DRY, breakers: [] } }],
  [{ ...dry, dry_sequence_breakers: ["."] }, { dry: { ...DRY, breakers: [] } }],
  [{ ...dry, dry_sequence_breakers: ["ra"] }, { dry: { ...DRY, breakers: [] } }],
  [{ ...dry, dry_penalty_last_n: 8, dry_sequence_breakers: ["Zz"] }, { dry: { ...DRY, window: 8, breakers: [] } }],
  [
    { ...dry, dry_allowed_length: 0, dry_sequence_breakers: ["Zz"] },
    { dry: { ...DRY, allowedLength: 0, breakers: [] } },
  ],
  [
    { ...dry, dry_allowed_length: 3, dry_sequence_breakers: ["Zz"] },
    { dry: { ...DRY, allowedLength: 3, breakers: [] } },
  ],
];

interface Answer {
  readonly completion_probabilities: readonly [
    { readonly top_probs: readonly { readonly id: number; readonly prob: number }[] },
  ];
}

describe.skipIf(program === undefined)("beside llama-server (needs MILLRACE_LLAMA_SERVER)", () => {
  const backend = createCpuBackend({ numThreads: 1 });
  let server: ReturnType<typeof spawn>;
  let url = "";
  let core: EngineCore;
  let text: TextSide;

  beforeAll(async () => {
    const port = await freePort();
    url = `http://127.0.0.1:${port}`;
    const args = ["-m", modelPath, "--port", String(port), "-t", "1", "-np", "1", "-c", "256", "-fa", "off"];
    server = spawn(program!, [...args, "-ctk", "f32", "-ctv", "f32"], { stdio: "ignore" });
    text = await loadTextSide(modelPath);
    const options = { ...DEFAULT_ENGINE_OPTIONS, modelPath, numThreads: 1, speculative: NO_SPECULATION };
    core = await EngineCore.create(openModel(modelPath), { ...options, kvCacheMemoryBytes: 2 ** 24 }, backend);
    while (!(await fetch(`${url}/health`).catch(() => undefined))?.ok)
      await new Promise((wake) => setTimeout(wake, 100));
  }, START_MS);
  afterAll(async () => {
    server?.kill();
    await core?.close();
    backend.destroy();
  });

  const theirs = async (prompt: readonly number[], fields: object): Promise<Float64Array> => {
    const wanted = { prompt, n_predict: 1, n_probs: core.info.vocabSize, post_sampling_probs: true, seed: 1 };
    const response = await fetch(`${url}/completion`, {
      method: "POST",
      body: JSON.stringify({ ...OFF, ...wanted, ...fields }),
    });
    const { completion_probabilities: all } = (await response.json()) as Answer;
    const probabilities = new Float64Array(core.info.vocabSize);
    for (const { id, prob } of all[0].top_probs) probabilities[id] = prob;
    return probabilities;
  };

  const ours = async (
    prompt: readonly number[],
    fields: Record<string, unknown>,
    given: Partial<SamplingParams>,
  ): Promise<Float64Array> => {
    const texts = (fields.dry_sequence_breakers as readonly string[] | undefined) ?? [];
    const breakers = await dryBreakersOf(text.tokenizer, text.asyncTokenizer, texts);
    const withBreakers = given.dry === undefined ? given : { ...given, dry: { ...given.dry, breakers } };
    const sampling = { ...GREEDY_SAMPLING, maxTokens: 1, temperature: 1, ...withBreakers };
    let last = new Float64Array();
    await core.textLogits(prompt, (logits) => {
      last = Float64Array.from(logits);
    });
    return sampledProbabilities(last, sampleRowOf(sampling, prompt, [], core.info.vocabSize));
  };

  test.each(CASES)("%j", async (fields, sampling) => {
    let hasChanged = Object.keys(sampling).length === 0;
    for (const prompt of PROMPTS) {
      const ids = text.tokenizer.encode(prompt, { addSpecial: true, parseSpecial: false });
      const [their, our] = [await theirs(ids, fields), await ours(ids, fields, sampling)];
      expect(Math.abs(their.reduce((a, b) => a + b, 0) - 1)).toBeLessThan(1e-3);
      const apart = their.map((probability, id) => Math.abs(probability - our[id]!));
      const furthest = apart.indexOf(Math.max(...apart));
      const message = `${prompt}: token ${furthest}, ${their[furthest]} there and ${our[furthest]} here`;
      // llama.cpp rounds activations.
      expect(apart[furthest], message).toBeLessThan(2e-3);
      const plain = await ours(ids, {}, {});
      hasChanged ||= our.some((probability, id) => Math.abs(probability - plain[id]!) > 0.02);
    }
    expect(hasChanged).toBe(true);
  });
});
