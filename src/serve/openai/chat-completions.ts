/** POST /v1/chat/completions. */
import { randomUUID } from "node:crypto";
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import { MAX_LOGPROBS } from "../../engine/api.js";
import type { AppContext, ServeContext } from "../context.js";
import { errorBody } from "../error-response.js";
import type { GenerationUpdate } from "../generation.js";
import { readJsonObject } from "../read-body.js";
import { collectResults, type StreamFrames, streamResults } from "../respond.js";
import { seedOf } from "../seeds.js";
import { encodeChat, messagesField, templateKwargsField, toChatMessages } from "./chat-messages.js";
import { type FieldRules, INERT_FIELDS, isEmptyArray, isOneOf, isTextFormat, never, parseFields } from "./fields.js";
import { chatLogprobs, promptLogprobs } from "./logprobs.js";
import { resolveModelName } from "./model-name.js";
import { assertNumSequences, planChoices } from "./sampling.js";
import {
  integerIn,
  maxTokensField,
  modelField,
  numChoicesField,
  samplingShape,
  streamOptionsField,
} from "./schema-parts.js";
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
  chat_template_kwargs: templateKwargsField.optional(),
  add_generation_prompt: z.boolean().optional(),
  continue_final_message: z.boolean().optional(),
  add_special_tokens: z.boolean().optional(),
  ...samplingShape,
});

type ChatRequest = z.output<typeof schema>;

const RULES: FieldRules<(typeof schema)["shape"]> = {
  schema,
  inert: new Set([...INERT_FIELDS, "verbosity"]),
  unsupported: {
    tools: isEmptyArray,
    tool_choice: isOneOf("none", "auto"),
    functions: isEmptyArray,
    function_call: isOneOf("none", "auto"),
    response_format: isTextFormat,
    modalities: (value) => Array.isArray(value) && value.every((kind) => kind === "text"),
    audio: never,
    prediction: never,
    reasoning_effort: never,
    web_search_options: never,
    best_of: isOneOf(1),
    use_beam_search: isOneOf(false),
    echo: isOneOf(false),
    priority: isOneOf(0),
    structured_outputs: never,
    chat_template: never,
    documents: isEmptyArray,
  },
};

/** Which of the two fields counts, for complaints. */
function maxTokensFieldOf(request: ChatRequest): string {
  return request.max_completion_tokens === undefined ? "max_tokens" : "max_completion_tokens";
}

function assertConsistent(request: ChatRequest): void {
  const refuse = (param: string, message: string) => {
    throw new MillraceError("invalid_parameter", `${param}: ${message}`, { param });
  };
  if (request.top_logprobs !== undefined && request.logprobs !== true && request.top_logprobs > 0) {
    refuse("top_logprobs", "expected logprobs to be true beside it, got false");
  }
  if (request.stream_options !== undefined && request.stream !== true) {
    refuse("stream_options", "expected stream to be true beside it, got false");
  }
  if (request.stream === true && request.prompt_logprobs !== undefined) {
    refuse("prompt_logprobs", "expected stream to be false beside it, got true");
  }
  const maxTokens = request.max_completion_tokens ?? request.max_tokens;
  if (maxTokens === 0) refuse(maxTokensFieldOf(request), "expected an integer of at least 1, got 0");
}

/** What every object of one answer begins with. */
interface Envelope {
  readonly id: string;
  readonly created: number;
  readonly model: string;
  readonly system_fingerprint: string;
}

/** The streamed form. What does not change from chunk to chunk is turned into JSON once. */
function chatFrames(
  context: ServeContext,
  envelope: Envelope,
  request: ChatRequest,
  numPromptTokens: number,
  requestId: string,
): StreamFrames {
  const numChoices = request.n ?? 1;
  const isUsageWanted = request.stream_options?.include_usage === true;
  const isAsId = request.return_tokens_as_token_ids === true;
  const head = JSON.stringify({ ...envelope, object: "chat.completion.chunk" }).slice(0, -1);
  const tail = isUsageWanted ? `],"usage":null}\n\n` : "]}\n\n";
  const prefixes = Array.from(
    { length: numChoices },
    (_, index) => `data: ${head},"choices":[{"index":${index},"delta":`,
  );
  const hasBegun = new Array<boolean>(numChoices).fill(false);
  const chunk = (index: number, delta: string, rest: string) => `${prefixes[index]}${delta}${rest}}${tail}`;
  return {
    onUpdate(index: number, update: GenerationUpdate): string {
      let text = "";
      if (!hasBegun[index]) {
        hasBegun[index] = true;
        text = chunk(index, `{"role":"assistant","content":""}`, `,"logprobs":null,"finish_reason":null`);
      }
      if (update.text !== "" || update.scored.length > 0) {
        const logprobs =
          request.logprobs === true ? JSON.stringify(chatLogprobs(context.tokenizer, update.scored, isAsId)) : "null";
        const delta = `{"content":${JSON.stringify(update.text)}}`;
        text += chunk(index, delta, `,"logprobs":${logprobs},"finish_reason":null`);
      }
      if (update.end === undefined) return text;
      const { reason, stopReason } = update.end;
      const rest = `,"logprobs":null,"finish_reason":"${reason}","stop_reason":${JSON.stringify(stopReason)}`;
      return text + chunk(index, "{}", rest);
    },
    onDone(totals) {
      if (!isUsageWanted) return "data: [DONE]\n\n";
      const usage = JSON.stringify(usageOf([numPromptTokens], numChoices, totals));
      return `data: ${head},"choices":[],"usage":${usage}}\n\ndata: [DONE]\n\n`;
    },
    onError: (error) => `data: ${JSON.stringify(errorBody(error, requestId))}\n\ndata: [DONE]\n\n`,
  };
}

export async function chatCompletions(c: AppContext, context: ServeContext): Promise<Response> {
  const request = parseFields(c, context, RULES, await readJsonObject(c, context.limits));
  assertConsistent(request);
  const model = resolveModelName(context, request.model);
  const numChoices = request.n ?? 1;
  assertNumSequences(context, 1, numChoices);
  const promptIds = encodeChat(context, toChatMessages(request.messages), {
    addGenerationPrompt: request.add_generation_prompt,
    continueFinalMessage: request.continue_final_message,
    kwargs: request.chat_template_kwargs,
    addSpecialTokens: request.add_special_tokens,
  });
  const generations = planChoices(
    context,
    {
      fields: request,
      promptIds,
      maxTokens: request.max_completion_tokens ?? request.max_tokens,
      maxTokensField: maxTokensFieldOf(request),
      promptField: "messages",
      numLogprobs: request.logprobs === true ? (request.top_logprobs ?? 0) : undefined,
      numPromptLogprobs: request.prompt_logprobs,
    },
    numChoices,
    seedOf(request.seed, context.drawSeed),
  );
  const envelope: Envelope = {
    id: `chatcmpl-${randomUUID()}`,
    created: Math.floor(Date.now() / 1000),
    model,
    system_fingerprint: `millrace-${context.version}`,
  };
  if (request.stream === true) {
    const frames = chatFrames(context, envelope, request, promptIds.length, c.get("requestId"));
    return streamResults(c, context, generations, frames);
  }
  const { results, totals } = await collectResults(c, context, generations);
  const isAsId = request.return_tokens_as_token_ids === true;
  const promptScores = results[0]?.promptLogprobs;
  return c.json({
    ...envelope,
    object: "chat.completion",
    choices: results.map((result, index) => ({
      index,
      message: { role: "assistant", content: result.text, refusal: null },
      logprobs: request.logprobs === true ? chatLogprobs(context.tokenizer, result.scored, isAsId) : null,
      finish_reason: result.end.reason,
      stop_reason: result.end.stopReason,
    })),
    usage: usageOf([promptIds.length], numChoices, totals),
    ...(promptScores === undefined ? {} : { prompt_logprobs: promptLogprobs(context.tokenizer, promptScores) }),
  });
}
