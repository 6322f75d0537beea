/** POST /v1/messages, Anthropic's Messages API. */
import { randomUUID } from "node:crypto";
import { z } from "zod";
import type { GenerationRequest } from "../generation/generation.js";
import { choiceSeeds } from "../generation/seeds.js";
import type { AppContext, ServeContext } from "../http/context.js";
import { readJsonObject } from "../http/read-body.js";
import { type RequestTerms, requestTerms } from "../http/request-terms.js";
import { collectResults, streamResults } from "../http/respond.js";
import type { ChatPlan } from "../openai/chat-plan.js";
import { type FieldRules, never, parseFields } from "../openai/fields.js";
import { resolveModelName } from "../openai/model-name.js";
import { planChoices } from "../openai/sampling.js";
import { integerIn, numberIn, samplingShape, stopStringsField, termsShape } from "../openai/schema-parts.js";
import { sayUnenforced } from "../openai/unenforced.js";
import { planConversation } from "./conversation.js";
import {
  answerFormOf,
  CONVERSATION_INERT,
  CONVERSATION_UNSUPPORTED,
  conversationShape,
} from "./conversation-fields.js";
import { type MessageFacts, messageFrames, messageObject } from "./message-objects.js";

const schema = z.strictObject({
  ...conversationShape,
  max_tokens: integerIn(1, 2 ** 31 - 1),
  stop_sequences: stopStringsField.optional(),
  stream: z.boolean().optional(),
  temperature: numberIn(0, 1).optional(),
  top_p: samplingShape.top_p,
  top_k: integerIn(0, 2 ** 31 - 1).optional(),
  ...termsShape,
});

type MessagesRequest = z.output<typeof schema>;

export const MESSAGE_RULES: FieldRules<(typeof schema)["shape"]> = {
  schema,
  inert: new Set([...CONVERSATION_INERT, "metadata", "service_tier", "inference_geo"]),
  unsupported: { ...CONVERSATION_UNSUPPORTED, container: never },
};

function planRequest(
  context: ServeContext,
  request: MessagesRequest,
  plan: ChatPlan,
  terms: RequestTerms,
): GenerationRequest[] {
  const { temperature, top_p, top_k, stop_sequences } = request;
  return planChoices(
    context,
    [
      {
        fields: { temperature, top_p, top_k, stop: stop_sequences },
        terms,
        ...plan,
        maxTokens: request.max_tokens,
        maxTokensField: "max_tokens",
        promptField: "messages",
        numLogprobs: undefined,
        numPromptLogprobs: undefined,
      },
    ],
    1,
    choiceSeeds(undefined, context.drawSeed),
  );
}

function isHidden(thinking: MessagesRequest["thinking"]): boolean {
  return thinking !== undefined && thinking.type !== "disabled" && thinking.display === "omitted";
}

export async function messages(c: AppContext, context: ServeContext): Promise<Response> {
  const request = parseFields(c, context, MESSAGE_RULES, await readJsonObject(c, context.limits));
  const terms = requestTerms(c, context, request);
  const model = resolveModelName(context, request.model);
  const plan = await planConversation(c, context, request);
  const generations = planRequest(context, request, plan, terms);
  sayUnenforced(c, answerFormOf(request));
  const facts: MessageFacts = {
    id: `msg_${randomUUID().replaceAll("-", "")}`,
    model,
    numPromptTokens: plan.promptIds.length,
    hidesThoughts: isHidden(request.thinking),
    managesContext: request.context_management !== undefined,
  };
  if (request.stream === true) {
    return streamResults(c, context, generations, terms, messageFrames(facts, c.get("requestId")));
  }
  const { results, totals } = await collectResults(c, context, generations, terms);
  return c.json(messageObject(facts, results[0]!, totals));
}
