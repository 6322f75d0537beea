/** What a request will cost at most, and probably, from its body alone. */
import type { RequestBody } from "../request.js";

/** Tokens that a template adds around a conversation. Those around each message are fewer than the bytes of its JSON. */
const TEMPLATE_TOKENS = 256;
/** Parts that are no text have more tokens than bytes where they are given by a URL. */
const MEDIA_TOKENS = 4096;
const MEDIA = new Set([
  "image_url",
  "input_image",
  "image",
  "input_audio",
  "input_file",
  "file",
  "document",
  "video_url",
]);
const MAX_ANSWERS = 1024;
const MAX_DEPTH = 6;
const MAX_TOKENS_FIELDS = ["max_completion_tokens", "max_tokens", "max_output_tokens"] as const;

export interface RequestSize {
  /** Tokens of the prompt, at most. */
  readonly promptTokens: number;
  /** Answers that are made: choices of all prompts. 0: the path makes none. */
  readonly numAnswers: number;
  /** Most tokens of each answer, as the request says. Undefined: it says nothing. */
  readonly maxTokens: number | undefined;
}

/**
 * @param numBytes of the body
 * @param counted tokens of the prompt, if somebody has counted them
 */
export function sizeOf(body: RequestBody, numBytes: number, isGeneration: boolean, counted?: number): RequestSize {
  // A token has at least one byte, whatever the tokenizer; JSON has more bytes than its text.
  const promptTokens =
    counted ?? numBytes + TEMPLATE_TOKENS + MEDIA_TOKENS * countMedia(body.messages ?? body.input, 0);
  if (!isGeneration) return { promptTokens, numAnswers: 0, maxTokens: 0 };
  return { promptTokens, numAnswers: numAnswersOf(body), maxTokens: maxTokensOf(body) };
}

/** The field that bounds an answer, as the request has it. @param own the upstream's, if the request has none */
export function maxTokensField(path: string, body: RequestBody, own: string): string {
  if (path === "/v1/responses") return "max_output_tokens";
  if (path !== "/v1/chat/completions") return "max_tokens";
  return ["max_completion_tokens", "max_tokens"].find((name) => isCount(body[name])) ?? own;
}

function maxTokensOf(body: RequestBody): number | undefined {
  let most: number | undefined;
  for (const name of MAX_TOKENS_FIELDS) {
    const value = body[name];
    if (isCount(value) && (most === undefined || value > most)) most = value;
  }
  return most;
}

const isCount = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value) && value >= 0;

function numAnswersOf({ n, best_of: bestOf, prompt }: RequestBody): number {
  const choices = Math.max(1, isCount(n) ? n : 1, isCount(bestOf) ? bestOf : 1);
  const prompts = Array.isArray(prompt) && typeof prompt[0] !== "number" ? Math.max(1, prompt.length) : 1;
  return Math.min(MAX_ANSWERS, Math.ceil(choices)) * prompts;
}

function countMedia(value: unknown, depth: number): number {
  if (typeof value !== "object" || value === null || depth > MAX_DEPTH) return 0;
  if (Array.isArray(value)) return value.reduce<number>((sum, each) => sum + countMedia(each, depth + 1), 0);
  if (ArrayBuffer.isView(value)) return 0;
  const { type, content, output } = value as { readonly [name: string]: unknown };
  const own = typeof type === "string" && MEDIA.has(type) ? 1 : 0;
  return own + countMedia(content, depth + 1) + countMedia(output, depth + 1);
}
