/** The facts of a request that rules use. Each fact is computed once, when a rule first asks for it. */
import type { IncomingHttpHeaders } from "node:http";
import { askedForm } from "../api/asked-form.js";
import type { Caller, GatewayRequest, RequestBody } from "../request.js";
import { type Language, languageOf, type Script, scriptOf } from "./language.js";

export const RESPONSE_FORMATS = ["text", "json_object", "json_schema"] as const;
export type ResponseFormat = (typeof RESPONSE_FORMATS)[number];

/** Typical of English, code and JSON, which have between three and five. */
const BYTES_PER_TOKEN = 4;
/** Characters of a prompt that are read for its language. */
const MAX_SAMPLED = 4000;
/** Fields of all dialects that hold the prompt. */
const PROMPT_FIELDS = ["system", "instructions", "messages", "prompt", "input"] as const;

export class RequestFacts {
  #sample: string | undefined;
  #promptBytes: number | undefined;

  constructor(private readonly request: Pick<GatewayRequest, "body" | "headers" | "path" | "model" | "caller">) {}

  get model(): string {
    return this.request.model;
  }

  get path(): string {
    return this.request.path;
  }

  get headers(): IncomingHttpHeaders {
    return this.request.headers;
  }

  get caller(): Caller {
    return this.request.caller;
  }

  /** Bytes of the prompt's texts, without the JSON around them. */
  get promptBytes(): number {
    this.#promptBytes ??= PROMPT_FIELDS.reduce((sum, field) => sum + textBytes(this.request.body[field]), 0);
    return this.#promptBytes;
  }

  /** Estimated from the bytes; token ids in a prompt count one each. */
  get promptTokens(): number {
    const { prompt } = this.request.body;
    return isIds(prompt) ? prompt.length : Math.ceil(this.promptBytes / BYTES_PER_TOKEN);
  }

  get hasTools(): boolean {
    const { tools, functions } = this.request.body;
    return [tools, functions].some((list) => Array.isArray(list) && list.length > 0);
  }

  get responseFormat(): ResponseFormat {
    return askedForm(this.request.body)?.type ?? "text";
  }

  get language(): Language | undefined {
    return languageOf(this.#lastText());
  }

  get script(): Script | undefined {
    return scriptOf(this.#lastText());
  }

  /** The text of the last message, which is in the user's language; a system prompt may not be. */
  #lastText(): string {
    this.#sample ??= lastText(this.request.body);
    return this.#sample;
  }
}

function isIds(value: unknown): value is { readonly length: number } {
  return value instanceof Int32Array || (Array.isArray(value) && typeof value[0] === "number");
}

/** Bytes of messages, parts of messages and texts, nested at most as deep as in the dialects. */
function textBytes(value: unknown, depth = 0): number {
  if (typeof value === "string") return Buffer.byteLength(value);
  if (depth > 4 || typeof value !== "object" || value === null || isIds(value)) return 0;
  if (Array.isArray(value)) return value.reduce<number>((sum, item) => sum + textBytes(item, depth + 1), 0);
  const { content, text } = value as { content?: unknown; text?: unknown };
  return textBytes(content, depth + 1) + textBytes(text, depth + 1);
}

/** The text of the request's last message, prompt or input, cut to the length that a guess needs. */
export function lastText(body: RequestBody): string {
  const { messages, prompt, input } = body;
  return textOf(messages ?? input ?? prompt).slice(0, MAX_SAMPLED);
}

function textOf(value: unknown, depth = 0): string {
  if (typeof value === "string") return value;
  if (depth > 4 || typeof value !== "object" || value === null || isIds(value)) return "";
  if (Array.isArray(value)) {
    for (let i = value.length - 1; i >= 0; i--) {
      const text = textOf(value[i], depth + 1);
      if (text !== "") return text;
    }
    return "";
  }
  const { content, text } = value as { content?: unknown; text?: unknown };
  return textOf(content ?? text, depth + 1);
}
