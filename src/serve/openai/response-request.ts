/** A POST to /v1/responses: its fields, its prompt, and its engine requests. */

import { z } from "zod";
import { MAX_LOGPROBS } from "../../engine/api/request.js";
import type { GenerationRequest } from "../generation/generation.js";
import { choiceSeeds } from "../generation/seeds.js";
import type { AppContext, Asker, PromptContext, ServeContext } from "../http/context.js";
import { invalidParameter } from "../http/invalid-parameter.js";
import type { RequestTerms } from "../http/request-terms.js";
import { type PlainMessage, templateKwargsField } from "./chat-messages.js";
import { type ChatPlan, chatPrompt, effortField, planChat } from "./chat-plan.js";
import { planWithinContext } from "./cut-conversation.js";
import { type FieldRules, INERT_FIELDS, isEmptyArray, isOneOf, never, SAMPLING_UNSUPPORTED } from "./fields.js";
import { LLAMA_INERT_FIELDS } from "./llama-fields.js";
import { inputField, readInput } from "./response-input.js";
import { formOfResponse, isFormPrescribed, textField } from "./response-text.js";
import { flatChoiceField, flatToolsField, readFlatTools } from "./response-tools.js";
import { planChoices } from "./sampling.js";
import { integerIn, modelField, objectField, samplingShape, streamOptionsField, termsShape } from "./schema-parts.js";

/** Accepted and ignored: the answer has all reasoning, not a summary. */
const summaryField = z.enum(["auto", "concise", "detailed"]).nullish();
const reasoningField = z.strictObject({
  effort: effortField.nullish(),
  summary: summaryField,
  generate_summary: summaryField,
});

const LOGPROBS = "message.output_text.logprobs";

/**
 * Most values concern the provider's own tools, whose items never occur in this server's answers. Reasoning is returned
 * as plain text.
 */
const includeField = z.array(
  z.enum([
    LOGPROBS,
    "reasoning.encrypted_content",
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
  ]),
);

/** Chat's fields; OpenAI's API has only the first two here. */
const { temperature, top_p, top_k, min_p, presence_penalty, frequency_penalty, repetition_penalty, seed } =
  samplingShape;
const { stop, stop_token_ids, ignore_eos, include_stop_str_in_output, skip_special_tokens, logit_bias } = samplingShape;
const penalties = { presence_penalty, frequency_penalty, repetition_penalty, logit_bias };
const ends = { stop, stop_token_ids, ignore_eos, include_stop_str_in_output };
const responseSamplingShape = { temperature, top_p, top_k, min_p, ...penalties, seed, ...ends, skip_special_tokens };

const schema = z.strictObject({
  model: modelField.optional(),
  input: inputField,
  instructions: z.string().optional(),
  previous_response_id: z.string().optional(),
  store: z.boolean().optional(),
  metadata: objectField.optional(),
  max_output_tokens: integerIn(1, 2 ** 31 - 1).optional(),
  stream: z.boolean().optional(),
  // Ignored: every response has its usage.
  stream_options: streamOptionsField.optional(),
  ...responseSamplingShape,
  structured_outputs: samplingShape.structured_outputs,
  chat_template_kwargs: templateKwargsField.optional(),
  top_logprobs: integerIn(0, MAX_LOGPROBS).optional(),
  include: includeField.optional(),
  truncation: z.enum(["auto", "disabled"]).optional(),
  tools: flatToolsField.optional(),
  tool_choice: flatChoiceField.optional(),
  parallel_tool_calls: z.boolean().optional(),
  reasoning: reasoningField.optional(),
  text: textField.optional(),
  ...termsShape,
});

export type ResponseRequest = z.output<typeof schema>;

export const RESPONSE_RULES: FieldRules<(typeof schema)["shape"]> = {
  schema,
  // Includes the field for Codex, which sends its installation's id.
  inert: new Set([...INERT_FIELDS, ...LLAMA_INERT_FIELDS, "max_tool_calls", "client_metadata", "timings_per_token"]),
  unsupported: {
    conversation: never,
    background: isOneOf(false),
    background_options: never,
    moderation: never,
    prompt: never,
    context_management: isEmptyArray,
    ...SAMPLING_UNSUPPORTED,
    // vLLM's field: the tokens' messages beside the items.
    enable_response_messages: isOneOf(false),
    previous_input_messages: isEmptyArray,
  },
};

/** The shared arguments of chatPrompt and planChat. */
function conversationOf(c: Asker, context: PromptContext, request: ResponseRequest) {
  return [
    context,
    readInput(c, context, request.input, request.instructions),
    {
      ...readFlatTools(c, context, request),
      promptField: "input",
      reasoning_effort: request.reasoning?.effort ?? undefined,
      chat_template_kwargs: request.chat_template_kwargs,
    },
  ] as const;
}

/** The token ids of the request's prompt; ignores its other fields. */
export async function responsePromptIds(
  c: Asker,
  context: PromptContext,
  request: ResponseRequest,
): Promise<Int32Array> {
  const { promptIds } = await chatPrompt(...conversationOf(c, context, request), isFormPrescribed(request));
  return promptIds;
}

/** Number of likeliest tokens to show for each token; undefined: no log-probabilities. */
export function numTopLogprobsOf(request: ResponseRequest): number | undefined {
  const { top_logprobs: numTop = 0, include = [] } = request;
  return numTop > 0 || include.includes(LOGPROBS) ? numTop : undefined;
}

export async function planResponse(
  c: AppContext,
  context: ServeContext,
  request: ResponseRequest,
  terms: RequestTerms,
): Promise<GenerationRequest[]> {
  const numLogprobs = numTopLogprobsOf(request);
  const mayCallTools = (request.tools?.length ?? 0) > 0 && request.tool_choice !== "none";
  if (numLogprobs !== undefined && mayCallTools) {
    const field = (request.top_logprobs ?? 0) > 0 ? "top_logprobs" : "include";
    throw invalidParameter(
      field,
      'expected no log-probabilities beside tools that may be called (tool_choice "none"), got some',
    );
  }
  return planChoices(
    context,
    [
      {
        ...(await planConversation(c, context, request)),
        fields: request,
        terms,
        maxTokens: request.max_output_tokens,
        maxTokensField: "max_output_tokens",
        promptField: "input",
        numLogprobs,
        numPromptLogprobs: undefined,
      },
    ],
    1,
    choiceSeeds(request.seed, context.drawSeed),
  );
}

async function planConversation(c: AppContext, context: ServeContext, request: ResponseRequest): Promise<ChatPlan> {
  const [, messages, fields] = conversationOf(c, context, request);
  const plan = (kept: readonly PlainMessage[]) => planChat(context, kept, fields, formOfResponse(request));
  if (request.truncation !== "auto") return plan(messages);
  return (await planWithinContext(context, messages, plan, request.max_output_tokens)).plan;
}
