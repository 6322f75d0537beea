/** The JSON of llama-server's completions: whole, and as events, of which the last has everything but the text. */
import { errorBody } from "../../core/error-body.js";
import type { SamplingParams } from "../../engine/api/request.js";
import type { AnswerClock, AnswerTimes } from "../generation/answer-clock.js";
import type { GenerationEnd } from "../generation/generation.js";
import type { StreamFrames } from "../http/respond.js";

export interface CompletionFacts {
  readonly model: string;
  readonly prompt: string;
  readonly numPromptTokens: number;
  readonly sampling: SamplingParams;
  readonly stops: readonly string[];
  readonly numTokensAsked: number;
  readonly requestId: string;
}

function stopFields({ reason, stopReason }: GenerationEnd): object {
  const word = typeof stopReason === "string" ? stopReason : "";
  return { stop_type: reason === "length" ? "limit" : word === "" ? "eos" : "word", stopping_word: word };
}

function settingsOf({ sampling, stops, numTokensAsked }: CompletionFacts): object {
  return {
    n_predict: numTokensAsked,
    max_tokens: sampling.maxTokens,
    temperature: sampling.temperature,
    top_k: sampling.topK,
    top_p: sampling.topP,
    min_p: sampling.minP,
    repeat_penalty: sampling.repetitionPenalty,
    presence_penalty: sampling.presencePenalty,
    frequency_penalty: sampling.frequencyPenalty,
    seed: Number(BigInt.asIntN(64, sampling.seed)),
    stop: stops,
  };
}

/** Facts known at an answer's end. */
export interface Ended {
  readonly end: GenerationEnd;
  readonly times: AnswerTimes;
  readonly numPredicted: number;
  readonly numCached: number;
  /** Tokens whose keys and values were evicted. */
  readonly numEvicted: number;
}

/** Milliseconds, and what follows from them. */
function timingsOf({ times: { promptMs, answerMs }, numPredicted }: Ended, numPrompt: number): object {
  const perToken = (ms: number, count: number) => (count === 0 ? 0 : ms / count);
  const perSecond = (ms: number, count: number) => (ms === 0 ? 0 : (1000 * count) / ms);
  return {
    prompt_n: numPrompt,
    prompt_ms: promptMs,
    prompt_per_token_ms: perToken(promptMs, numPrompt),
    prompt_per_second: perSecond(promptMs, numPrompt),
    predicted_n: numPredicted,
    predicted_ms: answerMs,
    predicted_per_token_ms: perToken(answerMs, numPredicted),
    predicted_per_second: perSecond(answerMs, numPredicted),
  };
}

interface Output {
  readonly content: string;
  readonly tokens: readonly number[];
  readonly hasNewLine: boolean;
}

/** @param output without content and tokens in a stream, whose earlier events had them */
export function endedObject(
  facts: CompletionFacts,
  index: number,
  { content, tokens, hasNewLine }: Output,
  ended: Ended,
): object {
  const { numPromptTokens, model, prompt } = facts;
  return {
    index,
    content,
    tokens,
    id_slot: -1,
    stop: true,
    model,
    tokens_predicted: ended.numPredicted,
    tokens_evaluated: numPromptTokens,
    generation_settings: settingsOf(facts),
    prompt,
    has_new_line: hasNewLine,
    truncated: ended.numEvicted > 0,
    ...stopFields(ended.end),
    tokens_cached: numPromptTokens + ended.numPredicted,
    timings: timingsOf(ended, numPromptTokens - ended.numCached),
  };
}

export function completionFrames(all: readonly CompletionFacts[], clocks: readonly AnswerClock[]): StreamFrames {
  const numPredicted = all.map(() => 0);
  const hasNewLine = all.map(() => false);
  const event = (object: object): string => `data: ${JSON.stringify(object)}\n\n`;
  return {
    onUpdate(index, update) {
      const facts = all[index]!;
      clocks[index]!.update(update);
      numPredicted[index]! += update.numNewTokens;
      const { text, tokenIds, end, numCachedTokens, numEvictedTokens } = update;
      hasNewLine[index] ||= text.includes("\n");
      const piece = {
        index,
        content: text,
        tokens: tokenIds,
        stop: false,
        id_slot: -1,
        tokens_predicted: numPredicted[index]!,
        tokens_evaluated: facts.numPromptTokens,
      };
      const news = text === "" && tokenIds.length === 0 ? "" : event(piece);
      if (end === undefined) return news;
      const times = clocks[index]!.times();
      const counts = { numCached: numCachedTokens, numEvicted: numEvictedTokens };
      const ended = { end, times, numPredicted: numPredicted[index]!, ...counts };
      return (
        news + event(endedObject(facts, index, { content: "", tokens: [], hasNewLine: hasNewLine[index]! }, ended))
      );
    },
    onDone: () => "",
    onError: (error) => event(errorBody(error, all[0]!.requestId)),
  };
}
