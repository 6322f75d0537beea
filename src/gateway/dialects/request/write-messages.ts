/** Writes a request in Anthropic's messages, for a client with another dialect. */
import type { JsonObject } from "../../../core/json-body.js";
import type {
  AssistantPart,
  Conversation,
  ImagePart,
  TextPart,
  ThoughtPart,
  ToolChoice,
  UserPart,
} from "../conversation/conversation.js";
import {
  argumentsOf,
  assertUserFirst,
  budgetOf,
  effortOf,
  lacksPenalties,
  present,
  temperatureUpTo1,
  topKOf,
  type WriteTerms,
} from "./terms.js";

export function writeMessages(conversation: Conversation, terms: WriteTerms): JsonObject {
  const { losses, model, names, defaultMaxTokens } = terms;
  const { system, turns, tools, format } = conversation;
  assertUserFirst(conversation, terms);
  if (conversation.seed !== undefined) losses.lacks("seed");
  lacksPenalties(conversation, losses);
  if (format !== undefined && format.schema === undefined) losses.lacks(names.format, "a json_schema, or no format,");
  const maxTokens = conversation.maxTokens ?? defaultMaxTokens;
  const { thinking, effort } = thinkingOf(conversation, terms, maxTokens);
  const schema = format?.schema;
  const output = present({ effort, format: schema === undefined ? undefined : { type: "json_schema", schema } });
  return present({
    model,
    max_tokens: maxTokens,
    system: system.length === 0 ? undefined : system.map(textBlock),
    messages: turns.map(({ role, parts }) => ({ role, content: parts.map(blockOf) })),
    tools: tools.length === 0 ? undefined : tools.map(toolOf),
    tool_choice: toolChoiceOf(conversation),
    temperature: temperatureUpTo1(conversation, losses),
    top_p: conversation.topP,
    top_k: topKOf(conversation),
    stop_sequences: conversation.stop.length === 0 ? undefined : conversation.stop,
    thinking,
    output_config: Object.keys(output).length === 0 ? undefined : output,
    metadata: conversation.user === undefined ? undefined : { user_id: conversation.user },
    stream: conversation.isStream ? true : undefined,
  });
}

function thinkingOf(conversation: Conversation, { thinking, losses, names }: WriteTerms, maxTokens: number) {
  const { reasoning } = conversation;
  if (reasoning === undefined) return {};
  if (reasoning.kind === "off") return { thinking: { type: "disabled" } };
  if (thinking === "effort") {
    const effort = effortOf(reasoning);
    return { thinking: { type: "adaptive" }, effort: effort === "minimal" ? "low" : effort };
  }
  const budget = budgetOf(reasoning, maxTokens);
  // With a budget, Anthropic wants the thoughts back before the calls that they led to, and OpenAI's dialect has none
  // to give.
  if (budget !== undefined && !isMidLoop(conversation)) return { thinking: { type: "enabled", budget_tokens: budget } };
  losses.ignores(names.reasoning);
  return {};
}

/** Whether the model is to continue after results of calls whose thoughts are unknown. */
function isMidLoop({ turns }: Conversation): boolean {
  const hasResult = turns.at(-1)?.parts.some(({ kind }) => kind === "result") === true;
  return hasResult && turns.at(-2)?.parts.some(({ kind }) => kind === "thought" || kind === "hidden-thought") !== true;
}

function toolChoiceOf({ toolChoice, allowsParallelCalls, tools }: Conversation): object | undefined {
  if (tools.length === 0) return undefined;
  const one = allowsParallelCalls ? {} : { disable_parallel_tool_use: true };
  const choice: ToolChoice = toolChoice ?? { kind: "auto" };
  if (toolChoice === undefined && allowsParallelCalls) return undefined;
  switch (choice.kind) {
    case "none":
      return { type: "none" };
    case "required":
      return { type: "any", ...one };
    case "tool":
      return { type: "tool", name: choice.name, ...one };
    default:
      return { type: "auto", ...one };
  }
}

function toolOf({ name, description, schema, isStrict, isCached }: Conversation["tools"][number]): object {
  return present({ name, description, input_schema: schema, strict: isStrict ? true : undefined, ...cached(isCached) });
}

function cached(isCached: boolean | undefined): { readonly cache_control?: object } {
  return isCached === true ? { cache_control: { type: "ephemeral" } } : {};
}

function textBlock({ text, isCached }: TextPart): object {
  return { type: "text", text, ...cached(isCached) };
}

function imageBlock({ source, isCached }: ImagePart): object {
  const written =
    source.url === undefined
      ? { type: "base64", media_type: source.mediaType, data: source.base64 }
      : { type: "url", url: source.url };
  return { type: "image", source: written, ...cached(isCached) };
}

function thoughtBlock({ text, signature }: ThoughtPart): object {
  return { type: "thinking", thinking: text, signature };
}

function blockOf(part: UserPart | AssistantPart): object {
  switch (part.kind) {
    case "text":
      return textBlock(part);
    case "image":
      return imageBlock(part);
    case "thought":
      return thoughtBlock(part);
    case "hidden-thought":
      return { type: "redacted_thinking", data: part.data };
    case "call":
      return { type: "tool_use", id: part.id, name: part.name, input: argumentsOf(part) };
    case "result": {
      const content = part.parts.map((each) => (each.kind === "text" ? textBlock(each) : imageBlock(each)));
      return {
        type: "tool_result",
        tool_use_id: part.id,
        ...(content.length === 0 ? {} : { content }),
        ...(part.isError ? { is_error: true } : {}),
        ...cached(part.isCached),
      };
    }
  }
}
