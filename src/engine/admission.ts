/** The door of the engine: what a request must satisfy before it costs anything. */
import { MillraceError } from "../core/errors.js";
import type { EngineInfo, EngineRequest } from "./api.js";
import { MAX_LOGIT_BIASES, MAX_LOGPROBS, MAX_STOP_TOKENS } from "./api.js";

/** Throws the coded error for the first thing wrong with a request. */
export function checkRequest(request: EngineRequest, info: EngineInfo): void {
  const { promptIds, sampling } = request;
  const numPromptTokens = promptIds.length;
  if (numPromptTokens === 0) {
    throw new MillraceError("empty_prompt", "expected a prompt of at least one token, got none", { param: "prompt" });
  }
  checkIds(promptIds, info.vocabSize, "prompt");
  checkIds(sampling.stopTokenIds, info.vocabSize, "stop_token_ids");
  checkIds(
    sampling.logitBias.map(([tokenId]) => tokenId),
    info.vocabSize,
    "logit_bias",
  );
  checkCount(sampling.logitBias.length, MAX_LOGIT_BIASES, "logit_bias");
  checkCount(sampling.stopTokenIds.length, MAX_STOP_TOKENS, "stop_token_ids");
  checkCount(sampling.numLogprobs ?? 0, MAX_LOGPROBS, "logprobs");
  checkCount(sampling.numPromptLogprobs ?? 0, MAX_LOGPROBS, "prompt_logprobs");
  const numTokens = numPromptTokens + sampling.maxTokens;
  if (numTokens > info.maxModelLen) {
    throw new MillraceError(
      "context_length_exceeded",
      `expected prompt and output within ${info.maxModelLen} tokens, got ${numPromptTokens} + ${sampling.maxTokens} = ${numTokens}`,
      { param: "max_tokens", hint: "Shorten the prompt or lower max_tokens; nothing is cut silently." },
    );
  }
  // The last output token's K and V are never needed.
  const numBlocks = Math.ceil(Math.max(numPromptTokens, numTokens - 1) / info.blockSize);
  if (numBlocks > info.numKvBlocks) {
    throw new MillraceError(
      "kv_capacity_exceeded",
      `expected a request within the KV memory of ${info.numKvBlocks} blocks × ${info.blockSize} tokens = ${info.numKvBlocks * info.blockSize} tokens, got ${numPromptTokens} + ${sampling.maxTokens} = ${numTokens} tokens (${numBlocks} blocks)`,
      {
        param: "max_tokens",
        hint: "Lower max_tokens, shorten the prompt, or start with more --kv-cache-memory-bytes.",
      },
    );
  }
}

function checkIds(ids: ArrayLike<number>, vocabSize: number, param: string): void {
  for (let i = 0; i < ids.length; i++) {
    const id = ids[i]!;
    if (Number.isInteger(id) && id >= 0 && id < vocabSize) continue;
    throw new MillraceError("token_out_of_range", `expected token ids in [0, ${vocabSize}), got ${id} at index ${i}`, {
      param,
    });
  }
}

function checkCount(count: number, max: number, param: string): void {
  if (count <= max) return;
  throw new MillraceError("invalid_parameter", `expected at most ${max} for ${param}, got ${count}`, { param });
}
