/**
 * The lines of recorded requests: a gateway writes them, and every command that starts from requests reads them. A line
 * is a chat with its answer, both in the form of OpenAI's chat completions, whichever API the client used.
 */
import type { JsonObject } from "./json-body.js";

/** A line's parsed JSON. Only `request` is guaranteed, since applications write such lines too. */
export interface RecordedRequest {
  /** Arrival in milliseconds since 1970. */
  readonly timestamp?: number;
  readonly request: JsonObject;
  readonly response?: JsonObject;
}

/** The fields of a recorded line before its request and its answer. */
export interface RecordHead {
  readonly timestamp: number;
  readonly id: string;
  /** Path of the client's request. */
  readonly path: string;
  /** The model that answered; `request.model` is the requested name. */
  readonly model: string;
  readonly tenant: string;
  readonly first_byte_ms: number | undefined;
  readonly duration_ms: number;
  /** In dollars; undefined: unknown. */
  readonly cost: string | undefined;
  /** The answer came from a cache. */
  readonly cached: boolean;
}

interface PlainMessage {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

/** A chat with only texts. */
interface PlainChat {
  readonly messages: readonly PlainMessage[];
  /** Undefined: the line has no answer, a truncated one, or one that is more than text. */
  readonly answer: string | undefined;
}

const ROLES: Readonly<Record<string, PlainMessage["role"]>> = {
  system: "system",
  developer: "system",
  user: "user",
  assistant: "assistant",
};

/** @returns undefined for lines of another form */
export function recordedRequest(line: unknown): RecordedRequest | undefined {
  if (!isObject(line) || !isObject(line.request)) return undefined;
  const { request, response, timestamp } = line;
  return {
    request,
    ...(isObject(response) ? { response } : {}),
    ...(typeof timestamp === "number" ? { timestamp } : {}),
  };
}

/** @returns undefined for a chat with tools, images, or other content besides text */
export function plainChatOf({ request, response }: RecordedRequest): PlainChat | undefined {
  const { messages, tools, functions } = request;
  if (isFilled(tools) || isFilled(functions) || !Array.isArray(messages) || messages.length === 0) return undefined;
  const plain = messages.map(plainMessage);
  return plain.every((message) => message !== undefined) ? { messages: plain, answer: answerOf(response) } : undefined;
}

function answerOf(response: JsonObject | undefined): string | undefined {
  const [choice] = Array.isArray(response?.choices) ? response.choices : [];
  if (!isObject(choice) || !isObject(choice.message) || choice.finish_reason === "length") return undefined;
  const answer = plainMessage({ ...choice.message, role: "assistant" });
  return answer === undefined || answer.content === "" ? undefined : answer.content;
}

function plainMessage(message: unknown): PlainMessage | undefined {
  if (!isObject(message) || typeof message.role !== "string") return undefined;
  if (isFilled(message.tool_calls) || isObject(message.function_call)) return undefined;
  const role = Object.hasOwn(ROLES, message.role) ? ROLES[message.role] : undefined;
  const content = textOf(message.content);
  return role === undefined || content === undefined ? undefined : { role, content };
}

function textOf(content: unknown): string | undefined {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return undefined;
  const texts = content.map((part: unknown) => (isObject(part) && part.type === "text" ? part.text : undefined));
  return texts.every((text) => typeof text === "string") ? texts.join("") : undefined;
}

const isFilled = (list: unknown): boolean => Array.isArray(list) && list.length > 0;

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
