/**
 * A whole engine on a device that is not the CPU: memory of its own, results that come later. The same requests get the
 * CPU's tokens.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { type Completion, collect, poolingRequest, request } from "../../test/helpers/engine-requests.js";
import { fixture } from "../../test/helpers/fixtures.js";
import { someOf } from "../../test/helpers/long.js";
import { type PooledText, vectorsOf } from "../../test/helpers/pooled-vectors.js";
import { type RandomArchitecture, type RandomModelOptions, writeRandomModel } from "../../test/helpers/random-model.js";
import { ReferenceBackend } from "../../test/reference/backend.js";
import type { Backend } from "../backend/backend.js";
import { createCpuBackend } from "../backend/cpu/cpu-backend.js";
import { openModel } from "../model/open-model.js";
import { DEFAULT_ENGINE_OPTIONS } from "./api/options.js";
import type { EngineRequest } from "./api/request.js";
import { DEFAULT_SPECULATIVE_CONFIG } from "./api/speculative-config.js";
import { EngineCore } from "./engine-core.js";

const folder = mkdtempSync(join(tmpdir(), "millrace-another-device-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const SHARED = Array.from({ length: 40 }, (_, i) => (i * 37 + 5) % 300);

/** Prompts that share a prefix, text that repeats (so that drafts come), every kind of result. */
const REQUESTS: readonly EngineRequest[] = [
  request([...SHARED, 7, 8], { maxTokens: 10, numLogprobs: 3 }),
  request([5, 6, 7, 5, 6, 7, 5, 6], { maxTokens: 48 }),
  request([...SHARED, 9], { maxTokens: 8, temperature: 0.9, topP: 0.8, seed: 11n, frequencyPenalty: 0.5 }),
  request([3, 1, 4, 1, 5, 9, 2, 6], { maxTokens: 4, numPromptLogprobs: 2 }),
  poolingRequest([...SHARED, 12, 13], "mean"),
];

/** All requests together, arriving one a step, with drafts, chunks of prompts and too little KV memory for all. */
async function runAll(path: string, backend: Backend): Promise<readonly Completion[]> {
  const speculative = {
    ...DEFAULT_SPECULATIVE_CONFIG,
    method: "ngram",
    isAdaptive: false,
    numSpeculativeTokens: 3,
  } as const;
  const fixed = { modelPath: path, numThreads: 1, maxModelLen: 64, maxNumSeqs: 4, maxNumBatchedTokens: 24 };
  const kv = { kvCacheDtype: "f32", blockSize: 8, kvCacheMemoryBytes: 2 ** 19 } as const;
  const options = { ...DEFAULT_ENGINE_OPTIONS, ...fixed, ...kv, speculative };
  const core = await EngineCore.create(openModel(path), options, backend);
  const completions = new Map<number, Completion>();
  for (let step = 0; step < REQUESTS.length || core.hasWork; step++) {
    const arriving = REQUESTS[step];
    if (arriving !== undefined) core.add(step, arriving);
    for (const { requestId, output } of await core.step()) collect(completions, requestId, output);
  }
  expect(core.takeFailures()).toEqual([]);
  expect(core.stats().prefixCacheHitTokens).toBeGreaterThan(0);
  expect(core.stats().speculation.numDraftTokens).toBeGreaterThan(0);
  return REQUESTS.map((_, id) => completions.get(id)!);
}

const ENCODERS = ["bert", "nomic_bert", "nomic_bert_moe", "modernbert", "gemma_embedding"];

it.each(someOf(ENCODERS, 2))("%s computes the CPU's vectors on such a device", async (name) => {
  const model = fixture(`hf-encoders/${name}`);
  const texts = JSON.parse(readFileSync(join(model, "expected.json"), "utf8")) as PooledText[];
  const found = await vectorsOf(model, texts, new ReferenceBackend(2 ** 24));
  const wanted = await vectorsOf(model, texts);
  for (const [i, vector] of found.entries()) {
    for (const [k, value] of vector.entries()) expect(value).toBeCloseTo(wanted[i]![k]!, 4);
  }
});

type Variant = Omit<RandomModelOptions, "architecture" | "seed">;
const MODELS: readonly (readonly [RandomArchitecture, Variant])[] = [
  ["llama", {}],
  ["gemma2", {}],
  ["gemma3", {}],
  ["gemma4", { layers: 6, sharesKeys: true }],
  ["gemma4", { ff: 64, experts: { count: 8, active: 3 } }],
  ["phi3", {}],
  ["mistral3", {}],
  ["olmo2", {}],
  ["qwen3moe", {}],
  ["olmoe", {}],
  ["granitemoe", {}],
  ["cohere2", {}],
  ["starcoder2", {}],
  ["phimoe", {}],
  ["bailingmoe2", {}],
  ["gpt-oss", {}],
  ["glm4moe", {}],
  ["deepseek2", {}],
  ["qwen35", {}],
  ["lfm2", {}],
  ["lfm3", {}],
];

it.each(
  someOf(MODELS, 4),
)("%s computes the CPU's tokens on a device that shares no memory and answers later", async (architecture, variant) => {
  const path = join(folder, `${architecture}.gguf`);
  writeRandomModel(path, { ...variant, architecture, seed: 8 });
  const reference = new ReferenceBackend(2 ** 24);
  const cpu = createCpuBackend({ numThreads: 1, activationDtype: "f32" });
  const [found, wanted] = [await runAll(path, reference), await runAll(path, cpu)];
  cpu.destroy();
  expect(reference.numSubmitted).toBeGreaterThan(10);
  const close = (a: number, b: number) => expect(a).toBeCloseTo(b, 4);
  for (const [i, { tokenIds, logprobs, promptLogprobs, pooled, finishReason }] of found.entries()) {
    const expected = wanted[i]!;
    expect({ i, tokenIds, finishReason }).toEqual({
      i,
      tokenIds: expected.tokenIds,
      finishReason: expected.finishReason,
    });
    for (const [k, { logprob }] of logprobs.entries()) close(logprob, expected.logprobs[k]!.logprob);
    expect(promptLogprobs?.length).toBe(expected.promptLogprobs?.length);
    for (const [k, each] of promptLogprobs?.entries() ?? []) {
      close(each?.logprob ?? 0, expected.promptLogprobs![k]?.logprob ?? 0);
    }
    for (const [k, value] of pooled?.entries() ?? []) close(value, expected.pooled![k]!);
  }
});
