/** llama-server's GET /props and /slots, and POST /apply-template. */
import { z } from "zod";
import { tokenText } from "../../text/token-text.js";
import type { AppContext, ServeContext } from "../http/context.js";
import { readJsonObject } from "../http/read-body.js";
import { messagesField, renderChat, templateKwargsField, toChatMessages } from "../openai/chat-messages.js";
import { type FieldRules, parseFields } from "../openai/fields.js";
import { resolveModelName } from "../openai/model-name.js";
import { assertTextMayFit } from "../openai/prompt-size.js";
import { modelField } from "../openai/schema-parts.js";
import { templateTools, toolsField } from "../openai/tool-fields.js";

/** A slot of llama-server is a seat here. Any request may take any seat, and each seat may use the complete context. */
export function slots(c: AppContext, { engine }: ServeContext): Response {
  const { maxNumSeqs, maxModelLen } = engine.info;
  const { numRunning } = engine.stats();
  const all = Array.from({ length: maxNumSeqs }, (_, id) => ({
    id,
    n_ctx: maxModelLen,
    is_processing: id < numRunning,
  }));
  return c.json(all);
}

export function props(c: AppContext, context: ServeContext): Response {
  const { engine, tokenizer, chatTemplate, modelNames, samplingDefaults = {}, version } = context;
  const { maxModelLen, maxNumSeqs } = engine.info;
  const nameOf = (id: number | undefined) => (id === undefined ? "" : tokenText(tokenizer, id));
  return c.json({
    default_generation_settings: { n_ctx: maxModelLen, params: samplingDefaults },
    total_slots: maxNumSeqs,
    model_alias: modelNames[0],
    // The name instead of the path, which would reveal the server's disk.
    model_path: modelNames[0],
    modalities: { vision: false, audio: false },
    chat_template: chatTemplate?.source ?? "",
    bos_token: nameOf(tokenizer.bosId),
    eos_token: nameOf(tokenizer.eosId),
    build_info: `millrace ${version}`,
    is_sleeping: false,
  });
}

const schema = z.strictObject({
  model: modelField.optional(),
  messages: messagesField,
  tools: toolsField.optional(),
  chat_template_kwargs: templateKwargsField.optional(),
  add_generation_prompt: z.boolean().optional(),
});

export const TEMPLATE_RULES: FieldRules<(typeof schema)["shape"]> = { schema, inert: new Set(), unsupported: {} };

export async function applyTemplate(c: AppContext, context: ServeContext): Promise<Response> {
  const request = parseFields(c, context, TEMPLATE_RULES, await readJsonObject(c, context.limits));
  resolveModelName(context, request.model);
  const messages = toChatMessages(request.messages);
  const prompt = renderChat(context, messages, request, templateTools(context, request.tools));
  assertTextMayFit(context, prompt, "messages");
  return c.json({ prompt });
}
