import { expect, test } from "vitest";
import { request } from "../../test/helpers/engine-requests.js";
import { checkRequest } from "./admission.js";
import type { EngineRequest } from "./api/request.js";
import type { EngineInfo } from "./api/stats.js";

const INFO: EngineInfo = {
  architecture: "llama",
  weightType: "F16",
  numParameters: 1,
  weightBytes: 1,
  vocabSize: 100,
  maxModelLen: 512,
  embeddingWidth: 8,
  pooling: "last",
  kvWindows: [0],
  blockSize: 16,
  maxNumSeqs: 4,
  numKvBlocks: 8,
  kvBytes: 1,
  kvCacheDtype: "f16",
  numThreads: 1,
  isa: "portable",
};
const ids = (length: number) => new Array<number>(length).fill(1);

test.each<[string, EngineRequest, string]>([
  ["no tokens", request([]), "empty_prompt"],
  ["an id beyond the vocabulary", request([1, 100]), "token_out_of_range"],
  ["a negative id", request([-1]), "token_out_of_range"],
  ["a stop id beyond the vocabulary", request([1], { stopTokenIds: [100] }), "token_out_of_range"],
  ["an allowed id beyond the vocabulary", request([1], { allowedTokenIds: [100] }), "token_out_of_range"],
  ["too many allowed ids", request([1], { allowedTokenIds: new Array(16_385).fill(1) }), "invalid_parameter"],
  ["no allowed id", request([1], { allowedTokenIds: [] }), "invalid_parameter"],
  ["a bad word beyond the vocabulary", request([1], { badWords: [[1], [2, 100]] }), "token_out_of_range"],
  ["a bad word of nothing", request([1], { badWords: [[]] }), "invalid_parameter"],
  ["a bad word that is too long", request([1], { badWords: [new Array(129).fill(1)] }), "invalid_parameter"],
  ["too many bad words", request([1], { badWords: new Array(1025).fill([1]) }), "invalid_parameter"],
  ["a biased id beyond the vocabulary", request([1], { logitBias: [[100, 1]] }), "token_out_of_range"],
  ["a vector and tokens", { ...request([1], { maxTokens: 1 }), pooling: "mean" }, "invalid_parameter"],
  ["too many biases", request([1], { logitBias: ids(1025).map((id) => [id, 1] as const) }), "invalid_parameter"],
  ["too many stop ids", request([1], { stopTokenIds: ids(257) }), "invalid_parameter"],
  ["too many log-probabilities", request([1], { numLogprobs: 21 }), "invalid_parameter"],
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

test("a request that fills the KV memory to the last slot is accepted, and the refusal of one more does the arithmetic", () => {
  expect(() => checkRequest(request(ids(100), { maxTokens: 29 }), INFO)).not.toThrow();
  expect(() => checkRequest(request(ids(100), { maxTokens: 30 }), INFO)).toThrow(
    "8 blocks × 16 tokens = 128 tokens, got 100 + 30 = 130 tokens (9 blocks)",
  );
});
