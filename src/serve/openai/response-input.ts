/** Converts the input of /v1/responses (a text, or items of the conversation) to the template's messages. */

import { z } from "zod";
import { describeValue } from "../../core/describe-value.js";
import { MillraceError } from "../../core/errors.js";
import { pathText } from "../../core/schema-problem.js";
import type { Asker, PromptContext } from "../http/context.js";
import { invalidParameter } from "../http/invalid-parameter.js";
import type { PlainMessage, PlainToolCall } from "./chat-messages.js";
import { parseNested } from "./fields.js";

/** Items are checked by type later, so that the error can name an unsupported type. */
export const inputField = z.union([z.string(), z.array(z.looseObject({ type: z.string().nullish() }))]);

const anyPart = z.looseObject({ type: z.string(), text: z.string().nullish(), refusal: z.string().nullish() });
type AnyPart = z.output<typeof anyPart>;

/** Other fields are dropped: ids, states, and fields that clients add to items of earlier answers. */
const messageItem = z.object({
  type: z.literal("message").nullish(),
  role: z.enum(["system", "developer", "user", "assistant"]),
  content: z.union([z.string(), z.array(anyPart)]),
});

const callItem = z.object({
  type: z.literal("function_call"),
  call_id: z.string(),
  name: z.string(),
  arguments: z.string(),
});

const resultItem = z.object({
  type: z.enum(["function_call_output", "custom_tool_call_output"]),
  call_id: z.string(),
  output: z.union([z.string(), z.array(anyPart)]),
});

/** An earlier model's call of a tool that takes free text. */
const customCallItem = z.object({
  type: z.literal("custom_tool_call"),
  call_id: z.string(),
  name: z.string(),
  input: z.string(),
});

/**
 * Items of steps on OpenAI's own servers: calls of their tools, whose results the next messages repeat, and compacted
 * conversations, which are encrypted.
 */
const PROVIDERS_STEPS: readonly unknown[] = ["web_search_call", "file_search_call", "mcp_list_tools", "compaction"];

/** The server cannot use summaries or encrypted contents; its own answers have neither. */
const reasoningItem = z.object({
  type: z.literal("reasoning"),
  content: z.array(z.object({ type: z.literal("reasoning_text"), text: z.string() })).nullish(),
});

const TEXT_PARTS: readonly string[] = ["input_text", "output_text", "text"];

function partText(part: AnyPart, path: readonly PropertyKey[]): string {
  // A refusal is treated as the content of its message.
  if (part.type === "refusal" && part.refusal != null) return part.refusal;
  if (!TEXT_PARTS.includes(part.type)) {
    throw new MillraceError(
      "unsupported_field",
      `expected text parts only, got a part of type "${part.type.slice(0, 40)}"`,
      { param: pathText([...path, "type"]), hint: "this server takes no images, audio or files" },
    );
  }
  if (part.text != null) return part.text;
  throw invalidParameter(pathText([...path, "text"]), "expected a string, got nothing");
}

function contentText(content: string | readonly AnyPart[], path: readonly PropertyKey[]): string {
  if (typeof content === "string") return content;
  return content.map((part, index) => partText(part, [...path, index])).join("\n");
}

/** A message under construction, since clients send an answer back as several items. */
interface Turn {
  readonly role: string;
  content: string;
  reasoning: string;
  readonly calls: PlainToolCall[];
  readonly resultOf?: string;
}

function toPlainMessage({ role, content, reasoning, calls, resultOf }: Turn): PlainMessage {
  return {
    role,
    content,
    ...(resultOf === undefined ? {} : { tool_call_id: resultOf }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
    ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
  };
}

class InputReader {
  readonly #c: Asker;
  readonly #context: PromptContext;
  readonly #turns: Turn[] = [];

  constructor(c: Asker, context: PromptContext) {
    this.#c = c;
    this.#context = context;
  }

  get messages(): PlainMessage[] {
    return this.#turns.map(toPlainMessage);
  }

  say(role: string, content: string): void {
    const last = this.#turns.at(-1);
    // This item is the text of a turn that already has its reasoning.
    const isBegun = role === "assistant" && last?.role === role && last.content === "" && last.calls.length === 0;
    if (isBegun) last.content = content;
    else this.#turns.push({ role, content, reasoning: "", calls: [] });
  }

  #call(id: string, name: string, given: string): void {
    if (this.#turns.at(-1)?.role !== "assistant") this.say("assistant", "");
    this.#turns.at(-1)?.calls.push({ id, type: "function", function: { name, arguments: given } });
  }

  read(item: { readonly type?: string | null | undefined }, path: readonly PropertyKey[]): void {
    switch (item.type ?? "message") {
      case "message": {
        const { role, content } = parseNested(this.#c, this.#context, messageItem, item, path);
        this.say(role === "developer" ? "system" : role, contentText(content, [...path, "content"]));
        return;
      }
      case "reasoning": {
        const { content } = parseNested(this.#c, this.#context, reasoningItem, item, path);
        const reasoning = (content ?? []).map((part) => part.text).join("");
        if (reasoning !== "") this.#turns.push({ role: "assistant", content: "", reasoning, calls: [] });
        return;
      }
      case "function_call": {
        const { call_id: id, name, arguments: given } = parseNested(this.#c, this.#context, callItem, item, path);
        this.#call(id, name, given);
        return;
      }
      case "custom_tool_call": {
        const { call_id: id, name, input } = parseNested(this.#c, this.#context, customCallItem, item, path);
        this.#call(id, name, JSON.stringify({ input }));
        return;
      }
      case "custom_tool_call_output":
      case "function_call_output": {
        const { output, call_id: resultOf } = parseNested(this.#c, this.#context, resultItem, item, path);
        const content = contentText(output, [...path, "output"]);
        this.#turns.push({ role: "tool", content, reasoning: "", calls: [], resultOf });
        return;
      }
      default: {
        if (PROVIDERS_STEPS.includes(item.type)) return;
        const param = pathText([...path, "type"]);
        const expected = '"message", "reasoning", "function_call" or "function_call_output"';
        throw new MillraceError(
          "unsupported_field",
          `${param}: expected ${expected}, got ${describeValue(item.type)}`,
          {
            param,
            hint: "this server runs no tools itself",
          },
        );
      }
    }
  }
}

export function readInput(
  c: Asker,
  context: PromptContext,
  input: z.output<typeof inputField>,
  instructions: string | undefined,
): PlainMessage[] {
  const reader = new InputReader(c, context);
  if (instructions !== undefined) reader.say("system", instructions);
  if (typeof input === "string") reader.say("user", input);
  else {
    if (input.length === 0) {
      throw new MillraceError("empty_prompt", "input: expected at least one message, got none", { param: "input" });
    }
    input.forEach((item, index) => {
      reader.read(item, ["input", index]);
    });
  }
  return reader.messages;
}
