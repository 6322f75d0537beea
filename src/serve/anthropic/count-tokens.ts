/** POST /v1/messages/count_tokens: the number of tokens in the prompt that /v1/messages would build. */
import { z } from "zod";
import type { AppContext, ServeContext } from "../http/context.js";
import { readJsonObject } from "../http/read-body.js";
import { type FieldRules, parseFields } from "../openai/fields.js";
import { resolveModelName } from "../openai/model-name.js";
import { planConversation } from "./conversation.js";
import { CONVERSATION_INERT, CONVERSATION_UNSUPPORTED, conversationShape } from "./conversation-fields.js";

const schema = z.strictObject(conversationShape);

export const COUNT_TOKENS_RULES: FieldRules<(typeof schema)["shape"]> = {
  schema,
  inert: new Set(CONVERSATION_INERT),
  unsupported: CONVERSATION_UNSUPPORTED,
};

export async function countTokens(c: AppContext, context: ServeContext): Promise<Response> {
  const request = parseFields(c, context, COUNT_TOKENS_RULES, await readJsonObject(c, context.limits));
  resolveModelName(context, request.model);
  const { promptIds } = await planConversation(c, context, request);
  return c.json({ input_tokens: promptIds.length });
}
