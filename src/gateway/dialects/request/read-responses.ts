/** Reads a client's OpenAI responses, for a provider with another dialect. */
import { isPlainObject } from "../../../core/is-plain-object.js";
import type { JsonObject } from "../../../core/json-body.js";
import {
  type Conversation,
  EFFORTS,
  type FieldNames,
  type ImagePart,
  type Reasoning,
  type TextPart,
  type Tool,
} from "../conversation/conversation.js";
import { described, Fields, invalid } from "../conversation/fields.js";
import type { Losses } from "../conversation/losses.js";
import { unsealed } from "../conversation/signatures.js";
import { callId, TurnList } from "../conversation/turns.js";
import { extrasOf, imageSource, objectSchema, reasoningOf, samplingOf, toolChoiceOf } from "./openai-parts.js";

export const RESPONSES_NAMES: FieldNames = {
  messages: "input",
  maxTokens: "max_output_tokens",
  format: "text.format",
  reasoning: "reasoning",
  toolChoice: "tool_choice",
  parallelCalls: "parallel_tool_calls",
  stop: "stop",
  user: "user",
};

/** Fields on which the answer does not depend, or not by intent: only OpenAI's own tools count as `max_tool_calls`. */
const HINTS: readonly string[] = [
  "client_metadata",
  "max_tool_calls",
  "metadata",
  "priority",
  "prompt_cache_key",
  "prompt_cache_options",
  "prompt_cache_retention",
  "safety_identifier",
  "service_tier",
  "store",
  "truncation",
];
const isEmptyList = (value: unknown): boolean => Array.isArray(value) && value.length === 0;
/**
 * Values that mean the same as leaving the field out. The gateway stores answers itself, and asks providers to store
 * none.
 */
const IDLE: Readonly<Record<string, (value: unknown) => boolean>> = {
  background: (value) => value === false,
  context_management: isEmptyList,
  metadata: (value) => isPlainObject(value) && Object.keys(value).length === 0,
  service_tier: (value) => value === "auto" || value === "default",
  store: (value) => value === false,
  top_logprobs: (value) => value === 0,
  truncation: (value) => value === "disabled",
};
/** More about items that other providers' answers lack, apart from the first, which every answer has. */
const INCLUDED: readonly unknown[] = [
  "reasoning.encrypted_content",
  "code_interpreter_call.outputs",
  "computer_call_output.output.image_url",
  "file_search_call.results",
  "message.input_image.image_url",
  "web_search_call.action.sources",
  "web_search_call.results",
];

export function readResponses(body: JsonObject, losses: Losses): Conversation {
  const fields = new Fields(body);
  fields.take("model");
  fields.take("stream_options");
  const instructions = fields.text("instructions") ?? "";
  const input = new InputReader(losses);
  input.read(fields);
  const more = (fields.list("include") ?? []).find((each) => !INCLUDED.includes(each));
  if (more !== undefined) losses.lacks("include", `no ${described(more)} in include`);
  const conversation: Conversation = {
    system: [...(instructions === "" ? [] : [{ kind: "text" as const, text: instructions }]), ...input.system],
    turns: input.list.turns,
    tools: fields.objects("tools").flatMap((tool) => toolOf(tool, losses) ?? []),
    toolChoice: toolChoiceOf(fields, losses, (chosen) => chosen.text("name")),
    allowsParallelCalls: fields.boolean("parallel_tool_calls") !== false,
    maxTokens: fields.integer("max_output_tokens", 1),
    ...samplingOf(fields),
    format: formatOf(fields, losses),
    reasoning: thinkingOf(fields, losses),
    user: fields.text("user"),
    isStream: fields.boolean("stream") === true,
  };
  losses.take(extrasOf(fields, body, { hints: HINTS, idle: IDLE }));
  return conversation;
}

/** Items after which a call's signature still holds, or which replace it. */
const SIGNED: readonly string[] = ["reasoning", "function_call", "custom_tool_call"];

/**
 * Items and messages of the input, in turns. An item's other members, which clients repeat, add nothing to its content.
 */
class InputReader {
  readonly system: TextPart[] = [];
  readonly list = new TurnList();
  /** Signature of a call, from the item right before it. */
  #signature: string | undefined;

  constructor(private readonly losses: Losses) {}

  read(fields: Fields): void {
    const input = fields.take("input");
    if (typeof input === "string") this.list.add("user", [{ kind: "text", text: input }]);
    else for (const item of fields.objects("input")) this.#item(item);
    if (this.list.numTurns === 0) throw invalid("input", "a text or a list of at least one message", input);
  }

  #item(item: Fields): void {
    const type = item.text("type") ?? "message";
    if (!SIGNED.includes(type)) this.#signature = undefined;
    switch (type) {
      case "message":
        this.#message(item);
        return;
      case "reasoning":
        this.#thought(item);
        return;
      case "function_call":
        this.#call(item, item.text("arguments") ?? "", item.name("arguments"));
        return;
      // A call of a tool that takes free text, as another model made it.
      case "custom_tool_call":
        this.#call(item, JSON.stringify({ input: item.text("input") ?? "" }), item.name("input"));
        return;
      case "function_call_output":
      case "custom_tool_call_output": {
        const id = callId(item.required("call_id"));
        const parts = contentOf(item, "output", this.losses);
        this.list.add("user", [{ kind: "result", id, parts, isError: false }]);
        return;
      }
      default:
        // Steps that OpenAI's servers took themselves: the messages after them state most results.
        this.losses.lacks(item.name("type"), `no items of type ${type.slice(0, 40)}`);
    }
  }

  #message(item: Fields): void {
    const role = item.oneOf("role", ["system", "developer", "user", "assistant"]);
    if (role === undefined) throw invalid(item.name("role"), "the role of a message", undefined);
    const parts = contentOf(item, "content", this.losses);
    if (role === "user") {
      this.list.add("user", parts);
      return;
    }
    const texts = parts.map((part): TextPart => {
      if (part.kind === "text") return part;
      return this.losses.cannot(item.name("content"), "text in this message", "an image");
    });
    if (role === "assistant") {
      this.list.add("assistant", texts);
      return;
    }
    if (this.list.numTurns > 0) this.losses.lacks(item.name("role"), "system messages before all others");
    for (const part of texts) this.system.push(part);
  }

  #thought(item: Fields): void {
    const seal = unsealed(item.text("encrypted_content") ?? "");
    this.#signature = seal?.kind === "call" ? seal.value : undefined;
    // Thoughts of other models have no signature of ours.
    if (seal === undefined || seal.value === "" || seal.kind === "call") return;
    if (seal.kind === "hidden") {
      this.list.add("assistant", [{ kind: "hidden-thought", data: seal.value }]);
      return;
    }
    const summary = item.objects("summary").map((part) => part.text("text") ?? "");
    this.list.add("assistant", [{ kind: "thought", text: summary.join(""), signature: seal.value }]);
  }

  #call(item: Fields, json: string, param: string): void {
    const [id, name] = [callId(item.required("call_id")), item.required("name")];
    this.list.add("assistant", [{ kind: "call", id, name, json, param, signature: this.#signature }]);
    this.#signature = undefined;
  }
}

function contentOf(item: Fields, key: string, losses: Losses): readonly (TextPart | ImagePart)[] {
  const content = item.take(key);
  if (typeof content === "string") return content === "" ? [] : [{ kind: "text", text: content }];
  if (content !== undefined && !Array.isArray(content)) {
    throw invalid(item.name(key), "text or a list of parts", content);
  }
  return item.objects(key).map((part) => partOf(part, losses));
}

function partOf(part: Fields, losses: Losses): TextPart | ImagePart {
  const type = part.required("type");
  switch (type) {
    case "input_text":
    case "output_text":
    case "text":
      return { kind: "text", text: part.required("text") };
    case "refusal":
      return { kind: "text", text: part.required("refusal") };
    case "input_image": {
      const url = part.text("image_url");
      if (url !== undefined) return { kind: "image", source: imageSource(url, part.name("image_url")) };
      return losses.cannot(part.name("image_url"), "the image or its address", "none");
    }
    default:
      return losses.cannot(part.name("type"), "text or input_image", JSON.stringify(type.slice(0, 40)));
  }
}

/** @returns undefined for a tool that is left out: only OpenAI's servers run it, or its calls are not JSON */
function toolOf(tool: Fields, losses: Losses): Tool | undefined {
  const type = tool.required("type");
  if (type !== "function") {
    losses.lacks(tool.name("type"), "tools of type function");
    return undefined;
  }
  return {
    name: tool.required("name"),
    description: tool.text("description"),
    schema: objectSchema(tool.objectAt("parameters"), tool.name("parameters")),
    isStrict: tool.boolean("strict") === true,
  };
}

function formatOf(fields: Fields, losses: Losses): Conversation["format"] {
  const text = fields.inner("text");
  const verbosity = text?.text("verbosity") ?? "medium";
  if (verbosity !== "medium") losses.lacks("text.verbosity");
  const format = text?.inner("format");
  const type = format?.oneOf("type", ["text", "json_object", "json_schema"]);
  if (format === undefined || type === undefined || type === "text") return undefined;
  if (type === "json_object") return { name: "answer", schema: undefined };
  const schema = format.objectAt("schema");
  if (schema === undefined) throw invalid(format.name("schema"), "a JSON Schema", undefined);
  return { name: format.text("name") ?? "answer", schema };
}

/** A request for a summary of thoughts also asks for thoughts. */
function thinkingOf(fields: Fields, losses: Losses): Reasoning | undefined {
  const reasoning = fields.inner("reasoning");
  if (reasoning === undefined) return undefined;
  const told = reasoningOf(reasoning.oneOf("effort", ["none", ...EFFORTS]));
  const hasSummary = [reasoning.take("summary"), reasoning.take("generate_summary")].some((each) => each !== undefined);
  for (const key of reasoning.unread()) losses.lacks(reasoning.name(key));
  return told ?? (hasSummary ? { kind: "on" } : undefined);
}

/** Removes reasoning items of other providers' answers, which a host with OpenAI's responses cannot use. */
export function withoutForeignThoughts(body: JsonObject): JsonObject {
  if (!Array.isArray(body.input)) return body;
  const isForeign = (item: unknown): boolean =>
    isPlainObject(item) &&
    item.type === "reasoning" &&
    typeof item.encrypted_content === "string" &&
    unsealed(item.encrypted_content) !== undefined;
  return body.input.some(isForeign) ? { ...body, input: body.input.filter((item) => !isForeign(item)) } : body;
}
