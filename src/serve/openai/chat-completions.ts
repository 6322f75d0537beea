/** POST /v1/chat/completions. */

import { z } from "zod";
import { type EngineRequest, MAX_LOGPROBS } from "../../engine/api/request.js";
import type { GenerationRequest, ScoredToken } from "../generation/generation.js";
import { choiceSeeds } from "../generation/seeds.js";
import type { AppContext, Asker, PlanContext, PromptContext, ServeContext } from "../http/context.js";
import { invalidParameter } from "../http/invalid-parameter.js";
import { readJsonObject } from "../http/read-body.js";
import { type RequestTerms, requestTerms } from "../http/request-terms.js";
import { collectResults, streamResults } from "../http/respond.js";
import { CHAT_ALIASES } from "./aliases.js";
import { chatFrames } from "./chat-frames.js";
import { chatMessage, finishReason } from "./chat-message.js";
import { messagesField, templateKwargsField, toChatMessages } from "./chat-messages.js";
import { chatPrompt, effortField, planChat } from "./chat-plan.js";
import { formOf, isConstrained } from "./constraint.js";
import { envelopeOf } from "./envelope.js";
import {
  type FieldRules,
  INERT_FIELDS,
  isEmptyArray,
  isOneOf,
  never,
  parseFields,
  SAMPLING_UNSUPPORTED,
} from "./fields.js";
import { jsonInTurns } from "./json-in-turns.js";
import { LLAMA_INERT_FIELDS, LLAMA_UNSUPPORTED } from "./llama-fields.js";
import { dryPenaltyOf } from "./llama-samplers.js";
import { chatLogprobs, promptLogprobs } from "./logprobs.js";
import { resolveModelName } from "./model-name.js";
import { truncated } from "./prompt-size.js";
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
import { ChoiceTimings } from "./timings.js";
import { functionChoiceField, functionsField, toolChoiceField, toolsField, withTools } from "./tool-fields.js";
import { sayUnenforced } from "./unenforced.js";
import { usageOf } from "./usage.js";

const schema = z.strictObject({
  model: modelField.optional(),
  messages: messagesField,
  max_tokens: maxTokensField.optional(),
  max_completion_tokens: maxTokensField.optional(),
  n: numChoicesField.optional(),
  stream: z.boolean().optional(),
  stream_options: streamOptionsField.optional(),
  logprobs: z.boolean().optional(),
  top_logprobs: integerIn(0, MAX_LOGPROBS).optional(),
  tools: toolsField.optional(),
  tool_choice: toolChoiceField.optional(),
  functions: functionsField.optional(),
  function_call: functionChoiceField.optional(),
  parallel_tool_calls: z.boolean().optional(),
  reasoning_effort: effortField.optional(),
  thinking_token_budget: integerIn(-1, 2 ** 31 - 1).optional(),
  chat_template_kwargs: templateKwargsField.optional(),
  add_generation_prompt: z.boolean().optional(),
  continue_final_message: z.boolean().optional(),
  add_special_tokens: z.boolean().optional(),
  include_reasoning: z.boolean().optional(),
  // vLLM's field: the answer begins with the last message, if that is the assistant's.
  echo: z.boolean().optional(),
  // OpenRouter's field: {"include": true} asks for a stream's last chunk.
  usage: z.looseObject({ include: z.boolean().nullish() }).optional(),
  // llama-server's field: `timings` in the answer and in each chunk of a choice.
  timings_per_token: z.boolean().optional(),
  ...samplingShape,
  ...termsShape,
});

type ChatRequest = z.output<typeof schema>;

/**
 * Settings that clients send to every server: OpenAI's for texts, OpenRouter's choice of providers, and Open WebUI's
 * for
 * Ollama's runner.
 */
const CLIENTS_SETTINGS =
  "verbosity provider models route keep_alive num_batch num_ctx num_gpu num_keep num_thread use_mlock use_mmap".split(
    " ",
  );

/** The request's fields; OpenAI's earlier fields for tools become today's. */
export function parseChat(c: Asker, context: PromptContext, body: Readonly<Record<string, unknown>>): ChatRequest {
  return withTools(parseFields(c, context, CHAT_RULES, body));
}

export const CHAT_RULES: FieldRules<(typeof schema)["shape"]> = {
  schema,
  aliases: CHAT_ALIASES,
  inert: new Set([...INERT_FIELDS, ...LLAMA_INERT_FIELDS, ...CLIENTS_SETTINGS]),
  unsupported: {
    ...SAMPLING_UNSUPPORTED,
    modalities: (value) => Array.isArray(value) && value.every((kind) => kind === "text"),
    audio: never,
    prediction: never,
    web_search_options: never,
    moderation: never,
    chat_template: never,
    // OpenRouter's edits of prompts and answers.
    transforms: isEmptyArray,
    plugins: isEmptyArray,
    // SGLang's and Groq's switches for behaviour that this server always has.
    separate_reasoning: isOneOf(true),
    reasoning_format: isOneOf("auto", "parsed", "deepseek"),
    ...LLAMA_UNSUPPORTED,
  },
};

/** The name of the request's limit field, for error messages. */
function maxTokensFieldOf(request: ChatRequest): string {
  return request.max_completion_tokens === undefined ? "max_tokens" : "max_completion_tokens";
}

const maxTokensIn = ({ max_completion_tokens, max_tokens }: ChatRequest): number | undefined =>
  maxTokensOf(max_completion_tokens ?? max_tokens);

function assertConsistent(request: ChatRequest): void {
  if (request.top_logprobs !== undefined && request.logprobs !== true && request.top_logprobs > 0) {
    throw invalidParameter("top_logprobs", "expected logprobs to be true beside it, got false");
  }
  if (request.stream_options !== undefined && request.stream !== true) {
    throw invalidParameter("stream_options", "expected stream to be true beside it, got false");
  }
  if (request.stream === true && request.prompt_logprobs !== undefined) {
    throw invalidParameter("prompt_logprobs", "expected stream to be false beside it, got true");
  }
  if (maxTokensIn(request) === 0)
    throw invalidParameter(maxTokensFieldOf(request), "expected an integer of at least 1, got 0");
}

interface ChatGenerations {
  readonly requests: readonly GenerationRequest[];
  readonly promptIds: Int32Array;
  /** The text that precedes each answer's own content. */
  readonly echoed: string;
  /** Answers consist of parts: reasoning, content and calls. */
  readonly isTakenApart: boolean;
}

/** The token ids of the request's prompt; ignores its other fields. */
export async function chatPromptIds(context: PromptContext, request: ChatRequest): Promise<Int32Array> {
  const messages = toChatMessages(request.messages);
  const { promptIds } = await chatPrompt(context, messages, request, isConstrained(request));
  return truncatedPrompt(context, request, promptIds);
}

function truncatedPrompt(context: PromptContext, request: ChatRequest, promptIds: Int32Array): Int32Array {
  const { truncate_prompt_tokens: truncate, truncation_side: side } = request;
  const { maxModelLen } = context.engine.info;
  const numWanted = Math.min(maxTokensIn(request) ?? 1, Math.ceil(maxModelLen / 2));
  return truncated(promptIds, truncate, maxModelLen, numWanted, side);
}

async function planGenerations(
  context: PlanContext,
  request: ChatRequest,
  terms: RequestTerms,
): Promise<ChatGenerations> {
  const messages = toChatMessages(request.messages);
  const plan = await planChat(context, messages, request, formOf(request));
  const promptIds = truncatedPrompt(context, request, plan.promptIds);
  const requests = planChoices(
    context,
    [
      {
        ...plan,
        promptIds,
        fields: request,
        terms,
        maxTokens: maxTokensIn(request),
        maxTokensField: maxTokensFieldOf(request),
        promptField: "messages",
        numLogprobs: request.logprobs === true ? (request.top_logprobs ?? 0) : undefined,
        numPromptLogprobs: request.prompt_logprobs,
        badWords: await badWordsOf(context, request.bad_words),
        dry: await dryPenaltyOf(context, request),
        scoresPromptOnce: true,
      },
    ],
    request.n ?? 1,
    choiceSeeds(request.seed, context.drawSeed),
  );
  const last = messages.at(-1);
  const echoed = request.echo === true && last?.role === "assistant" ? last.content : "";
  return { requests, promptIds, echoed, isTakenApart: plan.reading !== undefined };
}

/** The engine requests for a client's body, one for each choice. Throws the endpoint's errors. */
export async function chatEngineRequests(
  asker: Asker,
  context: PlanContext,
  body: Readonly<Record<string, unknown>>,
  terms: RequestTerms,
): Promise<readonly EngineRequest[]> {
  const request = parseChat(asker, context, body);
  assertConsistent(request);
  const { requests } = await planGenerations(context, request, terms);
  return requests.map(({ engineRequest }) => engineRequest);
}

/** POST /chat/completions/input_tokens: the number of tokens in the chat's prompt. */
export async function chatInputTokens(c: AppContext, context: ServeContext): Promise<Response> {
  const request = parseChat(c, context, await readJsonObject(c, context.limits));
  resolveModelName(context, request.model);
  const { length } = await chatPromptIds(context, request);
  return c.json({ object: "response.input_tokens", input_tokens: length });
}

export async function chatCompletions(c: AppContext, context: ServeContext): Promise<Response> {
  const request = parseChat(c, context, await readJsonObject(c, context.limits));
  assertConsistent(request);
  const terms = requestTerms(c, context, request);
  const model = resolveModelName(context, request.model);
  const numChoices = request.n ?? 1;
  assertNumSequences(context, 1, numChoices);
  const { requests, promptIds, echoed, isTakenApart } = await planGenerations(context, request, terms);
  sayUnenforced(c, formOf(request));
  const envelope = envelopeOf(context, "chatcmpl", model);
  const numPromptTokens = promptIds.length;
  const promptTokenIds = request.return_token_ids === true ? Array.from(promptIds) : undefined;
  const showsReasoning = request.include_reasoning !== false;
  const callField = request.functions === undefined ? "tool_calls" : "function_call";
  const isAsId = request.return_tokens_as_token_ids === true;
  const logprobs = (said: readonly ScoredToken[]) =>
    request.logprobs === true ? chatLogprobs(context.tokenizer, said, isAsId) : null;
  const timings =
    request.timings_per_token === true
      ? requests.map(() => new ChoiceTimings(c.get("startMs"), numPromptTokens))
      : undefined;
  if (request.stream === true) {
    const asked = request.usage?.include === true ? { include_usage: true } : {};
    const usage = streamUsageOf({ ...request.stream_options, ...asked });
    const shown = {
      promptTokenIds,
      echoed,
      isTakenApart,
      showsReasoning,
      callField,
      usage,
      logprobs,
      timings,
    } as const;
    const options = { numChoices, numPromptTokens, ...shown };
    return streamResults(c, context, requests, terms, chatFrames(envelope, options, c.get("requestId")));
  }
  const { results, totals } = await collectResults(c, context, requests, terms, (update, i) =>
    timings?.[i]?.update(update),
  );
  const promptScores = results[0]?.promptLogprobs;
  const choices = results.map((result, index) => () => ({
    index,
    message: chatMessage(result, { showsReasoning, callField, echoed }),
    logprobs: logprobs(result.said),
    finish_reason: finishReason(result.end, result.parts, callField),
    stop_reason: result.end.stopReason,
    token_ids: promptTokenIds === undefined ? null : result.tokenIds,
  }));
  return jsonInTurns(c, { ...envelope, object: "chat.completion" }, ["choices", choices], () => ({
    usage: usageOf([numPromptTokens], numChoices, totals),
    ...(timings === undefined ? {} : { timings: timings[0]!.toObject() }),
    // As in vLLM, null unless the request asks for them.
    prompt_token_ids: promptTokenIds ?? null,
    prompt_logprobs: promptScores === undefined ? null : promptLogprobs(context.tokenizer, promptScores),
  }));
}
