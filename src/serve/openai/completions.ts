/**
 * POST /v1/completions: text or token ids in, one or many prompts, with echo and log-probabilities for evaluation
 * tools.
 */

import { z } from "zod";
import { errorBody } from "../../core/error-body.js";
import { MAX_LOGPROBS } from "../../engine/api/request.js";
import { recipeText } from "../../text/answer/answer-recipe.js";
import { countCodePoints } from "../generation/code-points.js";
import type { GenerationUpdate, ScoredToken } from "../generation/generation.js";
import { choiceSeeds } from "../generation/seeds.js";
import type { AppContext, PromptContext, ServeContext } from "../http/context.js";
import { invalidParameter } from "../http/invalid-parameter.js";
import { readJsonObject } from "../http/read-body.js";
import { type RequestTerms, requestTerms } from "../http/request-terms.js";
import { collectResults, type StreamFrames, streamResults } from "../http/respond.js";
import { SAMPLING_ALIASES } from "./aliases.js";
import {
  encodePrompts,
  infillPrompts,
  type Prompt,
  type PromptField,
  promptField,
  promptOffsets,
} from "./completion-prompts.js";
import { formOf } from "./constraint.js";
import { type Envelope, envelopeOf } from "./envelope.js";
import { type FieldRules, INERT_FIELDS, isEmptyArray, parseFields, SAMPLING_UNSUPPORTED } from "./fields.js";
import { jsonInTurns } from "./json-in-turns.js";
import { LLAMA_INERT_FIELDS, LLAMA_UNSUPPORTED } from "./llama-fields.js";
import { dryPenaltyOf } from "./llama-samplers.js";
import { type LegacyEntry, legacyLogprobs, promptLogprobs } from "./logprobs.js";
import { resolveModelName } from "./model-name.js";
import { assertNumSequences, badWordsOf, planChoices } from "./sampling.js";
import {
  integerIn,
  maxTokensField,
  maxTokensOf,
  modelField,
  numChoicesField,
  samplingShape,
  streamOptionsField,
  streamUsageOf,
  termsShape,
} from "./schema-parts.js";
import { ChunkUsage, usageOf } from "./usage.js";

/** OpenAI's default for this endpoint. */
const DEFAULT_MAX_TOKENS = 16;

const schema = z.strictObject({
  model: modelField.optional(),
  prompt: promptField,
  max_tokens: maxTokensField.optional(),
  n: numChoicesField.optional(),
  stream: z.boolean().optional(),
  stream_options: streamOptionsField.optional(),
  logprobs: integerIn(0, MAX_LOGPROBS).optional(),
  echo: z.boolean().optional(),
  add_special_tokens: z.boolean().optional(),
  suffix: z.string().optional(),
  ...samplingShape,
  ...termsShape,
});

type CompletionRequest = z.output<typeof schema>;

export const COMPLETION_RULES: FieldRules<(typeof schema)["shape"]> = {
  schema,
  inert: new Set([...INERT_FIELDS, ...LLAMA_INERT_FIELDS, "parallel_tool_calls", "timings_per_token"]),
  aliases: SAMPLING_ALIASES,
  unsupported: {
    ...SAMPLING_UNSUPPORTED,
    prompt_embeds: isEmptyArray,
    ...LLAMA_UNSUPPORTED,
  },
};

function assertConsistent(request: CompletionRequest): void {
  if (request.stream_options !== undefined && request.stream !== true) {
    throw invalidParameter("stream_options", "expected stream to be true beside it, got false");
  }
  if (request.stream === true && request.prompt_logprobs !== undefined) {
    throw invalidParameter("prompt_logprobs", "expected stream to be false beside it, got true");
  }
  if (hasSuffix(request) && request.echo === true)
    throw invalidParameter("echo", "expected false beside suffix, got true");
  if (request.max_tokens === 0 && request.echo !== true && request.prompt_logprobs === undefined) {
    throw invalidParameter("max_tokens", "expected at least 1, or echo to be true beside it, got 0");
  }
}

type PromptScores = GenerationUpdate["promptLogprobs"];

/** Truncates the candidates, since another field may have requested more. */
function withTop(scores: PromptScores, numTop: number): PromptScores {
  return scores?.map((score) => (score === null ? null : { ...score, top: score.top.slice(0, numTop) }));
}

/** Converts a choice's updates to `text` and `logprobs`, and puts the echoed prompt before the first update. */
class ChoiceWriter {
  readonly #context: ServeContext;
  readonly #request: CompletionRequest;
  readonly #prompt: Prompt;
  readonly #outputStart: number;
  /** Set on arrival, with or before the first token. */
  promptScores: PromptScores;

  constructor(context: ServeContext, request: CompletionRequest, prompt: Prompt) {
    this.#context = context;
    this.#request = request;
    this.#prompt = prompt;
    this.#outputStart = request.echo === true ? countCodePoints(prompt.text) : 0;
  }

  text(text: string, isFirst: boolean): string {
    return isFirst && this.#request.echo === true ? this.#prompt.text + text : text;
  }

  logprobs(scored: readonly ScoredToken[], isFirst: boolean): ReturnType<typeof legacyLogprobs> | null {
    if (this.#request.logprobs === undefined) return null;
    const entries: LegacyEntry[] = isFirst && this.#request.echo === true ? this.#promptEntries() : [];
    for (const { logprob, textOffset } of scored) {
      entries.push({ tokenId: logprob.tokenId, logprob, textOffset: this.#outputStart + textOffset });
    }
    return legacyLogprobs(this.#context.tokenizer, entries, this.#request.return_tokens_as_token_ids === true);
  }

  /** The ids of the prompt and of the new tokens, if the request asks for them. */
  tokenIds(tokenIds: readonly number[], isFirst: boolean): object | undefined {
    if (this.#request.return_token_ids !== true) return undefined;
    return isFirst ? { prompt_token_ids: Array.from(this.#prompt.ids), token_ids: tokenIds } : { token_ids: tokenIds };
  }

  #promptEntries(): LegacyEntry[] {
    const scores = withTop(this.promptScores, this.#request.logprobs ?? 0) ?? [];
    const offsets = promptOffsets(this.#context.tokenizer, this.#prompt, this.#request.skip_special_tokens === false);
    return Array.from(this.#prompt.ids, (tokenId, i) => ({
      tokenId,
      logprob: scores[i] ?? null,
      textOffset: offsets[i]!,
    }));
  }
}

/** The streamed form. JSON is concatenated from strings, for the same reason as in chatFrames. */
function completionFrames(
  envelope: Envelope,
  request: CompletionRequest,
  prompts: readonly Prompt[],
  writers: readonly ChoiceWriter[],
  requestId: string,
): StreamFrames {
  const numChoices = request.n ?? 1;
  const promptLengths = writers.map((_, index) => prompts[Math.floor(index / numChoices)]!.ids.length);
  const usage = new ChunkUsage(streamUsageOf(request.stream_options), promptLengths);
  const head = JSON.stringify({ ...envelope, object: "text_completion" }).slice(0, -1);
  const prefixes = writers.map((_, index) => `data: ${head},"choices":[{"index":${index},"text":`);
  const hasBegun = writers.map(() => false);
  return {
    onUpdate(index, update) {
      const writer = writers[index]!;
      usage.add(index, update.numNewTokens);
      writer.promptScores ??= update.promptLogprobs;
      // Prompt scores may arrive before the first token; the echo waits for the first token.
      const isNews = update.text !== "" || update.numNewTokens > 0 || update.end !== undefined;
      const isFirst = !hasBegun[index] && isNews;
      const text = isNews ? writer.text(update.text, isFirst) : "";
      const hasTokens = update.scored.length > 0 || update.tokenIds.length > 0;
      if (text === "" && !hasTokens && update.end === undefined) return "";
      hasBegun[index] = true;
      const logprobs =
        request.logprobs === undefined ? "null" : JSON.stringify(writer.logprobs(update.scored, isFirst));
      const reason = update.end === undefined ? "null" : `"${update.end.reason}"`;
      const stopReason = JSON.stringify(update.end?.stopReason ?? null);
      const ids = writer.tokenIds(update.tokenIds, isFirst);
      const idFields = ids === undefined ? "" : `,${JSON.stringify(ids).slice(1, -1)}`;
      return `${prefixes[index]}${JSON.stringify(text)},"logprobs":${logprobs},"finish_reason":${reason},"stop_reason":${stopReason}${idFields}}]${usage.field(index)}}\n\n`;
    },
    onDone(totals) {
      if (!usage.isWanted) return "data: [DONE]\n\n";
      const lengths = prompts.map((prompt) => prompt.ids.length);
      const whole = JSON.stringify(usageOf(lengths, numChoices, totals));
      return `data: ${head},"choices":[],"usage":${whole}}\n\ndata: [DONE]\n\n`;
    },
    onError: (error) => `data: ${JSON.stringify(errorBody(error, requestId))}\n\ndata: [DONE]\n\n`,
  };
}

async function planAll(
  context: ServeContext,
  request: CompletionRequest,
  prompts: readonly Prompt[],
  terms: RequestTerms,
) {
  const badWords = await badWordsOf(context, request.bad_words);
  const dry = await dryPenaltyOf(context, request);
  const isEchoScored = request.echo === true && request.logprobs !== undefined;
  const form = formOf(request);
  const recipe = form === undefined ? undefined : recipeText(form);
  const plans = prompts.map((prompt) => ({
    fields: request,
    terms,
    promptIds: prompt.ids,
    maxTokens: maxTokensOf(request.max_tokens ?? DEFAULT_MAX_TOKENS),
    maxTokensField: "max_tokens",
    promptField: "prompt",
    numLogprobs: request.logprobs,
    numPromptLogprobs: isEchoScored
      ? Math.max(request.logprobs ?? 0, request.prompt_logprobs ?? 0)
      : request.prompt_logprobs,
    badWords,
    dry,
    reading: undefined,
    recipe,
  }));
  return planChoices(context, plans, request.n ?? 1, choiceSeeds(request.seed, context.drawSeed));
}

function hasSuffix({ suffix }: CompletionRequest): boolean {
  return suffix !== undefined && suffix !== "";
}

export async function completionPrompts(context: PromptContext, request: CompletionRequest): Promise<Prompt[]> {
  const addSpecial = request.add_special_tokens ?? true;
  if (!hasSuffix(request)) return encodeRequest(context, request, addSpecial);
  const prompts = await encodeRequest(context, request, false);
  return infillPrompts(context, prompts, { suffix: request.suffix ?? "", addSpecial });
}

function encodeRequest(context: PromptContext, request: CompletionRequest, addSpecial: boolean): Promise<Prompt[]> {
  return encodePrompts(context, request.prompt as PromptField, {
    addSpecial,
    keepSpecial: request.skip_special_tokens === false,
    truncate: request.truncate_prompt_tokens,
    side: request.truncation_side,
    numWanted: maxTokensOf(request.max_tokens ?? DEFAULT_MAX_TOKENS) ?? 1,
  });
}

export async function completions(c: AppContext, context: ServeContext): Promise<Response> {
  const request = parseFields(c, context, COMPLETION_RULES, await readJsonObject(c, context.limits));
  assertConsistent(request);
  const terms = requestTerms(c, context, request);
  const model = resolveModelName(context, request.model);
  const numChoices = request.n ?? 1;
  const prompts = await completionPrompts(context, request);
  assertNumSequences(context, prompts.length, numChoices);
  const generations = await planAll(context, request, prompts, terms);
  const writers = generations.map(
    (_, index) => new ChoiceWriter(context, request, prompts[Math.floor(index / numChoices)]!),
  );
  const envelope = envelopeOf(context, "cmpl", model);
  if (request.stream === true) {
    const frames = completionFrames(envelope, request, prompts, writers, c.get("requestId"));
    return streamResults(c, context, generations, terms, frames);
  }
  const { results, totals } = await collectResults(c, context, generations, terms);
  const choices = results.map((result, index) => () => {
    const writer = writers[index]!;
    writer.promptScores = result.promptLogprobs;
    const scores = withTop(result.promptLogprobs, request.prompt_logprobs ?? 0);
    const hasPromptScores = request.prompt_logprobs !== undefined && scores !== undefined;
    return {
      index,
      text: writer.text(result.text, true),
      logprobs: writer.logprobs(result.scored, true),
      finish_reason: result.end.reason,
      stop_reason: result.end.stopReason,
      // As in vLLM, null unless the request asks for them.
      ...(writer.tokenIds(result.tokenIds, true) ?? { prompt_token_ids: null, token_ids: null }),
      prompt_logprobs: hasPromptScores ? promptLogprobs(context.tokenizer, scores) : null,
    };
  });
  return jsonInTurns(c, { ...envelope, object: "text_completion" }, ["choices", choices], () => ({
    usage: usageOf(
      prompts.map((prompt) => prompt.ids.length),
      numChoices,
      totals,
    ),
  }));
}
