/** Checks a request before it goes to the engine's thread. */
import { MillraceError } from "../core/errors.js";
import type { Task } from "../model/description/servable.js";
import { MAX_DRY_TAIL } from "../text/dry-breakers.js";
import type { DryPenalty, EngineRequest, SamplingParams } from "./api/request.js";
import {
  assertTokenIds,
  MAX_ALLOWED_TOKENS,
  MAX_BAD_WORD_TOKENS,
  MAX_BAD_WORDS,
  MAX_DRY_BREAKERS,
  MAX_LOGIT_BIASES,
  MAX_LOGPROBS,
  MAX_STOP_TOKENS,
} from "./api/request.js";
import type { EngineInfo } from "./api/stats.js";
import { Eviction } from "./memory/eviction.js";

/** @example wrongTask("generate", info) // expected a model that generates text, got one that embeds texts (bert) */
function wrongTask(wanted: Task, { tasks, architecture }: Pick<EngineInfo, "tasks" | "architecture">): MillraceError {
  const does = tasks.map((task) => TASK_WORDS[task]).join(" and ");
  return new MillraceError(
    "wrong_task",
    `expected a model that ${TASK_WORDS[wanted]}, got one that ${does} (${architecture})`,
    {
      hint: "send the request to another model: /v1/models of a server lists what its model is for",
    },
  );
}

/** Throws wrong_task, unless the model does the task. One that embeds texts scores them too, by their cosine. */
export function assertTask(wanted: Task, info: Pick<EngineInfo, "tasks" | "architecture">): void {
  const isDone = info.tasks.includes(wanted) || (wanted === "rerank" && info.tasks.includes("embed"));
  if (!isDone) throw wrongTask(wanted, info);
}

const TASK_WORDS: Readonly<Record<Task, string>> = {
  generate: "generates text",
  embed: "embeds texts",
  rerank: "scores texts against a query",
};

/** Throws the coded error of the first fault. */
export function checkRequest(request: EngineRequest, info: EngineInfo): void {
  const { promptIds, sampling } = request;
  const numPromptTokens = promptIds.length;
  if (numPromptTokens === 0) {
    throw new MillraceError("empty_prompt", "expected a prompt of at least one token, got none", { param: "prompt" });
  }
  const [firstTask] = info.tasks;
  if (request.pooling === undefined && firstTask !== "generate") throw wrongTask("generate", info);
  checkSampling(sampling);
  assertTokenIds(promptIds, info.vocabSize, "prompt");
  assertTokenIds(sampling.stopTokenIds, info.vocabSize, "stop_token_ids");
  assertTokenIds(
    sampling.logitBias.map(([tokenId]) => tokenId),
    info.vocabSize,
    "logit_bias",
  );
  checkLists(sampling, info.vocabSize);
  if (sampling.dry !== undefined) checkDry(sampling.dry, info.vocabSize);
  checkCount(sampling.logitBias.length, MAX_LOGIT_BIASES, "logit_bias");
  checkCount(sampling.stopTokenIds.length, MAX_STOP_TOKENS, "stop_token_ids");
  checkCount(sampling.numLogprobs ?? 0, MAX_LOGPROBS, "logprobs");
  checkCount(sampling.numPromptLogprobs ?? 0, MAX_LOGPROBS, "prompt_logprobs");
  if (request.pooling !== undefined && sampling.maxTokens !== 0) {
    throw new MillraceError(
      "invalid_parameter",
      `expected no output tokens from a request for a pooled vector, got ${sampling.maxTokens}`,
      { param: "max_tokens" },
    );
  }
  const lengthParam = request.pooling === undefined ? "max_tokens" : "input";
  const numTokens = numPromptTokens + sampling.maxTokens;
  if (numTokens > info.maxModelLen) {
    throw new MillraceError(
      "context_length_exceeded",
      `expected prompt and output within the context (this model's maximum context length is ${info.maxModelLen} tokens), got ${numPromptTokens} + ${sampling.maxTokens} = ${numTokens}`,
      { param: lengthParam, hint: "Shorten the prompt or lower max_tokens; nothing is cut silently." },
    );
  }
  // The K and V of the last output token are never read.
  const numStored = Math.max(numPromptTokens, numTokens - 1);
  const numBlocks =
    info.kvEviction === undefined
      ? Math.ceil(numStored / info.blockSize)
      : new Eviction(info.kvEviction, info.blockSize).mostBlocks(numPromptTokens, numStored);
  if (numBlocks > info.numKvBlocks) {
    throw new MillraceError(
      "kv_capacity_exceeded",
      `expected a request within the KV memory of ${info.numKvBlocks} blocks × ${info.blockSize} tokens = ${info.numKvBlocks * info.blockSize} tokens, got ${numPromptTokens} + ${sampling.maxTokens} = ${numTokens} tokens (${numBlocks} blocks)`,
      {
        param: lengthParam,
        hint: "Lower max_tokens, shorten the prompt, or start with more --kv-cache-memory-bytes.",
      },
    );
  }
}

function checkLists({ allowedTokenIds, badWords = [], thought }: SamplingParams, vocabSize: number): void {
  if (thought !== undefined) {
    checkNumber(thought.maxTokens, 0, 2 ** 31 - 1, "thinking_token_budget");
    assertTokenIds([thought.closeId, thought.opening?.id ?? thought.closeId], vocabSize, "thinking_token_budget");
  }
  if (allowedTokenIds !== undefined) {
    checkCount(allowedTokenIds.length, MAX_ALLOWED_TOKENS, "allowed_token_ids");
    assertTokenIds(allowedTokenIds, vocabSize, "allowed_token_ids");
    if (allowedTokenIds.length === 0) {
      throw new MillraceError("invalid_parameter", "expected at least one token for allowed_token_ids, got none", {
        param: "allowed_token_ids",
      });
    }
  }
  checkCount(badWords.length, MAX_BAD_WORDS, "bad_words");
  for (const word of badWords) {
    assertTokenIds(word, vocabSize, "bad_words");
    checkCount(word.length, MAX_BAD_WORD_TOKENS, "bad_words' tokens");
    if (word.length === 0) {
      throw new MillraceError("invalid_parameter", "expected words of at least one token for bad_words, got none", {
        param: "bad_words",
      });
    }
  }
}

function checkDry({ multiplier, base, allowedLength, window, breakers }: DryPenalty, vocabSize: number): void {
  checkNumber(multiplier, 0, MAX_NUMBER, "dry_multiplier");
  checkNumber(base, 1, MAX_NUMBER, "dry_base");
  checkInteger(allowedLength, 0, "dry_allowed_length");
  checkInteger(window ?? 0, 0, "dry_penalty_last_n");
  checkCount(breakers.length, MAX_DRY_BREAKERS, "dry_sequence_breakers");
  for (const { heads, tail } of breakers) {
    assertTokenIds(heads, vocabSize, "dry_sequence_breakers");
    assertTokenIds(tail, vocabSize, "dry_sequence_breakers");
    checkCount(tail.length, MAX_DRY_TAIL, "dry_sequence_breakers' tokens");
  }
}

/**
 * The bounds of the kernels (native/cpu/runtime/decode_sample.cc): a step that the kernels refuse would end the engine
 * and every other request.
 */
function checkSampling(sampling: SamplingParams): void {
  checkNumber(sampling.temperature, 0, MAX_NUMBER, "temperature");
  checkNumber(sampling.topP, 0, MAX_NUMBER, "top_p");
  checkNumber(sampling.minP, 0, 1, "min_p");
  checkNumber(sampling.presencePenalty, -MAX_NUMBER, MAX_NUMBER, "presence_penalty");
  checkNumber(sampling.frequencyPenalty, -MAX_NUMBER, MAX_NUMBER, "frequency_penalty");
  checkNumber(sampling.repetitionPenalty, 1e-30, MAX_NUMBER, "repetition_penalty");
  checkInteger(sampling.topK, 0, "top_k");
  checkInteger(sampling.penaltyWindow ?? 0, 0, "repeat_last_n");
  checkNumber(sampling.topNSigma ?? 0, 0, MAX_NUMBER, "top_n_sigma");
  checkNumber(sampling.typicalP ?? 1, 0, 1, "typical_p");
  checkNumber(sampling.xtc?.probability ?? 0, 0, 1, "xtc_probability");
  checkNumber(sampling.xtc?.threshold ?? 0, 0, 1, "xtc_threshold");
  checkNumber(sampling.dynamicTemperature?.range ?? 0, 0, MAX_NUMBER, "dynatemp_range");
  checkNumber(sampling.dynamicTemperature?.exponent ?? 0, 0, MAX_NUMBER, "dynatemp_exponent");
  for (const [, bias] of sampling.logitBias) checkNumber(bias, -MAX_NUMBER, MAX_NUMBER, "logit_bias");
}

/** Just below the largest finite float. */
const MAX_NUMBER = 3.4e38;

function checkNumber(value: number, min: number, max: number, param: string): void {
  if (value >= min && value <= max) return;
  throw new MillraceError("invalid_parameter", `expected ${param} in [${min}, ${max}], got ${value}`, { param });
}

function checkInteger(value: number, min: number, param: string): void {
  checkNumber(value, min, 2 ** 31 - 1, param);
  if (Number.isInteger(value)) return;
  throw new MillraceError("invalid_parameter", `expected an integer for ${param}, got ${value}`, { param });
}

function checkCount(count: number, max: number, param: string): void {
  if (count <= max) return;
  throw new MillraceError("invalid_parameter", `expected at most ${max} for ${param}, got ${count}`, { param });
}
