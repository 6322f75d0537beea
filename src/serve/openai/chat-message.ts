/** The assistant's message and the finish reason of one choice in a complete chat answer. */
import { randomUUID } from "node:crypto";
import type { AnswerPart } from "../../text/answer/answer-part.js";
import type { GenerationEnd } from "../generation/generation.js";
import type { ChoiceResult } from "../http/respond.js";

export function newCallId(): string {
  return `call_${randomUUID().replaceAll("-", "")}`;
}

/** The message's field for its calls: OpenAI's first API had one call in `function_call`. */
export type CallField = "tool_calls" | "function_call";

/** An answer cut off at its limit has the finish reason `length`, even if it has calls. */
export function finishReason(
  end: GenerationEnd,
  parts: readonly AnswerPart[] | undefined,
  callField: CallField = "tool_calls",
): string {
  const hasCalls = parts?.some((part) => part.kind === "call") === true;
  return hasCalls && end.reason === "stop" ? callField : end.reason;
}

/** Reasoning has both names that clients read: DeepSeek's, and vLLM's later one. */
export function reasoningFields(text: string) {
  return { reasoning_content: text, reasoning: text };
}

function textOf(parts: readonly AnswerPart[], kind: "content" | "reasoning"): string {
  return parts.map((part) => (part.kind === kind ? part.text : "")).join("");
}

function toolCalls(parts: readonly AnswerPart[]) {
  const calls: { id: string; type: "function"; function: { name: string; arguments: string } }[] = [];
  for (const part of parts) {
    if (part.kind === "call") {
      calls.push({ id: newCallId(), type: "function", function: { name: part.name, arguments: "" } });
    } else if (part.kind === "arguments") calls[part.index]!.function.arguments += part.text;
  }
  return calls;
}

interface MessageOptions {
  readonly showsReasoning: boolean;
  readonly callField: CallField;
  /** The text that precedes the answer's own. */
  readonly echoed: string;
}

export function chatMessage(
  { text, parts }: Pick<ChoiceResult, "text" | "parts">,
  { showsReasoning, callField, echoed }: MessageOptions,
) {
  const message = { role: "assistant", content: echoed + text, refusal: null };
  if (parts === undefined) return message;
  const content = echoed + textOf(parts, "content");
  const reasoning = textOf(parts, "reasoning");
  const calls = toolCalls(parts);
  return {
    ...message,
    content: content === "" && parts.length > 0 ? null : content,
    ...(reasoning === "" || !showsReasoning ? {} : reasoningFields(reasoning)),
    ...(calls.length === 0 ? {} : { [callField]: callField === "tool_calls" ? calls : calls[0]!.function }),
  };
}
