/** POST /tokenize and /detokenize and GET /tokenizer_info in vLLM's form; the first two also in llama-server's. */
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import { assertTokenIds } from "../../engine/api/request.js";
import { tokenText } from "../../text/token-text.js";
import type { TokenDetails } from "../../text/tokenizer-job.js";
import type { AppContext, ServeContext } from "../http/context.js";
import { readJsonObject } from "../http/read-body.js";
import { messagesField, renderChat, templateKwargsField, toChatMessages } from "./chat-messages.js";
import { type FieldRules, never, parseFields } from "./fields.js";
import { resolveModelName } from "./model-name.js";
import { assertTextMayFit } from "./prompt-size.js";
import { checked, isTokenIdArray, modelField } from "./schema-parts.js";
import { templateTools, toolsField } from "./tool-fields.js";

const tokenizeSchema = z.strictObject({
  model: modelField.optional(),
  prompt: z.string().optional(),
  // llama-server's names for these fields.
  content: z.string().optional(),
  add_special: z.boolean().optional(),
  parse_special: z.boolean().optional(),
  messages: messagesField.optional(),
  add_special_tokens: z.boolean().optional(),
  add_generation_prompt: z.boolean().optional(),
  continue_final_message: z.boolean().optional(),
  chat_template_kwargs: templateKwargsField.optional(),
  tools: toolsField.optional(),
  return_token_strs: z.boolean().optional(),
  // llama-server's field: each token is an object of its id and its text, or its bytes.
  with_pieces: z.boolean().optional(),
});

export const TOKENIZE_RULES: FieldRules<(typeof tokenizeSchema)["shape"]> = {
  schema: tokenizeSchema,
  inert: new Set(),
  unsupported: { chat_template: never },
};

const detokenizeSchema = z.strictObject({
  model: modelField.optional(),
  tokens: checked<number[]>("an array of token ids", isTokenIdArray),
});

export const DETOKENIZE_RULES: FieldRules<(typeof detokenizeSchema)["shape"]> = {
  schema: detokenizeSchema,
  inert: new Set(),
  unsupported: {},
};

/** The text to tokenize: a prompt, or a chat rendered by its template. */
function textOf(context: ServeContext, request: z.output<typeof tokenizeSchema>): string {
  const { content, prompt = content, messages } = request;
  if (prompt !== undefined && messages === undefined) {
    const { maxTokenizeLength } = context.limits;
    if (prompt.length <= maxTokenizeLength) return prompt;
    throw new MillraceError(
      "invalid_parameter",
      `prompt: expected at most ${maxTokenizeLength} characters, got ${prompt.length}`,
      { param: "prompt", hint: "Split the text, or count it with `millrace tokenize`." },
    );
  }
  if (prompt !== undefined || messages === undefined) {
    const got = prompt === undefined ? "neither" : "both";
    throw new MillraceError("invalid_parameter", `prompt: expected either prompt or messages, got ${got}`, {
      param: "prompt",
    });
  }
  const text = renderChat(context, toChatMessages(messages), request, templateTools(context, request.tools));
  assertTextMayFit(context, text, "messages");
  return text;
}

function detailsOf(request: z.output<typeof tokenizeSchema>): TokenDetails {
  const { return_token_strs: withTexts = false, with_pieces: withPieces = false } = request;
  if (withTexts && withPieces) {
    const message = "with_pieces: expected false beside return_token_strs, got true";
    throw new MillraceError("invalid_parameter", message, { param: "with_pieces" });
  }
  if (withPieces) return "pieces";
  return withTexts ? "texts" : "none";
}

export async function tokenize(c: AppContext, context: ServeContext): Promise<Response> {
  const request = parseFields(c, context, TOKENIZE_RULES, await readJsonObject(c, context.limits));
  resolveModelName(context, request.model);
  const text = textOf(context, request);
  // llama-server adds special tokens only on request.
  const isPlain = request.messages === undefined && request.content === undefined;
  const addSpecial = request.add_special_tokens ?? request.add_special ?? isPlain;
  const options = { addSpecial, parseSpecial: request.parse_special ?? true };
  const { count, ids, texts } = await context.asyncTokenizer.list(text, options, detailsOf(request));
  const { maxModelLen } = context.engine.info;
  const head = `{"count":${count},"max_model_len":${maxModelLen},"tokens":`;
  // The ids arrive as JSON bytes, since serialising a million ids on this thread would delay other requests.
  const body = Buffer.concat([Buffer.from(head), ids, Buffer.from(',"token_strs":'), texts, Buffer.from("}")]);
  return c.body(body, 200, { "Content-Type": "application/json" });
}

export async function detokenize(c: AppContext, context: ServeContext): Promise<Response> {
  const request = parseFields(c, context, DETOKENIZE_RULES, await readJsonObject(c, context.limits));
  resolveModelName(context, request.model);
  const { maxTokenizeLength } = context.limits;
  if (request.tokens.length > maxTokenizeLength) {
    throw new MillraceError(
      "invalid_parameter",
      `tokens: expected at most ${maxTokenizeLength} ids, got ${request.tokens.length}`,
      { param: "tokens", hint: "Send them in pieces." },
    );
  }
  assertTokenIds(request.tokens, context.tokenizer.vocabSize, "tokens");
  const text = await context.asyncTokenizer.decode(request.tokens);
  // vLLM's field, and llama-server's.
  return c.json({ prompt: text, content: text });
}

/**
 * The facts with which evaluation tools render chats and truncate texts themselves. The server pads nothing, so the end
 * token stands in as the padding token.
 */
export function tokenizerInfo(c: AppContext, context: ServeContext): Response {
  const { tokenizer, chatTemplate, engine } = context;
  const { bosId, eosId } = tokenizer;
  const nameOf = (id: number | undefined) => (id === undefined ? null : tokenText(tokenizer, id));
  return c.json({
    // The class of transformers that reads any tokenizer.json.
    tokenizer_class: "PreTrainedTokenizerFast",
    bos_token: nameOf(bosId),
    eos_token: nameOf(eosId),
    pad_token: nameOf(eosId),
    bos_token_id: bosId ?? null,
    eos_token_id: eosId ?? null,
    add_bos_token: tokenizer.addsBos,
    add_eos_token: tokenizer.addsEos,
    vocab_size: tokenizer.vocabSize,
    model_max_length: engine.info.maxModelLen,
    chat_template: chatTemplate?.plainSource ?? chatTemplate?.source ?? null,
  });
}
