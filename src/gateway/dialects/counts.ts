/** Counts of a prompt's tokens: the question to each provider, and the answer in the client's dialect. */
import { bodyJson, type JsonObject } from "../../core/json-body.js";
import { malformed } from "./conversation/answer-parts.js";
import type { Conversation } from "./conversation/conversation.js";
import type { AnswerCourse } from "./translation.js";

/** The paths of counts, with the paths whose prompts they count. */
export const COUNTED_PATHS: ReadonlyMap<string, string> = new Map([
  ["/v1/chat/completions/input_tokens", "/v1/chat/completions"],
  ["/v1/messages/count_tokens", "/v1/messages"],
  ["/v1/responses/input_tokens", "/v1/responses"],
]);

/** The conversation reduced to its prompt: a provider's count may lack all other fields. */
export function counted(conversation: Conversation): Conversation {
  return {
    ...conversation,
    temperature: undefined,
    topP: undefined,
    topK: undefined,
    stop: [],
    seed: undefined,
    presencePenalty: undefined,
    frequencyPenalty: undefined,
    user: undefined,
    isStream: false,
  };
}

const MESSAGES_FIELDS = ["model", "system", "messages", "tools", "tool_choice", "thinking", "output_config"];
const CONVERSE_FIELDS = ["system", "messages", "toolConfig", "additionalModelRequestFields"];

interface Asked {
  readonly path: string;
  readonly body: JsonObject;
}

/** @param asked a request for a message */
export function messagesCount({ body }: Asked): Asked {
  return { path: "/v1/messages/count_tokens", body: only(body, MESSAGES_FIELDS) };
}

/** @param name of the model @param asked generateContent */
export function geminiCount(name: string, { body }: Asked): Asked {
  const path = `/v1beta/models/${encodeURIComponent(name)}:countTokens`;
  return { path, body: { generateContentRequest: { model: `models/${name}`, ...body } } };
}

/** @param isInvoked the body is the model's own; else it is Converse's */
export function bedrockCount(modelPath: string, { body }: Asked, isInvoked: boolean): Asked {
  const input = isInvoked
    ? { invokeModel: { body: Buffer.from(bodyJson(body)).toString("base64") } }
    : { converse: only(body, CONVERSE_FIELDS) };
  return { path: `${modelPath}/count-tokens`, body: { input } };
}

function only(body: JsonObject, names: readonly string[]): JsonObject {
  return Object.fromEntries(names.filter((name) => body[name] !== undefined).map((name) => [name, body[name]]));
}

/** The names that Anthropic, Google and Bedrock give the count. */
const COUNT_FIELDS = ["input_tokens", "totalTokens", "inputTokens"] as const;

export class CountCourse implements AnswerCourse {
  readonly isNative = false;

  /** @param path of the client's request */
  constructor(private readonly path: string) {}

  event(): string {
    throw malformed("a count of tokens", "a stream");
  }

  end(): string {
    throw malformed("a count of tokens", "a stream");
  }

  whole(body: JsonObject): Buffer {
    const count = COUNT_FIELDS.map((name) => body[name]).find((each) => each !== undefined);
    if (!Number.isSafeInteger(count) || (count as number) < 0) throw malformed("a count of tokens", count);
    const object = this.path === "/v1/messages/count_tokens" ? {} : { object: "response.input_tokens" };
    return Buffer.from(JSON.stringify({ ...object, input_tokens: count }));
  }

  counts(): undefined {
    return undefined;
  }
}
