/**
 * Translates requests of Ollama's API into OpenAI's, which all engines and policies know. The upstream checks the
 * values.
 */

import { describeValue } from "../../core/describe-value.js";
import { type ErrorCode, MillraceError } from "../../core/errors.js";
import { isPlainObject } from "../../core/is-plain-object.js";
import type { JsonObject } from "../../core/json-body.js";
import { takenTemperature } from "../../core/ollama-api.js";
import { plainToolName, plainTools } from "../../core/ollama-tools.js";
import { CUT_TEXTS } from "../cut-texts.js";
import type { RequestBody } from "../request.js";

function refuse(code: ErrorCode, param: string, message: string, hint?: string): never {
  throw new MillraceError(code, `${param}: ${message}`, { param, ...(hint === undefined ? {} : { hint }) });
}

/** Fields without a value are left out, so that the upstream's defaults hold. */
const known = (fields: JsonObject): RequestBody =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined && value !== null));

function assertNoImages(images: unknown, param: string): void {
  if (!Array.isArray(images) || images.length === 0) return;
  refuse("unsupported_field", param, `expected no images, got ${images.length}`, "send them to /v1/chat/completions");
}

interface OpenCall {
  readonly id: string;
  readonly name: unknown;
}

/**
 * Assigns results to calls. A result without the id of an open call, as earlier clients send it, belongs to the oldest
 * open call, of the same name if there is one.
 */
class CallIds {
  readonly #open: OpenCall[] = [];
  #numCalls = 0;

  callOf(call: unknown): object {
    const given = isPlainObject(call) && isPlainObject(call.function) ? call.function : {};
    const own = isPlainObject(call) ? call.id : undefined;
    const id = typeof own === "string" && own !== "" ? own : `call_${this.#numCalls++}`;
    this.#open.push({ id, name: given.name });
    const text = typeof given.arguments === "string" ? given.arguments : JSON.stringify(given.arguments ?? {});
    const name = typeof given.name === "string" ? plainToolName(given.name) : given.name;
    return { id, type: "function", function: { name, arguments: text } };
  }

  /** A result that belongs to no call gets an id that no call has. */
  idOfResult(name: unknown, callId: unknown): string {
    const isNamed = name !== undefined && name !== null;
    const byId = this.#open.findIndex(({ id }) => id === callId);
    const found = byId < 0 ? this.#open.findIndex((call) => !isNamed || call.name === name) : byId;
    return found < 0 ? `call_${this.#numCalls++}` : this.#open.splice(found, 1)[0]!.id;
  }
}

function chatMessages(messages: unknown): readonly object[] {
  if (!Array.isArray(messages)) refuse("invalid_parameter", "messages", "expected an array, got something else");
  const ids = new CallIds();
  return messages.map((message, i) => {
    if (!isPlainObject(message))
      refuse("invalid_parameter", `messages[${i}]`, "expected an object, got something else");
    const { role, content, thinking, tool_calls: calls, tool_name: name, tool_call_id: callId, images } = message;
    assertNoImages(images, `messages[${i}].images`);
    return known({
      role,
      content: content ?? "",
      reasoning_content: thinking,
      tool_calls: Array.isArray(calls) && calls.length > 0 ? calls.map((call) => ids.callOf(call)) : undefined,
      tool_call_id: role === "tool" ? ids.idOfResult(name, callId) : undefined,
    });
  });
}

function responseFormat(format: unknown): object | undefined {
  if (format === undefined || format === null || format === "") return undefined;
  if (format === "json") return { type: "json_object" };
  if (!isPlainObject(format))
    refuse("invalid_parameter", "format", 'expected "json" or a JSON schema, got something else');
  return { type: "json_schema", json_schema: { name: "answer", schema: format } };
}

function thinkingOf(think: unknown): JsonObject {
  if (typeof think === "string") return { reasoning_effort: think };
  return typeof think === "boolean" ? { chat_template_kwargs: { enable_thinking: think } } : {};
}

/** Options with the names that they have in OpenAI's API and its extensions. */
const SAMPLING_NAMES: ReadonlyMap<string, string> = new Map([
  ...(
    "temperature top_p top_k min_p seed stop presence_penalty frequency_penalty repeat_last_n typical_p top_n_sigma " +
    "xtc_probability xtc_threshold dynatemp_range dynatemp_exponent dry_multiplier dry_base dry_allowed_length " +
    "dry_penalty_last_n dry_sequence_breakers"
  )
    .split(" ")
    .map((name) => [name, name] as const),
  ["repeat_penalty", "repetition_penalty"],
  ["num_predict", "max_tokens"],
]);

/** As Ollama does, this ignores options that it does not know. */
function samplingOf(options: unknown): JsonObject {
  if (options === undefined || options === null) return {};
  if (!isPlainObject(options)) refuse("invalid_parameter", "options", "expected an object, got something else");
  const sampling: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(options)) {
    const otherName = SAMPLING_NAMES.get(name);
    if (otherName !== undefined) sampling[otherName] = value;
  }
  if (sampling.temperature !== undefined) sampling.temperature = takenTemperature(sampling.temperature);
  // Ollama's own runner takes 0 and negative values for no limit.
  const { max_tokens: maxTokens } = sampling;
  if (typeof maxTokens === "number" && maxTokens <= 0) sampling.max_tokens = undefined;
  return sampling;
}

/** The fields that chats and raw prompts share. */
function generationOf(body: RequestBody): JsonObject {
  const isStream = body.stream !== false;
  return {
    model: body.model,
    stream: isStream,
    stream_options: isStream ? { include_usage: true } : undefined,
    response_format: responseFormat(body.format),
    ...samplingOf(body.options),
  };
}

/** For chats: completions have another form of these, with less detail. */
const logprobsOf = ({ logprobs, top_logprobs }: RequestBody): JsonObject =>
  logprobs === true ? { logprobs, top_logprobs } : {};

const chatOf = (body: RequestBody, messages: readonly object[]): RequestBody =>
  known({
    messages,
    tools: plainTools(body.tools),
    ...generationOf(body),
    ...thinkingOf(body.think),
    ...logprobsOf(body),
  });

/** The request of /api/chat as a chat. */
export const ofChat = (body: RequestBody): RequestBody => chatOf(body, chatMessages(body.messages));

/** Whether no template surrounds the prompt. */
export const isRaw = ({ raw, suffix }: RequestBody): boolean => raw === true || (suffix != null && suffix !== "");

function assertPlain(body: RequestBody): void {
  assertNoImages(body.images, "images");
  for (const name of ["template", "context"] as const) {
    const value = body[name];
    const isEmpty =
      value === undefined || value === null || value === "" || (Array.isArray(value) && value.length === 0);
    if (!isEmpty) refuse("unsupported_field", name, "expected none, got one", "send the whole prompt with raw: true");
  }
}

function promptOf({ prompt }: RequestBody): string {
  if (prompt === undefined || prompt === null) return "";
  // OpenAI's completion takes a list, and answers each of its prompts; Ollama's answer is one text.
  if (typeof prompt !== "string")
    refuse("invalid_parameter", "prompt", `expected a string, got ${describeValue(prompt)}`);
  return prompt;
}

/** The request of /api/generate for a raw prompt, as a completion. */
export function ofCompletion(body: RequestBody): RequestBody {
  assertPlain(body);
  const { suffix } = body;
  return known({ prompt: promptOf(body), suffix: suffix === "" ? undefined : suffix, ...generationOf(body) });
}

/** The request of /api/generate, as a chat of one message. */
export function ofGenerate(body: RequestBody): RequestBody {
  const { system } = body;
  assertPlain(body);
  const before = system === undefined || system === "" ? [] : [{ role: "system", content: system }];
  return chatOf(body, [...before, { role: "user", content: promptOf(body) }]);
}

/** The request of /api/embeddings of earlier releases, which took one text. */
export const ofLegacyEmbed = ({ model, prompt }: RequestBody): RequestBody =>
  known({ model, input: prompt, ...CUT_TEXTS });

/** The request of /api/embed. */
export const ofEmbed = ({ model, input, dimensions, truncate }: RequestBody): RequestBody =>
  known({ model, input, dimensions, ...(truncate === false ? {} : CUT_TEXTS) });
