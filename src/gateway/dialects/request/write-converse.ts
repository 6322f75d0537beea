/** Writes a request of Bedrock's Converse. The model and whether to stream are in the path. */
import type { JsonObject } from "../../../core/json-body.js";
import type {
  AssistantPart,
  Conversation,
  ImagePart,
  TextPart,
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

const CACHE_POINT = { cachePoint: { type: "default" } };

export function writeConverse(conversation: Conversation, terms: WriteTerms): JsonObject {
  const { losses, names } = terms;
  const { system, turns, stop, format } = conversation;
  assertUserFirst(conversation, terms);
  if (conversation.seed !== undefined) losses.lacks("seed");
  lacksPenalties(conversation, losses);
  if (format !== undefined && format.schema === undefined) losses.lacks(names.format, "a json_schema, or no format,");
  if (conversation.user !== undefined) losses.ignores(names.user);
  const inferenceConfig = present({
    maxTokens: conversation.maxTokens,
    temperature: temperatureUpTo1(conversation, losses),
    topP: conversation.topP,
    stopSequences: stop.length === 0 ? undefined : stop,
  });
  const additional = additionalOf(conversation, terms);
  return present({
    system: system.length === 0 ? undefined : system.flatMap((part) => withPoint({ text: part.text }, part.isCached)),
    messages: turns.map(({ role, parts }) => ({ role, content: contentOf(parts, terms) })),
    inferenceConfig: Object.keys(inferenceConfig).length === 0 ? undefined : inferenceConfig,
    toolConfig: toolConfigOf(conversation, terms),
    additionalModelRequestFields: Object.keys(additional).length === 0 ? undefined : additional,
    outputConfig: format?.schema === undefined ? undefined : outputConfig(format.name, format.schema),
  });
}

function outputConfig(name: string, schema: object): object {
  const jsonSchema = { name, schema: JSON.stringify(schema) };
  return { textFormat: { type: "json_schema", structure: { jsonSchema } } };
}

function withPoint(block: object, isCached: boolean | undefined): readonly object[] {
  return isCached === true ? [block, CACHE_POINT] : [block];
}

/** Fields that Converse passes to the model unchanged, under the names of Claude's API. */
function additionalOf(conversation: Conversation, { model, thinking, losses, names, defaultMaxTokens }: WriteTerms) {
  const { reasoning, maxTokens } = conversation;
  const topK = topKOf(conversation);
  const isClaude = /(^|[./])anthropic\./.test(model);
  if (!isClaude) {
    if (topK !== undefined) losses.lacks("top_k");
    if (reasoning?.kind === "on") losses.lacks(names.reasoning);
    return {};
  }
  if (reasoning?.kind !== "on") return present({ top_k: topK });
  const effort = effortOf(reasoning);
  if (thinking === "effort") {
    const told = effort === undefined ? undefined : { effort: effort === "minimal" ? "low" : effort };
    return present({ top_k: topK, thinking: { type: "adaptive" }, output_config: told });
  }
  const budget = budgetOf(reasoning, maxTokens ?? defaultMaxTokens);
  if (budget === undefined) losses.ignores(names.reasoning);
  return present({
    top_k: topK,
    thinking: budget === undefined ? undefined : { type: "enabled", budget_tokens: budget },
  });
}

function toolConfigOf(conversation: Conversation, { losses, names }: WriteTerms): object | undefined {
  const { tools, toolChoice, turns } = conversation;
  if (tools.length === 0) return undefined;
  if (!conversation.allowsParallelCalls) losses.lacks(names.parallelCalls);
  if (toolChoice?.kind === "none") {
    // Converse has no such choice; without calls in the conversation, leaving the tools out has the same effect.
    if (!turns.some(({ parts }) => parts.some(({ kind }) => kind === "call" || kind === "result"))) return undefined;
    losses.lacks(names.toolChoice, "another tool_choice than none");
  }
  const list = tools.flatMap(({ name, description, schema, isStrict, isCached }) => {
    const spec = present({ name, description, inputSchema: { json: schema }, strict: isStrict ? true : undefined });
    return withPoint({ toolSpec: spec }, isCached);
  });
  return present({ tools: list, toolChoice: choiceOf(toolChoice) });
}

function choiceOf(choice: ToolChoice | undefined): object | undefined {
  switch (choice?.kind) {
    case "auto":
      return { auto: {} };
    case "required":
      return { any: {} };
    case "tool":
      return { tool: { name: choice.name } };
    default:
      return undefined;
  }
}

function contentOf(parts: readonly (UserPart | AssistantPart)[], terms: WriteTerms): readonly object[] {
  return parts.flatMap((part) =>
    withPoint(
      blockOf(part, terms),
      part.kind === "call" || part.kind === "thought" || part.kind === "hidden-thought" ? false : part.isCached,
    ),
  );
}

function blockOf(part: UserPart | AssistantPart, terms: WriteTerms): object {
  switch (part.kind) {
    case "text":
      return { text: part.text };
    case "image":
      return imageBlock(part, terms);
    case "thought":
      return { reasoningContent: { reasoningText: { text: part.text, signature: part.signature } } };
    case "hidden-thought":
      return { reasoningContent: { redactedContent: part.data } };
    case "call":
      return { toolUse: { toolUseId: part.id, name: part.name, input: argumentsOf(part) } };
    case "result": {
      const content = part.parts.map((each: TextPart | ImagePart) =>
        each.kind === "text" ? { text: each.text } : imageBlock(each, terms),
      );
      // A result must have content.
      const filled = content.length === 0 ? [{ text: "(no output)" }] : content;
      return { toolResult: { toolUseId: part.id, content: filled, ...(part.isError ? { status: "error" } : {}) } };
    }
  }
}

const FORMATS: readonly string[] = ["png", "jpeg", "gif", "webp"];

function imageBlock({ source }: ImagePart, { losses, names }: WriteTerms): object {
  if (source.url !== undefined) return losses.cannot(names.messages, "images in base64", "the address of one");
  const format = source.mediaType.replace(/^image\//, "");
  if (!FORMATS.includes(format))
    losses.cannot(names.messages, `images of ${FORMATS.join(", ")}`, JSON.stringify(source.mediaType.slice(0, 40)));
  return { image: { format, source: { bytes: source.base64 } } };
}
