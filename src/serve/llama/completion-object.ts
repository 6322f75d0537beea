/** The JSON of llama-server's completions: complete, and as events. The last event has all fields but the text. */
import { errorBody } from "../../core/error-body.js";
import type { SamplingParams } from "../../engine/api/request.js";
import type { Tokenizer } from "../../text/tokenizer/tokenizer.js";
import type { GenerationEnd, ScoredToken } from "../generation/generation.js";
import type { StreamFrames } from "../http/respond.js";
import { DRY_ALLOWED_LENGTH, DRY_BASE, XTC_THRESHOLD } from "../openai/llama-samplers.js";
import { chatLogprobs } from "../openai/logprobs.js";
import type { ChoiceTimings } from "../openai/timings.js";

export interface CompletionFacts {
  readonly model: string;
  readonly prompt: string;
  readonly numPromptTokens: number;
  readonly sampling: SamplingParams;
  readonly stops: readonly string[];
  readonly numTokensAsked: number;
  readonly requestId: string;
  readonly maxModelLen: number;
  /** Whether the request asks for `completion_probabilities`. */
  readonly isScored: boolean;
  /** Whether each event of a stream has timings. */
  readonly timesEach: boolean;
  /** The fields for the answer, each a name or a path such as `timings/prompt_n`; absent: all. */
  readonly wanted: readonly string[] | undefined;
}

/** OpenAI's log-probabilities plus the tokens' ids, as llama-server has them. */
function probabilityField(tokenizer: Tokenizer, { isScored }: CompletionFacts, scored: readonly ScoredToken[]): object {
  if (!isScored) return {};
  const { content } = chatLogprobs(tokenizer, scored, false);
  const completion_probabilities = content.map((token, i) => {
    const { tokenId, top } = scored[i]!.logprob;
    return {
      id: tokenId,
      ...token,
      top_logprobs: token.top_logprobs.map((each, rank) => ({ id: top[rank]!.tokenId, ...each })),
    };
  });
  return { completion_probabilities };
}

/** As in llama-server, a nested field comes under its complete path, and a missing field is left out. */
function onlyWanted(answer: object, wanted: readonly string[] | undefined): object {
  if (wanted === undefined) return answer;
  const valueAt = (path: string): unknown =>
    path.split("/").reduce<unknown>((value, name) => {
      if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
      return (value as Readonly<Record<string, unknown>>)[name];
    }, answer);
  return Object.fromEntries(wanted.map((path) => [path, valueAt(path)]));
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
    repeat_last_n: sampling.penaltyWindow ?? -1,
    dry_multiplier: sampling.dry?.multiplier ?? 0,
    dry_base: sampling.dry?.base ?? DRY_BASE,
    dry_allowed_length: sampling.dry?.allowedLength ?? DRY_ALLOWED_LENGTH,
    dry_penalty_last_n: sampling.dry?.window ?? -1,
    top_n_sigma: sampling.topNSigma ?? -1,
    typical_p: sampling.typicalP ?? 1,
    xtc_probability: sampling.xtc?.probability ?? 0,
    xtc_threshold: sampling.xtc?.threshold ?? XTC_THRESHOLD,
    dynatemp_range: sampling.dynamicTemperature?.range ?? 0,
    dynatemp_exponent: sampling.dynamicTemperature?.exponent ?? 1,
    seed: Number(BigInt.asIntN(64, sampling.seed)),
    stop: stops,
  };
}

/** Facts known at an answer's end. */
export interface Ended {
  readonly end: GenerationEnd;
  readonly timings: ChoiceTimings;
  /** Tokens whose keys and values were evicted. */
  readonly numEvicted: number;
}

interface Output {
  readonly content: string;
  readonly tokens: readonly number[];
  readonly hasNewLine: boolean;
  readonly scored: readonly ScoredToken[];
}

/** @param output for a stream, without the content, tokens and scores of its earlier events */
export function endedObject(
  tokenizer: Tokenizer,
  facts: CompletionFacts,
  index: number,
  { content, tokens, hasNewLine, scored }: Output,
  ended: Ended,
): object {
  const { numPromptTokens, model, prompt } = facts;
  const { end, timings } = ended;
  const numTokens = numPromptTokens + timings.numPredicted;
  const answer = {
    index,
    content,
    tokens,
    id_slot: -1,
    stop: true,
    model,
    tokens_predicted: timings.numPredicted,
    tokens_evaluated: numPromptTokens,
    generation_settings: settingsOf(facts),
    prompt,
    has_new_line: hasNewLine,
    truncated: ended.numEvicted > 0 || (end.reason === "length" && numTokens >= facts.maxModelLen),
    ...stopFields(end),
    tokens_cached: numTokens,
    timings: timings.toObject(),
    ...probabilityField(tokenizer, facts, scored),
  };
  return onlyWanted(answer, facts.wanted);
}

export function completionFrames(
  tokenizer: Tokenizer,
  all: readonly CompletionFacts[],
  allTimings: readonly ChoiceTimings[],
): StreamFrames {
  const hasNewLine = all.map(() => false);
  const event = (object: object): string => `data: ${JSON.stringify(object)}\n\n`;
  return {
    onUpdate(index, update) {
      const facts = all[index]!;
      const timings = allTimings[index]!;
      timings.update(update);
      const { text, tokenIds, scored, end, numEvictedTokens } = update;
      hasNewLine[index] ||= text.includes("\n");
      const piece = {
        index,
        content: text,
        tokens: tokenIds,
        stop: false,
        id_slot: -1,
        tokens_predicted: timings.numPredicted,
        tokens_evaluated: facts.numPromptTokens,
        ...probabilityField(tokenizer, facts, scored),
        ...(facts.timesEach ? { timings: timings.toObject() } : {}),
      };
      const news = text === "" && tokenIds.length === 0 ? "" : event(piece);
      if (end === undefined) return news;
      const ended = { end, timings, numEvicted: numEvictedTokens };
      const rest = { content: "", tokens: [], hasNewLine: hasNewLine[index]!, scored: [] };
      return news + event(endedObject(tokenizer, facts, index, rest, ended));
    },
    onDone: () => "",
    onError: (error) => event(errorBody(error, all[0]!.requestId)),
  };
}
