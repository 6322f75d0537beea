/**
 * Chat messages: their schema, their flattening to plain text, and their conversion to token ids with the chat
 * template.
 */

import { randomUUID } from "node:crypto";
import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import { isPlainObject } from "../../core/is-plain-object.js";
import { spellCalls } from "../../text/answer/call-format.js";
import type { PromptContext } from "../http/context.js";
import { invalidParameter } from "../http/invalid-parameter.js";
import { assertMayBeTruncated, assertMessagesMayFit, assertTextMayFit, wholeIds } from "./prompt-size.js";
import { checked } from "./schema-parts.js";
import { isShallow, MAX_KWARGS_DEPTH, RESERVED_KWARGS } from "./template-kwargs.js";
import { toolCallsField } from "./tool-fields.js";

/** A message with its content flattened to one text. */
export interface PlainMessage {
  readonly role: string;
  readonly content: string;
  readonly name?: string;
  readonly tool_call_id?: string;
  readonly tool_calls?: readonly PlainToolCall[];
  readonly reasoning_content?: string;
}

export interface PlainToolCall {
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string; readonly arguments: string };
}

const textPart = z.object({ type: z.literal("text"), text: z.string() });
/** A refusal is treated as the content of its message. */
const refusalPart = z.object({ type: z.literal("refusal"), refusal: z.string() });
/** Parts are first checked by type, so that the error can name a picture as such. */
const contentField = z.union([z.string(), z.array(z.looseObject({ type: z.string() }))]);

/** Other fields are dropped, since clients send back fields that they or other servers added to an answer. */
const messageSchema = z.object({
  role: z.enum(["system", "developer", "user", "assistant", "tool", "function"]),
  content: contentField.nullish(),
  name: z.string().nullish(),
  tool_calls: toolCallsField.nullish(),
  tool_call_id: z.string().nullish(),
  reasoning_content: z.string().nullish(),
  reasoning: z.string().nullish(),
  // The server cannot use these fields, so only null is accepted.
  audio: z.null().optional(),
  // OpenAI's earlier form of a call; its result has the role "function" and no id.
  function_call: z.object({ name: z.string(), arguments: z.string() }).nullish(),
});

type MessageField = z.output<typeof messageSchema>;
export const messagesField = z.array(messageSchema);

/** Further arguments for the template. The names of the server's own arguments are refused. */
export const templateKwargsField = checked<Record<string, unknown>>(
  `an object nested at most ${MAX_KWARGS_DEPTH} deep`,
  (value) => isPlainObject(value) && isShallow(value),
);

function flattenContent(message: MessageField, param: string): string {
  const { content } = message;
  if (content === undefined || content === null) {
    if (message.role === "assistant") return "";
    throw invalidParameter(param, "expected a string or text parts, got null");
  }
  if (typeof content === "string") return content;
  return content.map((part, index) => partText(part, `${param}[${index}]`)).join("\n");
}

function partText(part: { readonly type: string }, param: string): string {
  const text = textPart.safeParse(part);
  if (text.success) return text.data.text;
  const refusal = refusalPart.safeParse(part);
  if (refusal.success) return refusal.data.refusal;
  if (part.type === "text" || part.type === "refusal") {
    throw invalidParameter(
      param,
      `expected {"type":"${part.type}","${part.type}":…} with a string, got something else`,
    );
  }
  throw new MillraceError(
    "unsupported_field",
    `expected text parts only, got a part of type "${part.type.slice(0, 40)}"`,
    { param: `${param}.type`, hint: "this server takes no images, audio or files" },
  );
}

export function toChatMessages(messages: readonly MessageField[]): PlainMessage[] {
  if (messages.length === 0) {
    throw new MillraceError("empty_prompt", "expected at least one message, got none", { param: "messages" });
  }
  return withCallIds(messages).map((message, index) => {
    const reasoning = message.reasoning_content ?? message.reasoning;
    return {
      role: message.role === "developer" ? "system" : message.role,
      content: flattenContent(message, `messages[${index}].content`),
      ...(message.name == null ? {} : { name: message.name }),
      ...toolCallsOf(message, `messages[${index}]`),
      ...(reasoning == null || reasoning === "" ? {} : { reasoning_content: reasoning }),
    };
  });
}

/**
 * Calls and results in OpenAI's earlier form get an id, like all others. A result with a name instead of an id, as in
 * Ollama's API and templates, belongs to the last call of this name.
 */
function withCallIds(messages: readonly MessageField[]): readonly MessageField[] {
  let id: string | undefined;
  const idByName = new Map<string, string>();
  return messages.map((message, index) => {
    const { function_call: call, ...rest } = message;
    if (message.role === "function") return { ...rest, role: "tool", tool_call_id: message.tool_call_id ?? id };
    for (const { id: own, function: called } of message.tool_calls ?? []) idByName.set(called.name, own);
    if (message.role === "tool" && message.tool_call_id == null && message.name != null) {
      return { ...message, tool_call_id: idByName.get(message.name) };
    }
    if (call == null) return message;
    id = `call_${index}`;
    return { ...rest, tool_calls: [...(message.tool_calls ?? []), { id, function: call }] };
  });
}

/** Only assistant messages may have calls, and every result needs its call. */
function toolCallsOf(message: MessageField, at: string): Pick<PlainMessage, "tool_calls" | "tool_call_id"> {
  const { role, tool_calls: calls, tool_call_id: id } = message;
  if (role === "tool") {
    if (id == null) throw invalidParameter(`${at}.tool_call_id`, "expected the id of the call, got nothing");
    return { tool_call_id: id };
  }
  if (calls == null || calls.length === 0) return {};
  if (role !== "assistant")
    throw invalidParameter(`${at}.tool_calls`, `expected calls of an assistant only, got some of role "${role}"`);
  return {
    tool_calls: calls.map((call) => ({
      id: call.id,
      type: "function",
      function: { name: call.function.name, arguments: call.function.arguments },
    })),
  };
}

/** The fields of a request, besides messages and tools, that affect its prompt. */
export interface RenderFields {
  readonly add_generation_prompt?: boolean | undefined;
  readonly continue_final_message?: boolean | undefined;
  readonly chat_template_kwargs?: Readonly<Record<string, unknown>> | undefined;
  /** Whether BOS and EOS are added around the template's text; off by default, since templates write their own. */
  readonly add_special_tokens?: boolean | undefined;
  /** Set if the caller keeps only the prompt's last tokens. */
  readonly truncate_prompt_tokens?: number | undefined;
  /** Not a request field: the field's name in errors about the prompt's length; `messages` by default. */
  readonly promptField?: string;
}

/**
 * The prompt's text.
 * @param tools in the templates' form
 */
export function renderChat(
  context: PromptContext,
  messages: readonly PlainMessage[],
  fields: RenderFields,
  tools: readonly object[] | undefined,
): string {
  assertMessagesMayFit(context, messages.length, fields.promptField ?? "messages");
  if (context.chatTemplate === undefined) {
    throw new MillraceError("template_missing", "expected a model with a chat template, got one without", {
      hint: "use /v1/completions with a prompt you have formatted yourself",
    });
  }
  const own = fields.chat_template_kwargs ?? {};
  for (const name of RESERVED_KWARGS) {
    if (!Object.hasOwn(own, name)) continue;
    const param = `chat_template_kwargs.${name}`;
    throw new MillraceError("invalid_parameter", `${param}: expected no argument of that name, got one`, { param });
  }
  const kwargs = { ...context.templateDefaults, ...own };
  const continues = fields.continue_final_message ?? false;
  const addGenerationPrompt = fields.add_generation_prompt ?? !continues;
  if (continues && addGenerationPrompt) {
    throw new MillraceError(
      "invalid_parameter",
      "add_generation_prompt: expected false beside continue_final_message, got true",
      { param: "add_generation_prompt" },
    );
  }
  const { chatTemplate } = context;
  const render = (given: readonly PlainMessage[]): string =>
    chatTemplate.render({
      messages: withTemplateIds(context, withSpelledCalls(context, withTools(context, given, tools))),
      tools,
      addGenerationPrompt,
      kwargs,
    });
  return continues ? renderUpToFinalText(render, messages) : render(messages);
}

/** If the template prints no tools, puts them into the system message. */
function withTools(
  { chatFormat }: PromptContext,
  messages: readonly PlainMessage[],
  tools: readonly object[] | undefined,
): readonly PlainMessage[] {
  const template = tools === undefined ? undefined : chatFormat.toolsTemplate;
  if (template === undefined) return messages;
  const content = template.render({ messages: [], tools, addGenerationPrompt: false });
  const [first, ...others] = messages;
  if (first?.role !== "system") return [{ role: "system", content }, ...messages];
  return [{ ...first, content: `${first.content}\n\n${content}` }, ...others];
}

/** If the template prints no calls, adds them to their message's text, as the model wrote them. */
function withSpelledCalls(
  { chatTemplate, chatFormat: { toolCalls: format } }: PromptContext,
  messages: readonly PlainMessage[],
): readonly PlainMessage[] {
  const haveCalls = messages.some((message) => message.tool_calls !== undefined);
  if (!haveCalls || format === undefined || chatTemplate?.printsCalls !== false) return messages;
  let number = 0;
  return messages.map((message) => {
    const { tool_calls: calls = [], ...rest } = message;
    if (calls.length === 0) return message;
    const functions = calls.map((call) => call.function);
    const text = spellCalls(format, functions, number);
    number += calls.length;
    if (text === undefined) return message;
    return { ...rest, content: message.content === "" ? text : `${message.content}\n${text}` };
  });
}

/** Some templates refuse call ids of other forms, so ids are converted. A result's id refers to the last such call. */
function withTemplateIds(context: PromptContext, messages: readonly PlainMessage[]): readonly PlainMessage[] {
  const toId = context.chatFormat.toolCalls?.templateCallId;
  if (toId === undefined) return messages;
  const ids = new Map<string, string>();
  let number = 0;
  return messages.map(({ tool_calls: calls, tool_call_id: resultOf, ...rest }) => ({
    ...rest,
    ...(resultOf === undefined ? {} : { tool_call_id: ids.get(resultOf) ?? toId(resultOf) }),
    ...(calls === undefined
      ? {}
      : {
          tool_calls: calls.map((call) => {
            const id = toId(call.id, call.function.name, number++);
            ids.set(call.id, id);
            return { ...call, id };
          }),
        }),
  }));
}

/**
 * The last message stays open: the template's text after it is cut off. A marker at the message's end shows the place,
 * since a search for the message would fail if the template repeats it. The marker also stops the template from
 * trimming
 * white space there.
 */
function renderUpToFinalText(
  render: (messages: readonly PlainMessage[]) => string,
  messages: readonly PlainMessage[],
): string {
  const last = messages.at(-1)!;
  const marker = randomUUID();
  const rendered = render(messages.with(-1, { ...last, content: last.content + marker }));
  const text = rendered.slice(0, Math.max(0, rendered.lastIndexOf(marker)));
  const content = last.content.trim();
  if (content !== "" && text.trimEnd().endsWith(content)) return text;
  throw new MillraceError(
    "template_failed",
    "expected the last message's text in what the template wrote, got a text without it",
    { param: "continue_final_message", hint: "end with a message that is not empty" },
  );
}

export async function encodePrompt(context: PromptContext, text: string, fields: RenderFields): Promise<Int32Array> {
  const param = fields.promptField ?? "messages";
  const isTruncated = fields.truncate_prompt_tokens !== undefined;
  if (isTruncated) assertMayBeTruncated(text.length, param);
  else assertTextMayFit(context, text, param);
  const addSpecial = fields.add_special_tokens ?? false;
  const most = isTruncated ? undefined : context.engine.info.maxModelLen;
  const [encoded] = await context.asyncTokenizer.encode([text], { addSpecial, parseSpecial: true }, most);
  return wholeIds(encoded!, context, param);
}
