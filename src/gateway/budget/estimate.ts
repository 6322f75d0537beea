/** Estimates a request's cost, at most and probably, from its body alone. */
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
/** More are a number that no engine takes: the bound keeps products of it exact. */
const MAX_ANSWERS = 1_000_000;
const MAX_DEPTH = 6;

export interface RequestSize {
  /** Tokens of the prompt, at most. */
  readonly promptTokens: number;
  /** Answers that are made: choices of all prompts. 0: the path makes none. */
  readonly numAnswers: number;
  /** Most tokens of each answer, as the request says. Undefined: it says nothing. */
  readonly maxTokens: number | undefined;
}

/**
 * @param path of the request, which decides by which fields the upstream bounds an answer: it may pass over others
 * @param numBytes of the body
 * @param counted tokens of the prompt, if somebody has counted them
 */
export function sizeOf(
  path: string,
  body: RequestBody,
  numBytes: number,
  isGeneration: boolean,
  counted?: number,
): RequestSize {
  // A token has at least one byte, whatever the tokenizer; JSON has more bytes than its text.
  const promptTokens =
    counted ?? numBytes + TEMPLATE_TOKENS + MEDIA_TOKENS * countMedia(body.messages ?? body.input, 0);
  if (!isGeneration) return { promptTokens, numAnswers: 0, maxTokens: 0 };
  return { promptTokens, numAnswers: numAnswersOf(body), maxTokens: maxTokensOf(path, body) };
}

/**
 * The fields that bound an answer, lowered to the allowed length. An engine of ours may pass over OpenAI's newer name, so it gets its own beside that.
 * @param own the upstream's field of chats
 */
export function boundedFields(path: string, body: RequestBody, own: string, most: number): Record<string, number> {
  const names = maxTokensFields(path);
  const lowered = (value: unknown): number => (isCount(value) ? Math.min(value, most) : most);
  const given = names.filter((name) => (body[name] ?? undefined) !== undefined);
  const bounded = Object.fromEntries(given.map((name) => [name, lowered(body[name])]));
  const added = path === CHATS ? own : names[0]!;
  if (given.length === 0 || (added === "max_tokens" && bounded[added] === undefined)) bounded[added] = most;
  return bounded;
}

/** Whether the request itself has the field that its upstream surely heeds. */
export function isBounded(path: string, body: RequestBody, own: string): boolean {
  return path !== CHATS || own !== "max_tokens" || isCount(body.max_tokens);
}

const CHATS = "/v1/chat/completions";

const OF_RESPONSES = ["max_output_tokens"] as const;
const OF_CHATS = ["max_completion_tokens", "max_tokens"] as const;
const OF_OTHERS = ["max_tokens"] as const;

function maxTokensFields(path: string): readonly string[] {
  if (path === "/v1/responses") return OF_RESPONSES;
  return path === CHATS ? OF_CHATS : OF_OTHERS;
}

function maxTokensOf(path: string, body: RequestBody): number | undefined {
  let most: number | undefined;
  for (const name of maxTokensFields(path)) {
    const given = body[name];
    if (isCount(given)) most = Math.max(most ?? 0, given);
  }
  return most;
}

const isCount = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value) && value >= 0;

function numAnswersOf({ n, best_of: bestOf, prompt }: RequestBody): number {
  const choices = Math.max(1, countOf(n), countOf(bestOf));
  const prompts = Array.isArray(prompt) && typeof prompt[0] !== "number" ? Math.max(1, prompt.length) : 1;
  return Math.min(MAX_ANSWERS, Math.ceil(choices)) * prompts;
}

const countOf = (value: unknown): number => (isCount(value) ? value : 0);

function countMedia(value: unknown, depth: number): number {
  if (typeof value !== "object" || value === null || depth > MAX_DEPTH) return 0;
  if (Array.isArray(value)) return value.reduce<number>((sum, each) => sum + countMedia(each, depth + 1), 0);
  if (ArrayBuffer.isView(value)) return 0;
  const { type, content, output } = value as { readonly [name: string]: unknown };
  const own = typeof type === "string" && MEDIA.has(type) ? 1 : 0;
  return own + countMedia(content, depth + 1) + countMedia(output, depth + 1);
}
