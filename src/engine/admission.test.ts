import { expect, test } from "vitest";
import { request } from "../../test/helpers/engine-requests.js";
import { checkRequest } from "./admission.js";
import type { DryBreaker, DryPenalty, EngineRequest, SamplingParams } from "./api/request.js";
import type { EngineInfo } from "./api/stats.js";

const INFO: EngineInfo = {
  architecture: "llama",
  weightType: "F16",
  numParameters: 1,
  weightBytes: 1,
  vocabSize: 100,
  maxModelLen: 512,
  tasks: ["generate", "embed"],
  isCausal: true,
  numTokenTypes: 0,
  embeddingWidth: 8,
  pooling: "last",
  kvWindows: [0],
  blockSize: 16,
  maxNumSeqs: 4,
  numKvBlocks: 8,
  kvBytes: 1,
  recurrentBytes: 0,
  kvCacheDtype: "f16",
  kvEviction: undefined,
  numThreads: 1,
  isa: "portable",
};
const ids = (length: number) => new Array<number>(length).fill(1);
const DRY: DryPenalty = { multiplier: 1, base: 2, allowedLength: 1, breakers: [] };
const BREAKER: DryBreaker = { heads: [1], tail: [] };
const dryWith = (breaker: DryBreaker): DryPenalty => ({ ...DRY, breakers: [breaker] });

test.each<[string, EngineRequest, string]>([
  ["no tokens", request([]), "empty_prompt"],
  ["an id beyond the vocabulary", request([1, 100]), "token_out_of_range"],
  ["a negative id", request([-1]), "token_out_of_range"],
  ["a stop id beyond the vocabulary", request([1], { stopTokenIds: [100] }), "token_out_of_range"],
  ["an allowed id beyond the vocabulary", request([1], { allowedTokenIds: [100] }), "token_out_of_range"],
  ["too many allowed ids", request([1], { allowedTokenIds: new Array(16_385).fill(1) }), "invalid_parameter"],
  ["no allowed id", request([1], { allowedTokenIds: [] }), "invalid_parameter"],
  ["a bad word beyond the vocabulary", request([1], { badWords: [[1], [2, 100]] }), "token_out_of_range"],
  ["a window of half a token", request([1], { penaltyWindow: 0.5 }), "invalid_parameter"],
  ["a negative window", request([1], { penaltyWindow: -1 }), "invalid_parameter"],
  ["a negative sigma", request([1], { topNSigma: -0.1 }), "invalid_parameter"],
  ["a typical share above 1", request([1], { typicalP: 1.1 }), "invalid_parameter"],
  ["a probability above 1", request([1], { xtc: { probability: 1.1, threshold: 0 } }), "invalid_parameter"],
  ["a threshold above 1", request([1], { xtc: { probability: 1, threshold: 1.1 } }), "invalid_parameter"],
  ["a negative range", request([1], { dynamicTemperature: { range: -1, exponent: 1 } }), "invalid_parameter"],
  ["an exponent of NaN", request([1], { dynamicTemperature: { range: 1, exponent: NaN } }), "invalid_parameter"],
  ["a negative multiplier", request([1], { dry: { ...DRY, multiplier: -1 } }), "invalid_parameter"],
  ["a base below 1", request([1], { dry: { ...DRY, base: 0.9 } }), "invalid_parameter"],
  ["a negative length that may come again", request([1], { dry: { ...DRY, allowedLength: -1 } }), "invalid_parameter"],
  ["half a token of DRY's window", request([1], { dry: { ...DRY, window: 1.5 } }), "invalid_parameter"],
  ["a breaker beyond the vocabulary", request([1], { dry: dryWith({ heads: [100], tail: [] }) }), "token_out_of_range"],
  ["a breaker's rest beyond it", request([1], { dry: dryWith({ heads: [1], tail: [100] }) }), "token_out_of_range"],
  ["a breaker that is too long", request([1], { dry: dryWith({ heads: [1], tail: ids(21) }) }), "invalid_parameter"],
  ["too many breakers", request([1], { dry: { ...DRY, breakers: Array(257).fill(BREAKER) } }), "invalid_parameter"],
  ["a bad word of nothing", request([1], { badWords: [[]] }), "invalid_parameter"],
  ["a bad word that is too long", request([1], { badWords: [new Array(129).fill(1)] }), "invalid_parameter"],
  ["too many bad words", request([1], { badWords: new Array(1025).fill([1]) }), "invalid_parameter"],
  ["a biased id beyond the vocabulary", request([1], { logitBias: [[100, 1]] }), "token_out_of_range"],
  ["a vector and tokens", { ...request([1], { maxTokens: 1 }), pooling: "mean" }, "invalid_parameter"],
  ["too many biases", request([1], { logitBias: ids(1025).map((id) => [id, 1] as const) }), "invalid_parameter"],
  ["too many stop ids", request([1], { stopTokenIds: ids(257) }), "invalid_parameter"],
  ["too many log-probabilities", request([1], { numLogprobs: 21 }), "invalid_parameter"],
  ["too many log-probabilities of the prompt", request([1], { numPromptLogprobs: 21 }), "invalid_parameter"],
  ["a negative temperature", request([1], { temperature: -0.5 }), "invalid_parameter"],
  ["a negative min_p", request([1], { minP: -0.5 }), "invalid_parameter"],
  ["a negative top_k", request([1], { topK: -1 }), "invalid_parameter"],
  ["a repetition penalty the kernels refuse", request([1], { repetitionPenalty: 1e-31 }), "invalid_parameter"],
  ["a temperature that is no number", request([1], { temperature: Number.NaN }), "invalid_parameter"],
  ["an endless temperature", request([1], { temperature: Number.POSITIVE_INFINITY }), "invalid_parameter"],
  ["a negative top_p", request([1], { topP: -0.1 }), "invalid_parameter"],
  ["a min_p above 1", request([1], { minP: 1.1 }), "invalid_parameter"],
  ["a fractional top_k", request([1], { topK: 1.5 }), "invalid_parameter"],
  ["a top_k beyond 32 bits", request([1], { topK: 2 ** 31 }), "invalid_parameter"],
  ["an endless presence penalty", request([1], { presencePenalty: Number.NEGATIVE_INFINITY }), "invalid_parameter"],
  ["a frequency penalty that is no number", request([1], { frequencyPenalty: Number.NaN }), "invalid_parameter"],
  ["a bias that is no number", request([1], { logitBias: [[1, Number.NaN]] }), "invalid_parameter"],
  ["a prompt beyond the context", request(ids(513), { maxTokens: 0 }), "context_length_exceeded"],
  ["prompt and output beyond the context", request(ids(500), { maxTokens: 13 }), "context_length_exceeded"],
  ["a prompt alone beyond the KV memory", request(ids(129), { maxTokens: 0 }), "kv_capacity_exceeded"],
  ["more than the KV memory", request(ids(100), { maxTokens: 30 }), "kv_capacity_exceeded"],
])("%s is refused with a code", (_, engineRequest, code) => {
  expect(() => checkRequest(engineRequest, INFO)).toThrow(expect.objectContaining({ code }));
});

const LARGEST = 3.4e38;

test.each<[string, Partial<SamplingParams>]>([
  ["no sampling at all", { temperature: 0, topP: 0, minP: 0, topK: 0 }],
  ["the highest min_p", { minP: 1 }],
  ["the highest top_k", { topK: 2 ** 31 - 1 }],
  ["the largest numbers", { temperature: LARGEST, topP: LARGEST, presencePenalty: LARGEST, frequencyPenalty: LARGEST }],
  [
    "the largest numbers of llama.cpp's samplers",
    {
      penaltyWindow: 2 ** 31 - 1,
      topNSigma: LARGEST,
      typicalP: 1,
      xtc: { probability: 1, threshold: 1 },
      dynamicTemperature: { range: LARGEST, exponent: LARGEST },
      dry: { multiplier: LARGEST, base: LARGEST, allowedLength: 2 ** 31 - 1, window: 2 ** 31 - 1, breakers: [] },
    },
  ],
  [
    "the smallest numbers of llama.cpp's samplers",
    {
      penaltyWindow: 0,
      topNSigma: 0,
      typicalP: 0,
      xtc: { probability: 0, threshold: 0 },
      dynamicTemperature: { range: 0, exponent: 0 },
      dry: { multiplier: 0, base: 1, allowedLength: 0, window: 0, breakers: [{ heads: [0, 99], tail: [0, 99] }] },
    },
  ],
  ["as many breakers as may be", { dry: { ...DRY, breakers: new Array(256).fill({ heads: [1], tail: ids(20) }) } }],
  ["the smallest numbers", { presencePenalty: -LARGEST, frequencyPenalty: -LARGEST, repetitionPenalty: 1e-30 }],
  ["the first and the last token", { stopTokenIds: [0, 99], allowedTokenIds: [0, 99], badWords: [[0], [99]] }],
  ["as many log-probabilities as may be", { numLogprobs: 20, numPromptLogprobs: 20 }],
  ["as many biases as may be", { logitBias: ids(1024).map((id) => [id, LARGEST] as const) }],
  ["as many stop ids as may be", { stopTokenIds: ids(256) }],
  ["as many allowed ids as may be", { allowedTokenIds: ids(16_384) }],
  ["as many bad words as may be, as long as may be", { badWords: new Array(1024).fill(ids(128)) }],
])("%s is accepted", (_, sampling) => {
  expect(() => checkRequest(request([1], sampling), INFO)).not.toThrow();
});

test("a request that fills the context to the last token is accepted", () => {
  const roomy = { ...INFO, numKvBlocks: 32 };
  expect(() => checkRequest(request(ids(500), { maxTokens: 12 }), roomy)).not.toThrow();
  expect(() => checkRequest(request(ids(500), { maxTokens: 13 }), roomy)).toThrow("500 + 13 = 513");
});

test("a prompt that is too long is max_tokens' fault where tokens are generated, and the input's where a vector is asked for", () => {
  const pooled: EngineRequest = { ...request(ids(513), { maxTokens: 0 }), pooling: "mean" };
  expect(() => checkRequest({ ...pooled, promptIds: Int32Array.from(ids(100)) }, INFO)).not.toThrow();
  expect(() => checkRequest(pooled, INFO)).toThrow(expect.objectContaining({ param: "input" }));
  expect(() => checkRequest(request(ids(513)), INFO)).toThrow(expect.objectContaining({ param: "max_tokens" }));
});

test("a request that fills the KV memory to the last slot is accepted, and the refusal of one more does the arithmetic", () => {
  expect(() => checkRequest(request(ids(100), { maxTokens: 29 }), INFO)).not.toThrow();
  expect(() => checkRequest(request(ids(100), { maxTokens: 30 }), INFO)).toThrow(
    "8 blocks × 16 tokens = 128 tokens, got 100 + 30 = 130 tokens (9 blocks)",
  );
});
