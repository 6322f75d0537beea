/** Refuses prompts that cannot fit the context, before tokenizing, decoding or rendering them delays other requests. */
import { MillraceError } from "../../core/errors.js";
import type { Encoded } from "../../text/tokenizer-job.js";
import type { PromptContext } from "../http/context.js";

/**
 * OpenAI's wording, from which clients conclude that they must shorten the conversation or choose a model with a longer
 * context.
 */
const limitOf = (maxModelLen: number): string => `this model's maximum context length is ${maxModelLen} tokens`;

/** Anthropic's wording; its clients also read the numbers. */
const tooLong = (numTokens: number, most: number): string =>
  `prompt is too long: ${numTokens} tokens > ${most} maximum`;

/** The ids of a text. Throws if tokenizing stopped early, because the text clearly exceeds the context. */
export function wholeIds({ ids, atLeast }: Encoded, { engine }: PromptContext, param: string): Int32Array {
  if (atLeast === undefined) return ids;
  throw contextExceeded(engine.info.maxModelLen, atLeast, 0, param, "at least ");
}

/**
 * @param numWantedTokens the requested output tokens; only zero or non-zero matters
 * @param bound precedes an inexact number of tokens
 */
export function contextExceeded(
  maxModelLen: number,
  numPromptTokens: number,
  numWantedTokens: number,
  param: string,
  bound: "" | "at least " = "",
): MillraceError {
  const got = `got ${bound}${numPromptTokens} prompt tokens`;
  const message =
    numWantedTokens === 0
      ? `expected a prompt within the context (${limitOf(maxModelLen)}), ${got} (${tooLong(numPromptTokens, maxModelLen)})`
      : `expected a prompt that leaves room for an answer (${limitOf(maxModelLen)}), ${got} (${numPromptTokens} + at least 1 > ${maxModelLen}; ${tooLong(numPromptTokens, maxModelLen - 1)})`;
  return new MillraceError("context_length_exceeded", message, { param, hint: "shorten the prompt" });
}

/**
 * Limit of the text that a request's cuts may remove, in characters: a text is tokenized whole, whichever part is kept.
 */
export const MAX_TRUNCATED_LENGTH = 256 * 1024;

/**
 * Replaces assertTextMayFit if each prompt keeps only its first or last tokens.
 * @param length of all texts of the request, or of their excess over the context
 */
export function assertMayBeTruncated(length: number, param: string): void {
  if (length <= MAX_TRUNCATED_LENGTH) return;
  throw new MillraceError(
    "invalid_parameter",
    `${param}: expected at most ${MAX_TRUNCATED_LENGTH} characters of text to be cut, got ${length}`,
    { param, hint: "shorten the text, or send fewer prompts at once" },
  );
}

export function assertTextMayFit(context: PromptContext, text: string, param: string): void {
  const { maxModelLen } = context.engine.info;
  const { maxTokenLength } = context.tokenizer;
  const maxLength = maxModelLen * maxTokenLength;
  // An encoder accepts texts of any length; encoding stops once a text clearly has too many tokens.
  if (text.length <= maxLength) return;
  throw new MillraceError(
    "context_length_exceeded",
    `expected a prompt within the context (${limitOf(maxModelLen)}, which spell at most ${maxModelLen} × ${maxTokenLength} = ${maxLength} characters), got ${text.length} characters (${tooLong(Math.ceil(text.length / maxTokenLength), maxModelLen)})`,
    { param, hint: "shorten the prompt" },
  );
}

/** Which side of a text with too many tokens is cut. */
interface TokenCut {
  /** The text's end, as encoders are made for, or its start. */
  readonly cut: "start" | "end";
  /** Tokens that the tokenizer puts at that side; they stay. */
  readonly numAround: number;
}

/**
 * The first or last `truncate` tokens of a text, including the tokenizer's own around it; -1: as many as the context
 * holds.
 */
export function keptTokens(
  ids: Int32Array,
  truncate: number | undefined,
  maxModelLen: number,
  { cut, numAround }: TokenCut,
): Int32Array {
  const numKept = truncate === -1 ? maxModelLen : (truncate ?? ids.length);
  if (ids.length <= numKept) return ids;
  const numOwn = Math.min(numAround, numKept - 1);
  return cut === "end"
    ? joinedIds(ids.subarray(0, numKept - numOwn), ids.subarray(ids.length - numOwn))
    : joinedIds(ids.subarray(0, numOwn), ids.subarray(ids.length - numKept + numOwn));
}

/** Joins lists of any length: spreading them into arguments would overflow the stack. */
export function joinedIds(...lists: readonly ArrayLike<number>[]): Int32Array {
  const joined = new Int32Array(lists.reduce((sum, { length }) => sum + length, 0));
  let end = 0;
  for (const list of lists) {
    joined.set(list, end);
    end += list.length;
  }
  return joined;
}

/**
 * The prompt's last `truncate` tokens (vLLM's truncate_prompt_tokens), or the first ones if the right side is cut;
 * -1: as many as the context holds in addition to the answer.
 * @param numWanted the number of tokens for the answer
 */
export function truncated(
  ids: Int32Array,
  truncate: number | undefined,
  maxModelLen: number,
  numWanted: number,
  side: "left" | "right" = "left",
): Int32Array {
  if (truncate === undefined) return ids;
  const numKept = truncate === -1 ? Math.max(maxModelLen - numWanted, 1) : truncate;
  if (ids.length <= numKept) return ids;
  return side === "right" ? ids.slice(0, numKept) : ids.slice(ids.length - numKept);
}

/** Refuses more messages than the context has tokens, since every message takes at least one. */
export function assertMessagesMayFit(context: PromptContext, numMessages: number, param: string): void {
  const { maxModelLen } = context.engine.info;
  if (numMessages <= maxModelLen) return;
  throw new MillraceError(
    "context_length_exceeded",
    `expected a conversation within the context (${limitOf(maxModelLen)}), got ${numMessages} messages (${tooLong(numMessages, maxModelLen)})`,
    { param, hint: "shorten the conversation" },
  );
}
