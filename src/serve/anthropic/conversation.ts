/** Converts Anthropic's messages and content blocks to the template's messages, and renders these to token ids. */

import { z } from "zod";
import { MillraceError } from "../../core/errors.js";
import { pathText } from "../../core/schema-problem.js";
import type { Asker, PromptContext } from "../http/context.js";
import { invalidParameter } from "../http/invalid-parameter.js";
import type { PlainMessage, PlainToolCall } from "../openai/chat-messages.js";
import { type ChatPlan, planChat } from "../openai/chat-plan.js";
import { parseNested } from "../openai/fields.js";
import {
  type AnyBlock,
  answerFormOf,
  anyBlock,
  type ConversationFields,
  effortOf,
  type MessageField,
  thinkingKwargs,
} from "./conversation-fields.js";
import { readTools } from "./tool-fields.js";

type Path = readonly PropertyKey[];

/** Other fields are dropped, because a text model does not read them. */
const textBlock = z.object({ type: z.literal("text"), text: z.string() });

/** A plain-text document. PDF files need models that see, and addresses need servers that fetch. */
const documentBlock = z.object({
  title: z.string().nullish(),
  context: z.string().nullish(),
  source: z.discriminatedUnion("type", [
    z.object({ type: z.literal("text"), data: z.string() }),
    z.object({ type: z.literal("content"), content: z.union([z.string(), z.array(anyBlock)]) }),
  ]),
});

const searchResultBlock = z.object({ source: z.string(), title: z.string(), content: z.array(anyBlock) });

const toolUseBlock = z.object({
  type: z.literal("tool_use"),
  id: z.string(),
  name: z.string(),
  input: z.unknown(),
});

const toolResultBlock = z.object({
  type: z.literal("tool_result"),
  tool_use_id: z.string(),
  content: z.union([z.string(), z.array(z.looseObject({ type: z.string() }))]).nullish(),
});

const thinkingBlock = z.object({ type: z.literal("thinking"), thinking: z.string() });

function noMessages(): MillraceError {
  return new MillraceError("empty_prompt", "expected at least one message that says something, got none", {
    param: "messages",
  });
}

/** A message under construction. */
interface Turn {
  readonly role: "system" | "user" | "assistant" | "tool";
  readonly texts: string[];
  readonly thoughts: string[];
  readonly toolCalls: PlainToolCall[];
  readonly toolCallId?: string;
}

function newTurn(role: Turn["role"]): Turn {
  return { role, texts: [], thoughts: [], toolCalls: [] };
}

/** Consecutive texts, as blocks or as messages of one role, become lines of one text. */
function toPlainMessage({ role, texts, thoughts, toolCalls, toolCallId }: Turn): PlainMessage {
  return {
    role,
    content: texts.join("\n"),
    ...(toolCallId === undefined ? {} : { tool_call_id: toolCallId }),
    ...(toolCalls.length === 0 ? {} : { tool_calls: toolCalls }),
    ...(thoughts.length === 0 ? {} : { reasoning_content: thoughts.join("\n") }),
  };
}

/** A text with its labels, each in tags that the label cannot close: titles come from searched pages. */
function tagged(
  tag: string,
  labels: Readonly<Record<string, string | null | undefined>>,
  body: readonly string[],
): string {
  const named = Object.entries(labels).filter(([, label]) => label != null && label !== "");
  const lines = named.map(([name, label]) => `<${name}>${label!.replaceAll("<", "&lt;")}</${name}>`);
  return [`<${tag}>`, ...lines, ...body, `</${tag}>`].join("\n");
}

class ConversationReader {
  readonly #c: Asker;
  readonly #context: PromptContext;
  readonly #turns: Turn[] = [];

  constructor(c: Asker, context: PromptContext) {
    this.#c = c;
    this.#context = context;
  }

  read(fields: ConversationFields): PlainMessage[] {
    if (fields.messages.length === 0) throw noMessages();
    const system = this.#texts(fields.system ?? "", ["system"]);
    if (system.length > 0) this.#turns.push({ ...newTurn("system"), texts: system });
    fields.messages.forEach(({ role, content }, index) => {
      this.#turnOf(role);
      this.#addContent(role, content, ["messages", index, "content"]);
    });
    return this.#turns.map(toPlainMessage);
  }

  /** Like Anthropic, joins consecutive messages of the same role. */
  #turnOf(role: MessageField["role"]): Turn {
    const last = this.#turns.at(-1);
    if (last?.role === role) return last;
    const turn = newTurn(role);
    this.#turns.push(turn);
    return turn;
  }

  #addContent(role: MessageField["role"], content: MessageField["content"], path: Path): void {
    if (typeof content === "string") {
      if (content !== "") this.#turnOf(role).texts.push(content);
      return;
    }
    content.forEach((block, index) => {
      const at = [...path, index];
      if (role === "user" && block.type === "tool_result") this.#addToolResult(block, at);
      else if (role === "assistant" && block.type === "tool_use") this.#addToolUse(block, at);
      else if (role === "assistant" && block.type === "thinking") this.#addThought(block, at);
      // Redacted thinking is encrypted for another server, so it is dropped.
      else if (role === "assistant" && block.type === "redacted_thinking") return;
      else this.#addText(this.#turnOf(role).texts, block, at);
    });
  }

  /** Each result becomes a separate message, in the order of the blocks. */
  #addToolResult(block: AnyBlock, path: Path): void {
    const { tool_use_id, content } = parseNested(this.#c, this.#context, toolResultBlock, block, path);
    // The user message that was begun for the block is still empty.
    const last = this.#turns.at(-1);
    if (last?.role === "user" && last.texts.length === 0) this.#turns.pop();
    const texts = this.#texts(content ?? "", [...path, "content"]);
    this.#turns.push({ ...newTurn("tool"), texts, toolCallId: tool_use_id });
  }

  #addToolUse(block: AnyBlock, path: Path): void {
    const { id, name, input } = parseNested(this.#c, this.#context, toolUseBlock, block, path);
    const call = { name, arguments: JSON.stringify(input ?? {}) };
    this.#turnOf("assistant").toolCalls.push({ id, type: "function", function: call });
  }

  /** Earlier thoughts are kept, because some templates show them to the model. */
  #addThought(block: AnyBlock, path: Path): void {
    const { thinking } = parseNested(this.#c, this.#context, thinkingBlock, block, path);
    if (thinking !== "") this.#turnOf("assistant").thoughts.push(thinking);
  }

  #texts(content: MessageField["content"], path: Path): string[] {
    if (typeof content === "string") return content === "" ? [] : [content];
    const texts: string[] = [];
    content.forEach((block, index) => {
      this.#addText(texts, block, [...path, index]);
    });
    return texts;
  }

  /** The document's parts between tags, as in Anthropic's guide to prompts: the model sees where a document ends. */
  #document(block: AnyBlock, path: Path): string {
    const { title, context, source } = parseNested(this.#c, this.#context, documentBlock, block, path);
    const body = source.type === "text" ? [source.data] : this.#texts(source.content, [...path, "source", "content"]);
    return tagged("document", { title, context }, body);
  }

  #searchResult(block: AnyBlock, path: Path): string {
    const { source, title, content } = parseNested(this.#c, this.#context, searchResultBlock, block, path);
    return tagged("search_result", { source, title }, this.#texts(content, [...path, "content"]));
  }

  #addText(texts: string[], block: AnyBlock, path: Path): void {
    if (block.type === "document" || block.type === "search_result") {
      texts.push(block.type === "document" ? this.#document(block, path) : this.#searchResult(block, path));
      return;
    }
    if (block.type !== "text") {
      const param = `${pathText(path)}.type`;
      throw new MillraceError(
        "unsupported_field",
        `${param}: expected "text", got ${JSON.stringify(block.type.slice(0, 40))}`,
        { param, hint: "this server takes no images, files or server tools" },
      );
    }
    const { text } = parseNested(this.#c, this.#context, textBlock, block, path);
    if (text !== "") texts.push(text);
  }
}

/** Whether the answer continues the last message. */
function isPrefilled(messages: readonly PlainMessage[], param: string): boolean {
  const last = messages.at(-1);
  if (last?.role !== "assistant") return false;
  if (last.tool_calls !== undefined) {
    throw invalidParameter(param, "expected a tool_result for each tool_use in a message after it, got none");
  }
  if (last.content !== last.content.trimEnd()) {
    throw invalidParameter(param, "expected a last assistant message without white space at its end, got one with");
  }
  return true;
}

/** @example const { promptIds, reading } = await planConversation(c, context, request); */
export async function planConversation(
  c: Asker,
  context: PromptContext,
  fields: ConversationFields,
): Promise<ChatPlan> {
  if (fields.thread !== undefined) {
    const message = "expected a request without a thread, got one with: nothing is kept between requests";
    throw new MillraceError("thread_unsupported_request", message, {
      param: "thread",
      hint: "send the whole conversation in messages",
    });
  }
  const kwargs = thinkingKwargs(fields.thinking, context.chatFormat.hasReasoning);
  const tools = readTools(c, context, fields);
  const messages = new ConversationReader(c, context).read(fields);
  const lastIndex = fields.messages.length - 1;
  let continuesFinalMessage = isPrefilled(messages, `messages[${lastIndex}].content`);
  if (continuesFinalMessage && messages.at(-1)?.content === "") {
    // An empty assistant message has nothing to continue, so it is dropped.
    messages.pop();
    if (messages.length === 0) throw noMessages();
    continuesFinalMessage = false;
  }
  const chatFields = {
    ...tools,
    continue_final_message: continuesFinalMessage,
    chat_template_kwargs: kwargs,
    reasoning_effort: effortOf(fields),
    thinking_token_budget: fields.thinking?.type === "enabled" ? fields.thinking.budget_tokens : undefined,
  };
  return planChat(context, messages, chatFields, answerFormOf(fields));
}
