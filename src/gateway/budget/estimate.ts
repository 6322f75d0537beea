/** Estimates a request's largest and probable cost from its body alone. */
import type { RequestBody } from "../request.js";

/**
 * Tokens that a template adds for tools, or around a text to embed or to rank, beside those that the model is known to
 * add to every conversation. Those around each message are fewer than the bytes of its JSON.
 */
const TEMPLATE_TOKENS = 256;
/** Parts other than text have more tokens than bytes if a URL names them. */
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
/** No engine takes more: the bound keeps products of it exact. */
const MAX_ANSWERS = 1_000_000;
const MAX_DEPTH = 6;

interface AnswerSize {
  /** Answers to generate: choices of all prompts. 0: the path generates none. */
  readonly numAnswers: number;
  /** Largest number of tokens of each answer, from the request. Undefined: the request states none. */
  readonly maxTokens: number | undefined;
}

export interface RequestSize extends AnswerSize {
  /** Upper bound of the prompts' tokens. */
  readonly promptTokens: number;
  /** Bytes of the body; a query counts once more for each further text beside it. */
  readonly readBytes: number;
  /** Tokens of the prompts that a chat template adds, if known. */
  readonly templateTokens: number;
}

/** Facts about a model's prompts that its instances report; undefined: not reported. */
export interface PromptFacts {
  /** Upper bound of a prompt and its answer, in tokens. */
  readonly maxModelLen: number | undefined;
  /** Tokens that the chat template writes for a conversation without text. */
  readonly templateTokens: number | undefined;
}

/** @param path of the request; decides which fields bound an answer: the upstream may ignore others */
export function answerSizeOf(path: string, body: RequestBody, isGeneration: boolean): AnswerSize {
  if (!isGeneration) return { numAnswers: 0, maxTokens: 0 };
  return { numAnswers: numAnswersOf(body), maxTokens: maxTokensOf(path, body) };
}

/** @param numBytes of the body */
export function sizeOf(
  path: string,
  body: RequestBody,
  numBytes: number,
  isGeneration: boolean,
  facts: PromptFacts,
): RequestSize {
  const templateTokens = CONVERSATIONS.has(path) ? (facts.templateTokens ?? 0) : 0;
  const { numPrompts, numTemplates, bytesAgain } = promptsOf(path, body);
  const readBytes = numBytes + bytesAgain;
  // A token has at least one byte, whatever the tokenizer; JSON has more bytes than its text.
  const written =
    readBytes +
    templateTokens +
    TEMPLATE_TOKENS * numTemplates +
    MEDIA_TOKENS * countMedia(body.messages ?? body.input, 0);
  const promptTokens = Math.min(written, numPrompts * (facts.maxModelLen ?? Number.POSITIVE_INFINITY));
  return { promptTokens, readBytes, templateTokens, ...answerSizeOf(path, body, isGeneration) };
}

interface Prompts {
  /** Prompts of the model; infinite if their number is unknown. */
  readonly numPrompts: number;
  readonly numTemplates: number;
  readonly bytesAgain: number;
}

function promptsOf(path: string, body: RequestBody): Prompts {
  if (path.endsWith("/rerank")) return pairsOf(body.query, body.documents ?? body.texts);
  if (path.endsWith("/score")) {
    // vLLM has three names for the first text, and four for the others.
    const { text_1, queries, data_1, text_2, documents, items, data_2 } = body;
    return pairsOf(text_1 ?? queries ?? data_1, text_2 ?? documents ?? items ?? data_2);
  }
  if (path === "/v1/embeddings" || path === "/v2/embed") {
    const numTexts = numTextsOf(path === "/v2/embed" ? (body.texts ?? body.inputs) : body.input);
    return { numPrompts: numTexts, numTemplates: numTexts, bytesAgain: 0 };
  }
  if (path === "/v1/completions") return { numPrompts: numTextsOf(body.prompt), numTemplates: 1, bytesAgain: 0 };
  return { numPrompts: CONVERSATIONS.has(path) ? 1 : Number.POSITIVE_INFINITY, numTemplates: 1, bytesAgain: 0 };
}

/**
 * One text that is read with each of many. A reranker reads both as one prompt. An embedding model reads each as a
 * prompt of its own, and vLLM counts the one again with each of the others. Either may be an object with parts other
 * than text.
 */
function pairsOf(one: unknown, many: unknown): Prompts {
  const [first, ...others] = partsOf(one);
  const numPairs = Math.max(1, partsOf(many).length);
  const again = typeof first === "string" ? first : (JSON.stringify(first) ?? "");
  const bytesAgain = others.length > 0 ? 0 : (numPairs - 1) * Buffer.byteLength(again);
  const isText = [one, many].every((each) => typeof each === "string" || Array.isArray(each));
  return { numPrompts: isText ? 2 * numPairs : Number.POSITIVE_INFINITY, numTemplates: numPairs, bytesAgain };
}

function partsOf(texts: unknown): readonly unknown[] {
  const content = (texts as { readonly content?: unknown } | null | undefined)?.content;
  return [texts, content].find((each) => Array.isArray(each)) ?? [texts];
}

/** A list of numbers is the tokens of one text. */
const numTextsOf = (texts: unknown): number =>
  Array.isArray(texts) && typeof texts[0] !== "number" ? Math.max(1, texts.length) : 1;

/**
 * The fields that bound an answer, lowered to the allowed length. An engine of ours may ignore OpenAI's newer name, so
 * it gets its own field too.
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

/** Whether the request has the field that its upstream surely heeds. */
export function isBounded(path: string, body: RequestBody, own: string): boolean {
  return path !== CHATS || own !== "max_tokens" || isCount(body.max_tokens);
}

const CHATS = "/v1/chat/completions";
const CONVERSATIONS = new Set([CHATS, "/v1/responses", "/v1/messages"]);

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
  return Math.min(MAX_ANSWERS, Math.ceil(choices)) * numTextsOf(prompt);
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
