/** Requests of every kind at random, and the tiny models that answer them: what exactness is tested with. */
import type { EngineRequest, SamplingParams } from "../../src/engine/api/request.js";
import { grammarOfChoices } from "../../src/text/grammar/ebnf.js";
import { grammarOfSchema } from "../../src/text/grammar/json-schema.js";
import { grammarOfRegex } from "../../src/text/grammar/pattern-expression.js";
import { recipeOf } from "./constraint.js";
import { poolingRequest, request } from "./engine-requests.js";
import type { RandomModelOptions } from "./random-model.js";
import { TestRng } from "./rng.js";

/** Every architecture, and weights of every kind of kernel. */
export const RANDOM_MODELS: readonly RandomModelOptions[] = [
  { architecture: "llama", seed: 1, type: "F16" },
  { architecture: "llama", seed: 2, type: "Q4_0" },
  { architecture: "qwen3", seed: 3, type: "F32" },
  { architecture: "gemma3", seed: 4, type: "F16" },
  { architecture: "gemma4", seed: 26, type: "Q8_0" },
  { architecture: "gemma4", seed: 27, type: "F16", layers: 6, sharesKeys: true },
  { architecture: "gemma4", seed: 28, type: "Q4_0", ff: 64, experts: { count: 8, active: 3 } },
  { architecture: "phi3", seed: 5, type: "Q8_0" },
  { architecture: "qwen2", seed: 6, type: "Q6_K", width: 256 },
  { architecture: "llama", seed: 7, type: "Q4_K", width: 256 },
  { architecture: "gemma2", seed: 8, type: "F16" },
  { architecture: "mistral3", seed: 9, type: "Q8_0" },
  { architecture: "smollm3", seed: 10, type: "F32" },
  { architecture: "granite", seed: 11, type: "Q4_0" },
  { architecture: "olmo2", seed: 12, type: "Q8_0" },
  { architecture: "seed_oss", seed: 13, type: "F16" },
  { architecture: "exaone4", seed: 14, type: "Q8_0" },
  { architecture: "qwen3moe", seed: 21, type: "Q4_0" },
  { architecture: "llama", seed: 22, type: "Q8_0", ff: 96, experts: { count: 4, active: 2 } },
  { architecture: "qwen3", seed: 23, type: "BF16" },
  { architecture: "qwen3moe", seed: 24, type: "BF16" },
  { architecture: "gpt-oss", seed: 23, type: "MXFP4" },
  { architecture: "glm4moe", seed: 24, type: "Q5_0" },
  { architecture: "qwen3moe", seed: 25, type: "NVFP4", hasMatrixScales: true },
  { architecture: "qwen35", seed: 26, type: "F16" },
  { architecture: "qwen35", seed: 27, type: "Q4_K", width: 256, headDim: 64 },
  { architecture: "qwen35moe", seed: 28, type: "Q8_0" },
  { architecture: "qwen3next", seed: 29, type: "BF16" },
  { architecture: "lfm2", seed: 30, type: "Q4_0" },
  { architecture: "lfm2moe", seed: 31, type: "F16" },
  { architecture: "lfm3", seed: 68, type: "Q8_0" },
  { architecture: "ernie4_5", seed: 32, type: "Q8_0" },
  { architecture: "ernie4_5-moe", seed: 33, type: "Q4_0" },
  { architecture: "hunyuan-dense", seed: 34, type: "F16" },
  { architecture: "hunyuan-moe", seed: 35, type: "Q8_0" },
  { architecture: "minimax-m2", seed: 36, type: "Q4_0" },
  { architecture: "glm4", seed: 37, type: "F16" },
  { architecture: "gemma", seed: 40, type: "Q4_0" },
  { architecture: "qwen2moe", seed: 41, type: "Q8_0" },
  { architecture: "olmoe", seed: 42, type: "F16" },
  { architecture: "granitemoe", seed: 43, type: "Q4_0" },
  { architecture: "dots1", seed: 44, type: "BF16" },
  { architecture: "internlm2", seed: 45, type: "Q8_0" },
  { architecture: "command-r", seed: 46, type: "Q4_0" },
  { architecture: "cohere2", seed: 47, type: "F16" },
  { architecture: "deepseek", seed: 50, type: "Q8_0" },
  { architecture: "stablelm", seed: 48, type: "Q8_0" },
  { architecture: "starcoder2", seed: 49, type: "BF16" },
  { architecture: "deepseek2", seed: 50, type: "Q8_0" },
  { architecture: "deepseek2", seed: 51, type: "Q5_0", heads: 20 },
  { architecture: "mistral4", seed: 69, type: "Q4_0" },
  { architecture: "granitehybrid", seed: 60, type: "Q4_0" },
  { architecture: "nemotron", seed: 63, type: "Q8_0" },
  { architecture: "arcee", seed: 67, type: "Q4_0" },
  { architecture: "phimoe", seed: 66, type: "Q8_0" },
  { architecture: "bailingmoe", seed: 64, type: "Q4_0" },
  { architecture: "bailingmoe2", seed: 65, type: "Q8_0" },
  { architecture: "nemotron_h", seed: 61, type: "F32" },
  { architecture: "nemotron_h_moe", seed: 62, type: "Q8_0" },
  { architecture: "gpt2", seed: 70, type: "Q8_0" },
  { architecture: "gptneox", seed: 71, type: "Q4_0" },
  { architecture: "phi2", seed: 72, type: "F16" },
  { architecture: "opt", seed: 73, type: "BF16" },
  { architecture: "starcoder", seed: 74, type: "Q8_0" },
  { architecture: "exaone", seed: 75, type: "Q4_0" },
  { architecture: "chatglm", seed: 76, type: "Q8_0" },
];
/** Models with a layer that drafts. */
export const DRAFTING_MODELS: readonly RandomModelOptions[] = [
  { architecture: "qwen35", seed: 31, type: "F16", draftLayers: 1 },
  { architecture: "qwen35moe", seed: 32, type: "Q8_0", draftLayers: 1 },
  { architecture: "qwen3next", seed: 33, type: "Q4_K", width: 256, headDim: 64, ff: 256, draftLayers: 1 },
  { architecture: "glm4moe", seed: 34, type: "Q5_0", draftLayers: 1 },
];
/** With these, no entries are evicted, no prefixes kept on disk, and they draft for no other model. */
export const isRecurrentModel = ({ architecture }: RandomModelOptions): boolean =>
  [
    "qwen35",
    "qwen35moe",
    "qwen3next",
    "lfm2",
    "lfm2moe",
    "lfm3",
    "granitehybrid",
    "nemotron_h",
    "nemotron_h_moe",
  ].includes(architecture);

/** Its layers keep latent vectors in place of the keys and values of heads. */
export const isLatentModel = ({ architecture }: RandomModelOptions): boolean =>
  architecture === "deepseek2" || architecture === "mistral4";

/** All of its layers have a window, so that nothing is left to evict. */
export const isWindowedModel = ({ architecture }: RandomModelOptions): boolean => architecture === "starcoder2";

/** Of any kind. @param isConstraining most of them are under a grammar */
export function randomRequest(
  rng: TestRng,
  promptIds: number[],
  vocabSize: number,
  isConstraining: boolean,
): EngineRequest {
  if (rng.chance(0.15)) return poolingRequest(promptIds, rng.pick(["mean", "last"]));
  if (isConstraining && rng.chance(0.6)) return constrainedRequest(rng, promptIds, vocabSize);
  return request(promptIds, {
    ...randomSampling(rng, vocabSize),
    ...randomBars(promptIds, vocabSize),
    ...randomSamplers(promptIds, vocabSize),
  });
}

function randomSampling(rng: TestRng, vocabSize: number): Partial<SamplingParams> {
  return {
    temperature: rng.pick([0, 0, 0.5, 1, 1.7]),
    topK: rng.pick([0, 0, 1, 5, 40]),
    topP: rng.pick([1, 1, 0.9, 0.3]),
    minP: rng.pick([0, 0, 0.05]),
    presencePenalty: rng.pick([0, 0, 0.7]),
    frequencyPenalty: rng.pick([0, 0, -0.4]),
    repetitionPenalty: rng.pick([1, 1, 1.3]),
    seed: BigInt(rng.int(0, 2 ** 31)) * 0x100000001n,
    maxTokens: rng.int(0, 60),
    minTokens: rng.pick([0, 0, 5]),
    stopTokenIds: rng.chance(0.5) ? [rng.int(0, vocabSize - 1), rng.int(0, vocabSize - 1)] : [],
    logitBias: rng.chance(0.2) ? [[rng.int(0, vocabSize - 1), 5 * rng.next()]] : [],
    numLogprobs: rng.pick([undefined, 0, 5]),
    numPromptLogprobs: rng.pick([undefined, undefined, undefined, 3]),
  };
}

/** Few tokens come again and again, so that drafts come true, and words of them are often about to be completed. */
function randomBars(promptIds: readonly number[], vocabSize: number): Partial<SamplingParams> {
  const rng = new TestRng(promptIds.reduce((sum, id) => sum + id, 0));
  const few = Array.from({ length: rng.int(2, 6) }, () => rng.int(0, vocabSize - 1));
  const word = () => Array.from({ length: rng.int(1, 3) }, () => rng.pick(few));
  return {
    allowedTokenIds: rng.chance(0.3) ? few : undefined,
    badWords: rng.chance(0.4) ? [word(), word()] : undefined,
    thought: rng.chance(0.3) ? { maxTokens: rng.int(0, 12), closeId: rng.pick(few) } : undefined,
  };
}

/** llama.cpp's samplers. Few of them are on at once, so that each decides what comes. */
function randomSamplers(promptIds: readonly number[], vocabSize: number): Partial<SamplingParams> {
  const rng = new TestRng(promptIds.reduce((sum, id) => sum + 7 * id, 1));
  const breakers = () => [
    { heads: Array.from({ length: rng.int(0, 30) }, () => rng.int(0, vocabSize - 1)), tail: [] },
    { heads: [rng.pick(promptIds)], tail: [rng.pick(promptIds)] },
  ];
  return {
    penaltyWindow: rng.chance(0.3) ? rng.int(0, 40) : undefined,
    dry: rng.chance(0.3)
      ? {
          multiplier: rng.pick([0.5, 4]),
          base: rng.pick([1, 1.75]),
          allowedLength: rng.int(1, 3),
          window: rng.pick([undefined, rng.int(0, 80)]),
          breakers: rng.chance(0.5) ? breakers() : [],
        }
      : undefined,
    topNSigma: rng.chance(0.15) ? rng.pick([0.5, 1, 2.5]) : undefined,
    typicalP: rng.chance(0.15) ? rng.pick([0.1, 0.5, 0.95]) : undefined,
    xtc: rng.chance(0.15) ? { probability: rng.pick([0.5, 1]), threshold: rng.pick([0, 0.01, 0.1]) } : undefined,
    dynamicTemperature: rng.chance(0.15) ? { range: rng.pick([0.3, 2]), exponent: rng.pick([0.5, 1, 3]) } : undefined,
  };
}

/** Grammars under which drafts come true and fail: repetitive, free, nested, and soon over. */
const GRAMMARS: readonly string[] = [
  grammarOfChoices(["the other thing and the other other thing", "no"]),
  grammarOfRegex("(ab|the )*!"),
  'root ::= "[" (root ("," root)*)? "]" | [0-9]',
  grammarOfSchema({ type: "object" }, "json"),
  // Lengths that are counted beside the grammar.
  grammarOfSchema({ type: "array", items: { type: "string", minLength: 9, maxLength: 24 }, minItems: 1 }, "json"),
  grammarOfSchema(
    {
      type: "array",
      items: { type: "object", properties: { in: { type: "boolean" }, on: { enum: [1, 2] } }, required: ["in", "on"] },
    },
    "json",
  ),
];

/** A request under a grammar, which the model's own end token ends. */
function constrainedRequest(rng: TestRng, promptIds: number[], vocabSize: number): EngineRequest {
  const endOfText = vocabSize - 3;
  const sampling = randomSampling(rng, vocabSize);
  const stopTokenIds = [...(sampling.stopTokenIds ?? []), endOfText];
  return {
    ...request(promptIds, {
      ...sampling,
      ...randomBars(promptIds, vocabSize),
      ...randomSamplers(promptIds, vocabSize),
      stopTokenIds,
      maxTokens: rng.int(1, 60),
    }),
    constraint: { recipe: recipeOf(rng.pick(GRAMMARS)) },
  };
}

export function randomIds(rng: TestRng, length: number, vocabSize: number): number[] {
  return Array.from({ length }, () => rng.int(0, vocabSize - 1));
}
