/** Refuses prompts that cannot fit the context, before tokenizing, decoding or rendering them delays other requests. */
import { MillraceError } from "../../core/errors.js";
import type { Encoded } from "../../text/tokenizer-job.js";
import type { PromptContext } from "../http/context.js";

/**
 * OpenAI's wording, by which clients notice that they must shorten the conversation, or choose a model with a longer
 * context.
 */
const limitOf = (maxModelLen: number): string => `this model's maximum context length is ${maxModelLen} tokens`;

/** Anthropic's wording; its clients also read the numbers. */
const tooLong = (numTokens: number, most: number): string =>
  `prompt is too long: ${numTokens} tokens > ${most} maximum`;

/** The ids of a text. Throws if it was not tokenized to its end because it clearly exceeds the context. */
export function wholeIds({ ids, atLeast }: Encoded, { engine }: PromptContext, param: string): Int32Array {
  if (atLeast === undefined) return ids;
  throw contextExceeded(engine.info.maxModelLen, atLeast, 0, param, "at least ");
}

/**
 * @param numWantedTokens the requested output tokens; only zero or non-zero matters
 * @param bound stands before the number of tokens where it is no exact one
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

/** The limit of what is cut from a request's texts, in characters: a text is tokenized whole, whatever part is kept. */
export const MAX_TRUNCATED_LENGTH = 256 * 1024;

/**
 * Replaces assertTextMayFit if only the first or last tokens of each prompt are kept.
 * @param length of the request's texts together, or of what they have beyond the context
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
  // An encoder's longest prompt may be a text of any length; what clearly has more tokens is noticed while it is
  // encoded.
  if (text.length <= maxLength) return;
  throw new MillraceError(
    "context_length_exceeded",
    `expected a prompt within the context (${limitOf(maxModelLen)}, which spell at most ${maxModelLen} × ${maxTokenLength} = ${maxLength} characters), got ${text.length} characters (${tooLong(Math.ceil(text.length / maxTokenLength), maxModelLen)})`,
    { param, hint: "shorten the prompt" },
  );
}

/** Where a text is cut that has too many tokens. */
interface TokenCut {
  /** The text's end goes, as encoders are made for, or its start. */
  readonly cut: "start" | "end";
  /** Tokens that the tokenizer has put at that side, which stay. */
  readonly numAround: number;
}

/** `truncate` of a text's tokens, with those that the tokenizer has put around it; -1: as many as the context holds. */
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

/** One list after the other, of any length: arguments of a call, as a spread makes them, are limited by the stack. */
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
 * The prompt's last `truncate` tokens (vLLM's truncate_prompt_tokens), or the first ones, where the right side is cut;
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

/** Refuses more messages than the context has tokens, because every message takes at least one token. */
export function assertMessagesMayFit(context: PromptContext, numMessages: number, param: string): void {
  const { maxModelLen } = context.engine.info;
  if (numMessages <= maxModelLen) return;
  throw new MillraceError(
    "context_length_exceeded",
    `expected a conversation within the context (${limitOf(maxModelLen)}), got ${numMessages} messages (${tooLong(numMessages, maxModelLen)})`,
    { param, hint: "shorten the conversation" },
  );
}
