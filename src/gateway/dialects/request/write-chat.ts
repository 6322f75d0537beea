/** Writes a request in OpenAI's chat completions, for a client with another dialect. */
import type { JsonObject } from "../../../core/json-body.js";
import type {
  AssistantPart,
  CallPart,
  Conversation,
  ImagePart,
  ResultPart,
  TextPart,
  ToolChoice,
  UserPart,
} from "../conversation/conversation.js";
import { effortOf, present, topKOf, type WriteTerms } from "./terms.js";

/** @param maxTokensName `max_completion_tokens` at OpenAI, `max_tokens` at hosts that are merely compatible */
export function writeChat(
  conversation: Conversation,
  { model, names, losses }: WriteTerms,
  maxTokensName: "max_completion_tokens" | "max_tokens",
): JsonObject {
  const { system, turns, tools, toolChoice, format, reasoning, isStream } = conversation;
  const messages: object[] = [];
  if (system.length > 0) messages.push({ role: "system", content: textOrParts(system) });
  for (const { role, parts } of turns) {
    if (role === "user") for (const message of userMessages(parts)) messages.push(message);
    else messages.push(assistantMessage(parts));
  }
  if (turns.at(-1)?.role === "assistant")
    losses.lacks(names.messages, "a last message of the user (the answer's beginning cannot be given)");
  if (topKOf(conversation) !== undefined) losses.lacks("top_k");
  for (const part of [
    ...system,
    ...tools,
    ...turns.flatMap(({ parts }) => parts as readonly { isCached?: boolean }[]),
  ]) {
    // OpenAI caches prefixes by itself.
    if (part.isCached === true) losses.ignores("cache_control");
  }
  const isOff = reasoning?.kind === "off";
  return present({
    model,
    messages,
    tools: tools.length === 0 ? undefined : tools.map(toolOf),
    tool_choice: tools.length === 0 ? undefined : toolChoiceOf(toolChoice),
    parallel_tool_calls: !conversation.allowsParallelCalls && tools.length > 0 ? false : undefined,
    [maxTokensName]: conversation.maxTokens,
    temperature: conversation.temperature,
    top_p: conversation.topP,
    stop: conversation.stop.length === 0 ? undefined : stopOf(conversation, losses, names.stop),
    seed: conversation.seed,
    presence_penalty: conversation.presencePenalty,
    frequency_penalty: conversation.frequencyPenalty,
    response_format: format === undefined ? undefined : formatOf(format),
    reasoning_effort: reasoning === undefined || isOff ? undefined : effortOf(reasoning),
    user: conversation.user,
    stream: isStream ? true : undefined,
    stream_options: isStream ? { include_usage: true } : undefined,
  });
}

const MAX_STOPS = 4;

function stopOf({ stop }: Conversation, losses: WriteTerms["losses"], name: string): readonly string[] {
  if (stop.length > MAX_STOPS) losses.lacks(name, `at most ${MAX_STOPS} ${name}`);
  return stop.slice(0, MAX_STOPS);
}

function formatOf({ name, schema }: NonNullable<Conversation["format"]>): object {
  if (schema === undefined) return { type: "json_object" };
  return { type: "json_schema", json_schema: { name, schema, strict: true } };
}

function toolOf({ name, description, schema, isStrict }: Conversation["tools"][number]): object {
  return {
    type: "function",
    function: present({ name, description, parameters: schema, strict: isStrict ? true : undefined }),
  };
}

function toolChoiceOf(choice: ToolChoice | undefined): unknown {
  if (choice === undefined) return undefined;
  return choice.kind === "tool" ? { type: "function", function: { name: choice.name } } : choice.kind;
}

/** Results are messages of their own, and come right after the calls. */
function userMessages(parts: readonly UserPart[]): readonly object[] {
  const results = parts.filter((part): part is ResultPart => part.kind === "result");
  const rest = parts.filter((part): part is TextPart | ImagePart => part.kind !== "result");
  // A result has text only: its images follow as the user's.
  const images = results.flatMap((result) => result.parts.filter((part): part is ImagePart => part.kind === "image"));
  const said = [...images, ...rest];
  return [...results.map(resultMessage), ...(said.length === 0 ? [] : [{ role: "user", content: textOrParts(said) }])];
}

function resultMessage({ id, parts, isError }: ResultPart): object {
  const text = parts.flatMap((part) => (part.kind === "text" ? [part.text] : [])).join("\n");
  const hasImage = parts.some(({ kind }) => kind === "image");
  const content = text === "" && hasImage ? "(the images follow)" : text;
  return { role: "tool", tool_call_id: id, content: isError ? `Error: ${content}` : content };
}

function textOrParts(parts: readonly (TextPart | ImagePart)[]): unknown {
  if (parts.length === 1 && parts[0]!.kind === "text") return parts[0]!.text;
  return parts.map((part) =>
    part.kind === "text"
      ? { type: "text", text: part.text }
      : { type: "image_url", image_url: { url: part.source.url ?? dataUrl(part.source) } },
  );
}

function dataUrl(source: ImagePart["source"]): string {
  return source.url ?? `data:${source.mediaType};base64,${source.base64}`;
}

function assistantMessage(parts: readonly AssistantPart[]): object {
  const text = parts.flatMap((part) => (part.kind === "text" ? [part.text] : [])).join("");
  const calls = parts.flatMap((part) => (part.kind === "call" ? [callOf(part)] : []));
  return {
    role: "assistant",
    content: text === "" && calls.length > 0 ? null : text,
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

/** Passes the arguments on as text: parsing would lose digits of large numbers, and fail on invalid JSON. */
function callOf({ id, name, json }: CallPart): object {
  return { id, type: "function", function: { name, arguments: json.trim() === "" ? "{}" : json } };
}
