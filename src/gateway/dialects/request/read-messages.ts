/** Reads a client's Anthropic messages, for a provider with another dialect. */
import type { JsonObject } from "../../../core/json-body.js";
import type {
  AssistantPart,
  CallPart,
  Conversation,
  FieldNames,
  ImagePart,
  Reasoning,
  ResultPart,
  TextPart,
  Tool,
  ToolChoice,
  UserPart,
} from "../conversation/conversation.js";
import { Fields, invalid } from "../conversation/fields.js";
import type { Losses } from "../conversation/losses.js";
import { signatureOf } from "../conversation/signatures.js";
import { callId, TurnList } from "../conversation/turns.js";
import { objectSchema } from "./openai-parts.js";

export const MESSAGES_NAMES: FieldNames = {
  messages: "messages",
  maxTokens: "max_tokens",
  format: "output_config.format",
  reasoning: "thinking",
  toolChoice: "tool_choice",
  parallelCalls: "tool_choice.disable_parallel_tool_use",
  stop: "stop_sequences",
  user: "metadata.user_id",
};

/** Fields on which the answer does not depend, or not by intent. */
const HINTS: readonly string[] = ["cache_control", "service_tier", "diagnostics", "speed", "inference_geo", "priority"];

export function readMessages(body: JsonObject, losses: Losses): Conversation {
  const fields = new Fields(body);
  fields.take("model");
  const list = new TurnList();
  const system = systemOf(fields, losses);
  const messages = fields.objects("messages");
  if (messages.length === 0) throw invalid("messages", "a list of at least one message", fields.take("messages"));
  for (const message of messages) {
    const role = message.oneOf("role", ["user", "assistant", "system"]);
    if (role === "user") list.add("user", userParts(message, losses));
    else if (role === "assistant") list.add("assistant", assistantParts(message, losses));
    else if (role === "system") {
      if (list.numTurns > 0) losses.lacks(message.name("role"), "system messages before all others");
      for (const part of texts(message, "content", losses)) system.push(part);
    } else throw invalid(message.name("role"), "user or assistant", undefined);
  }
  const maxTokens = fields.integer("max_tokens", 1);
  if (maxTokens === undefined) throw invalid("max_tokens", "a whole number of at least 1", undefined);
  const choice = fields.inner("tool_choice");
  const conversation: Conversation = {
    system,
    turns: list.turns,
    tools: fields.objects("tools").map((tool) => toolOf(tool, losses)),
    toolChoice: toolChoiceOf(choice),
    allowsParallelCalls: choice?.boolean("disable_parallel_tool_use") !== true,
    maxTokens,
    temperature: fields.number("temperature", 0, 1),
    topP: fields.number("top_p", 0, 1),
    topK: fields.integer("top_k", 0),
    stop: stopOf(fields),
    seed: undefined,
    presencePenalty: undefined,
    frequencyPenalty: undefined,
    ...outputOf(fields, losses),
    user: userOf(fields),
    isStream: fields.boolean("stream") === true,
  };
  losses.take(fields.unread().map((param) => ({ param, isHint: HINTS.includes(param) })));
  return conversation;
}

function systemOf(fields: Fields, losses: Losses): TextPart[] {
  return [...texts(fields, "system", losses)];
}

function texts(fields: Fields, key: string, losses: Losses): readonly TextPart[] {
  const value = fields.take(key);
  if (value === undefined) return [];
  if (typeof value === "string") return value === "" ? [] : [{ kind: "text", text: value }];
  return fields.objects(key).map((block) => {
    if (block.required("type") !== "text") return losses.cannot(block.name("type"), "text", "another block");
    return textOf(block);
  });
}

function textOf(block: Fields): TextPart {
  return { kind: "text", text: block.required("text"), ...cached(block) };
}

const cached = (block: Fields): { readonly isCached?: true } =>
  block.take("cache_control") === undefined ? {} : { isCached: true };

function blocksOf<T>(message: Fields, read: (block: Fields, type: string) => T): readonly (T | TextPart)[] {
  const content = message.take("content");
  if (typeof content === "string") return content === "" ? [] : [{ kind: "text", text: content }];
  if (!Array.isArray(content)) throw invalid(message.name("content"), "text or a list of blocks", content);
  return message.objects("content").map((block) => {
    const type = block.required("type");
    return type === "text" ? textOf(block) : read(block, type);
  });
}

function userParts(message: Fields, losses: Losses): readonly UserPart[] {
  return blocksOf(message, (block, type): UserPart => {
    if (type === "image") return imageOf(block, losses);
    if (type === "tool_result") return resultOf(block, losses);
    return losses.cannot(block.name("type"), "text, image or tool_result", JSON.stringify(type.slice(0, 40)));
  });
}

function imageOf(block: Fields, losses: Losses): ImagePart {
  const source = block.inner("source");
  const type = source?.required("type");
  if (type === "url") return { kind: "image", source: { url: source!.required("url") }, ...cached(block) };
  if (type === "base64") {
    const image = { mediaType: source!.required("media_type"), base64: source!.required("data") };
    return { kind: "image", source: image, ...cached(block) };
  }
  return losses.cannot(`${block.name("source")}.type`, "base64 or url", JSON.stringify(type?.slice(0, 40) ?? null));
}

function resultOf(block: Fields, losses: Losses): ResultPart {
  const id = callId(block.required("tool_use_id"));
  const isError = block.boolean("is_error") === true;
  const isEmpty = block.take("content") === undefined;
  const parts = isEmpty
    ? []
    : blocksOf(block, (inner, type): TextPart | ImagePart => {
        if (type === "image") return imageOf(inner, losses);
        return losses.cannot(inner.name("type"), "text or image", JSON.stringify(type.slice(0, 40)));
      });
  return { kind: "result", id, parts, isError, ...cached(block) };
}

function assistantParts(message: Fields, losses: Losses): readonly AssistantPart[] {
  const parts: AssistantPart[] = [];
  let signature: string | undefined;
  const blocks = blocksOf(message, (block, type): AssistantPart | undefined => {
    if (type === "thinking") {
      const written = block.text("signature") ?? "";
      signature = signatureOf(written);
      // Unsigned thoughts come from other providers, or from our own engine.
      if (signature !== undefined || written === "") return undefined;
      return { kind: "thought", text: block.text("thinking") ?? "", signature: written };
    }
    if (type === "redacted_thinking") return { kind: "hidden-thought", data: block.required("data") };
    if (type !== "tool_use") {
      return losses.cannot(block.name("type"), "text, thinking or tool_use", JSON.stringify(type.slice(0, 40)));
    }
    const call = callOf(block, signature);
    signature = undefined;
    return call;
  });
  for (const block of blocks) if (block !== undefined) parts.push(block);
  return parts;
}

function callOf(block: Fields, signature: string | undefined): CallPart {
  const json = JSON.stringify(block.objectAt("input") ?? {});
  const [id, name] = [callId(block.required("id")), block.required("name")];
  return { kind: "call", id, name, json, param: block.name("input"), signature };
}

function toolOf(tool: Fields, losses: Losses): Tool {
  const type = tool.text("type") ?? "custom";
  if (type !== "custom")
    return losses.cannot(tool.name("type"), "tools of the client", JSON.stringify(type.slice(0, 40)));
  const schema = tool.objectAt("input_schema");
  if (schema === undefined) throw invalid(tool.name("input_schema"), "a JSON Schema of type object", undefined);
  return {
    name: tool.required("name"),
    description: tool.text("description"),
    schema: objectSchema(schema, tool.name("input_schema")),
    isStrict: tool.boolean("strict") === true,
    ...cached(tool),
  };
}

function toolChoiceOf(choice: Fields | undefined): ToolChoice | undefined {
  switch (choice?.oneOf("type", ["auto", "any", "tool", "none"])) {
    case "auto":
      return { kind: "auto" };
    case "none":
      return { kind: "none" };
    case "any":
      return { kind: "required" };
    case "tool":
      return { kind: "tool", name: choice!.required("name") };
    default:
      return undefined;
  }
}

function stopOf(fields: Fields): readonly string[] {
  const stop = fields.list("stop_sequences") ?? [];
  for (const each of stop) if (typeof each !== "string") throw invalid("stop_sequences", "a list of texts", each);
  return stop as readonly string[];
}

function userOf(fields: Fields): string | undefined {
  return fields.inner("metadata")?.text("user_id");
}

const EFFORT_OF = { low: "low", medium: "medium", high: "high", xhigh: "xhigh", max: "xhigh" } as const;

/** The format and the effort are both in `output_config`. */
function outputOf(fields: Fields, losses: Losses): Pick<Conversation, "format" | "reasoning"> {
  const output = fields.inner("output_config");
  const format = output?.inner("format") ?? fields.inner("output_format");
  const schema = format?.objectAt("schema");
  if (format !== undefined && schema === undefined) throw invalid(format.name("schema"), "a JSON Schema", undefined);
  const effort = output?.oneOf("effort", ["low", "medium", "high", "xhigh", "max"]);
  for (const key of output?.unread() ?? []) losses.lacks(`output_config.${key}`);
  return {
    format: schema === undefined ? undefined : { name: "answer", schema },
    reasoning: reasoningOf(fields.inner("thinking"), effort),
  };
}

function reasoningOf(thinking: Fields | undefined, effort: keyof typeof EFFORT_OF | undefined): Reasoning | undefined {
  const told = effort === undefined ? {} : { effort: EFFORT_OF[effort] };
  switch (thinking?.oneOf("type", ["enabled", "adaptive", "between_tools", "disabled"])) {
    case "enabled":
      return { kind: "on", budgetTokens: thinking!.integer("budget_tokens", 1024), ...told };
    case "adaptive":
    case "between_tools":
      return { kind: "on", ...told };
    case "disabled":
      return { kind: "off" };
    default:
      return effort === undefined ? undefined : { kind: "on", ...told };
  }
}
