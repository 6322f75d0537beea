/** Reads a client's OpenAI chat completions, for a provider with another dialect. */
import { isPlainObject } from "../../../core/is-plain-object.js";
import type { JsonObject } from "../../../core/json-body.js";
import {
  type AssistantPart,
  type CallPart,
  type Conversation,
  EFFORTS,
  type FieldNames,
  type ImagePart,
  type TextPart,
  type Tool,
} from "../conversation/conversation.js";
import { Fields, invalid } from "../conversation/fields.js";
import type { Losses } from "../conversation/losses.js";
import { callId, TurnList } from "../conversation/turns.js";
import { extrasOf, imageSource, objectSchema, reasoningOf, samplingOf, toolChoiceOf } from "./openai-parts.js";

export const CHAT_NAMES: FieldNames = {
  messages: "messages",
  maxTokens: "max_tokens",
  format: "response_format",
  reasoning: "reasoning_effort",
  toolChoice: "tool_choice",
  parallelCalls: "parallel_tool_calls",
  stop: "stop",
  user: "user",
};

/** Fields on which the answer does not depend, or not by intent. */
const HINTS: readonly string[] = [
  "metadata",
  "prompt_cache_key",
  "prompt_cache_options",
  "prompt_cache_retention",
  "safety_identifier",
  "service_tier",
  "store",
  "priority",
];
/** Members of answers that clients repeat in the next request, and that OpenAI ignores there. */
const REPEATED: readonly string[] = ["reasoning_content", "reasoning", "annotations", "parsed", "audio"];
/** Values that mean the same as leaving the field out. */
const IDLE: Readonly<Record<string, (value: unknown) => boolean>> = {
  n: (value) => value === 1,
  logprobs: (value) => value === false,
  top_logprobs: (value) => value === 0,
  logit_bias: (value) => isPlainObject(value) && Object.keys(value).length === 0,
  modalities: (value) => Array.isArray(value) && value.length === 1 && value[0] === "text",
  store: (value) => value === false,
  service_tier: (value) => value === "auto" || value === "default",
  functions: (value) => Array.isArray(value) && value.length === 0,
};

export function readChat(body: JsonObject, losses: Losses): Conversation {
  const fields = new Fields(body);
  fields.take("model");
  fields.take("stream_options");
  const { system, turns } = messagesOf(fields, losses);
  const tools = fields.objects("tools").map((tool) => toolOf(tool, losses));
  const most = fields.integer("max_completion_tokens", 1);
  const conversation: Conversation = {
    system,
    turns,
    tools,
    toolChoice: toolChoiceOf(fields, losses, (chosen) => chosen.inner("function")?.required("name")),
    allowsParallelCalls: fields.boolean("parallel_tool_calls") !== false,
    maxTokens: fields.integer("max_tokens", 1) ?? most,
    ...samplingOf(fields),
    format: formatOf(fields),
    reasoning: reasoningOf(fields.oneOf("reasoning_effort", ["none", ...EFFORTS])),
    user: fields.text("user"),
    isStream: fields.boolean("stream") === true,
  };
  losses.take(extrasOf(fields, body, { hints: HINTS, idle: IDLE }));
  return conversation;
}

function messagesOf(fields: Fields, losses: Losses) {
  const messages = fields.objects("messages");
  if (messages.length === 0) throw invalid("messages", "a list of at least one message", fields.take("messages"));
  const system: TextPart[] = [];
  const list = new TurnList();
  for (const message of messages) {
    const role = message.oneOf("role", ["system", "developer", "user", "assistant", "tool"]);
    switch (role) {
      case "system":
      case "developer":
        if (list.numTurns > 0) losses.lacks(message.name("role"), "system messages before all others");
        for (const part of textsOf(message, losses)) system.push(part);
        break;
      case "user":
        list.add("user", contentOf(message, losses));
        break;
      case "tool": {
        const id = callId(message.required("tool_call_id"));
        list.add("user", [{ kind: "result", id, parts: contentOf(message, losses), isError: false }]);
        break;
      }
      case "assistant":
        list.add("assistant", assistantOf(message, losses));
        break;
      default:
        throw invalid(message.name("role"), "the role of a message", undefined);
    }
    // A name tells speakers of one role apart, which no other dialect does. OpenAI, too, ignores reasoning that a
    // client repeats.
    for (const key of message.unread()) {
      if (key === "name") losses.ignores(message.name(key));
      else if (!REPEATED.includes(key)) losses.lacks(message.name(key));
    }
  }
  return { system, turns: list.turns };
}

function textsOf(message: Fields, losses: Losses): readonly TextPart[] {
  return contentOf(message, losses).map((part): TextPart => {
    if (part.kind === "text") return part;
    return losses.cannot(message.name("content"), "text in this message", "an image");
  });
}

function contentOf(message: Fields, losses: Losses): readonly (TextPart | ImagePart)[] {
  const content = message.take("content");
  if (content === undefined) return [];
  if (typeof content === "string") return content === "" ? [] : [{ kind: "text", text: content }];
  if (!Array.isArray(content)) throw invalid(message.name("content"), "text or a list of parts", content);
  return content.map((item, index): TextPart | ImagePart => {
    const path = `${message.name("content")}[${index}]`;
    if (!isPlainObject(item)) throw invalid(path, "a part", item);
    return partOf(new Fields(item, path), losses);
  });
}

function partOf(part: Fields, losses: Losses): TextPart | ImagePart {
  const type = part.required("type");
  if (type === "text") return { kind: "text", text: part.required("text") };
  if (type === "refusal") return { kind: "text", text: part.required("refusal") };
  if (type !== "image_url")
    return losses.cannot(part.name("type"), "text or image_url", JSON.stringify(type.slice(0, 40)));
  const image = part.inner("image_url");
  if (image === undefined) throw invalid(part.name("image_url"), "an object with the url of an image", undefined);
  return { kind: "image", source: imageSource(image.required("url"), image.name("url")) };
}

function assistantOf(message: Fields, losses: Losses): readonly AssistantPart[] {
  const parts: AssistantPart[] = [];
  for (const part of textsOf(message, losses)) parts.push(part);
  const refusal = message.text("refusal");
  if (refusal !== undefined) parts.push({ kind: "text", text: refusal });
  for (const call of message.objects("tool_calls")) parts.push(callOf(call, losses));
  return parts;
}

function callOf(call: Fields, losses: Losses): CallPart {
  const type = call.text("type") ?? "function";
  const made = call.inner("function");
  if (type !== "function" || made === undefined) {
    return losses.cannot(call.name("type"), "calls of functions", JSON.stringify(type.slice(0, 40)));
  }
  const google = call.inner("extra_content")?.inner("google");
  return {
    kind: "call",
    id: callId(call.required("id")),
    name: made.required("name"),
    json: made.text("arguments") ?? "",
    param: made.name("arguments"),
    signature: google?.text("thought_signature"),
  };
}

function toolOf(tool: Fields, losses: Losses): Tool {
  const type = tool.text("type") ?? "function";
  const made = tool.inner("function");
  if (type !== "function" || made === undefined) {
    return losses.cannot(tool.name("type"), "tools of type function", JSON.stringify(type.slice(0, 40)));
  }
  return {
    name: made.required("name"),
    description: made.text("description"),
    schema: objectSchema(made.objectAt("parameters"), made.name("parameters")),
    isStrict: made.boolean("strict") === true,
  };
}

function formatOf(fields: Fields): Conversation["format"] {
  const format = fields.inner("response_format");
  const type = format?.oneOf("type", ["text", "json_object", "json_schema"]);
  if (format === undefined || type === undefined || type === "text") return undefined;
  if (type === "json_object") return { name: "answer", schema: format.objectAt("schema") };
  const described = format.inner("json_schema");
  const schema = described?.objectAt("schema");
  if (described === undefined || schema === undefined) {
    throw invalid("response_format.json_schema.schema", "a JSON Schema", undefined);
  }
  return { name: described.text("name") ?? "answer", schema };
}
