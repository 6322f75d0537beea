/** The prompts of text pairs for a reranker: joined by the tokenizer's own tokens, or in the model's template. */
import { MillraceError } from "../../core/errors.js";
import type { PairTemplate } from "../../text/tokenizer/tokenizer.js";
import type { ServeContext } from "../http/context.js";
import type { PooledPrompt } from "./embeddings.js";
import { assertMayBeTruncated, contextExceeded, joinedIds, wholeIds } from "./prompt-size.js";

interface PairText {
  readonly text: string;
  /** The request's field with this text. */
  readonly param: string;
}

export type TextPair = readonly [first: PairText, second: PairText];

/** Options for building the tokens of pairs. */
interface PairOptions {
  /** The request's field with a text for each pair. */
  readonly param: string;
  /**
   * Largest number of a pair's tokens; -1: as many as the context holds. Absent: a pair that is too long is refused.
   */
  readonly truncate: number | undefined;
  /** Largest number of each second text's tokens; the text loses its last ones. Absent: any number. */
  readonly mostOfSecond: number | undefined;
  /** The task for a reranker that reads instructions; absent: to find passages that answer a web search. */
  readonly instruction: string | undefined;
}

/** @example noInstruction("an encoder") // instruction: expected a reranker that reads instructions, got an encoder */
export const noInstruction = (got: string): MillraceError =>
  new MillraceError("invalid_parameter", `instruction: expected a reranker that reads instructions, got ${got}`, {
    param: "instruction",
    hint: "leave it out",
  });

/**
 * Special tokens in the texts count as plain text: a document cannot end itself. Throws context_length_exceeded for a
 * pair that does not fit.
 */
export async function encodePairs(
  context: ServeContext,
  pairs: readonly TextPair[],
  options: PairOptions,
): Promise<readonly PooledPrompt[]> {
  if (context.engine.info.isCausal) {
    return encodeInstructed(context, await withShortSeconds(context, pairs, options), options);
  }
  if (options.instruction !== undefined) throw noInstruction("an encoder");
  return encodeJoined(context, pairs, options);
}

/**
 * Limit of the text in a request's pairs, as a multiple of the largest body: the query is repeated for each document.
 */
const MOST_BODIES = 4;

/** @param numAround characters of each pair beside its texts */
function assertLength(
  { limits }: ServeContext,
  pairs: readonly TextPair[],
  numAround: number,
  { truncate, mostOfSecond, param }: PairOptions,
): void {
  const length = pairs.reduce((sum, [a, b]) => sum + numAround + a.text.length + b.text.length, 0);
  if (truncate !== undefined || mostOfSecond !== undefined) assertMayBeTruncated(length, param);
  const most = MOST_BODIES * limits.maxBodyBytes;
  if (length <= most) return;
  const message = `${param}: expected pairs of at most ${most} characters together, got ${length}`;
  throw new MillraceError("invalid_parameter", message, {
    param,
    hint: "shorten the query, which is read again with each document, or send fewer documents at once",
  });
}

/** Number of tokens for the texts of a pair, beside the tokens around them. */
function roomFor(numAround: number, truncate: number | undefined, maxModelLen: number): number {
  const longest = Math.min(truncate === undefined || truncate === -1 ? maxModelLen : truncate, maxModelLen);
  if (longest >= numAround) return longest - numAround;
  if (truncate === undefined || truncate === -1) throw contextExceeded(maxModelLen, numAround, 0, "model");
  const message = `truncate_prompt_tokens: expected at least the ${numAround} tokens around the texts of a pair, got ${truncate}`;
  throw new MillraceError("invalid_parameter", message, { param: "truncate_prompt_tokens" });
}

/** Token ids of texts inside a pair. */
function encodePlain(context: ServeContext, texts: readonly string[], truncate: number | undefined) {
  const most = truncate === undefined ? context.engine.info.maxModelLen : undefined;
  return context.asyncTokenizer.encode(texts, { addSpecial: false, parseSpecial: false }, most);
}

/** The pairs of an encoder, joined as its tokenizer defines. */
async function encodeJoined(
  context: ServeContext,
  pairs: readonly TextPair[],
  options: PairOptions,
): Promise<readonly PooledPrompt[]> {
  const { pair: template } = context.tokenizer;
  if (template === undefined) {
    throw new MillraceError(
      "tokenizer_unsupported",
      "expected a tokenizer that joins two texts, got one that does not",
      { hint: "The post_processor of the model's tokenizer.json has no template of pairs." },
    );
  }
  const { truncate, mostOfSecond } = options;
  const { maxModelLen } = context.engine.info;
  assertLength(context, pairs, 0, options);
  // A query for many texts is encoded once.
  const texts = [...new Set(pairs.flatMap((pair) => pair.map(({ text }) => text)))];
  const encoded = await encodePlain(context, texts, truncate ?? mostOfSecond);
  const encodedOf = new Map(texts.map((text, index) => [text, encoded[index]!] as const));
  const numAround = template.before.length + template.between.length + template.after.length;
  const numFit = roomFor(numAround, truncate, maxModelLen);
  return pairs.map(([a, b]) => {
    const first = wholeIds(encodedOf.get(a.text)!, context, a.param);
    const second = wholeIds(encodedOf.get(b.text)!, context, b.param).subarray(0, mostOfSecond);
    const numTokens = first.length + second.length + numAround;
    if (truncate === undefined && numTokens > maxModelLen) throw contextExceeded(maxModelLen, numTokens, 0, b.param);
    return { ...joined(template, ...fitting(first, second, numFit)), param: b.param };
  });
}

/** The chat around a pair in Qwen3-Reranker's training; the model answers yes or no. */
const BEFORE_PAIR =
  "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. " +
  'Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n';
const AFTER_PAIR = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
const DEFAULT_INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query";

/** The pairs with their second texts cut to the first tokens, as text: a template puts them among other words. */
async function withShortSeconds(
  context: ServeContext,
  pairs: readonly TextPair[],
  options: PairOptions,
): Promise<readonly TextPair[]> {
  const { mostOfSecond } = options;
  if (mostOfSecond === undefined) return pairs;
  assertLength(context, pairs, 0, options);
  const encoded = await encodePlain(
    context,
    pairs.map(([, { text }]) => text),
    mostOfSecond,
  );
  return pairs.map(([first, second], index) => {
    const { ids } = encoded[index]!;
    if (ids.length <= mostOfSecond) return [first, second];
    const text = context.tokenizer.decode(Array.from(ids.subarray(0, mostOfSecond)), { keepSpecial: true });
    return [first, { ...second, text }];
  });
}

/** The pairs of a Qwen3-Reranker. */
async function encodeInstructed(
  context: ServeContext,
  pairs: readonly TextPair[],
  options: PairOptions,
): Promise<readonly PooledPrompt[]> {
  const { truncate, instruction = DEFAULT_INSTRUCTION } = options;
  const { asyncTokenizer, engine } = context;
  const { maxModelLen } = engine.info;
  const textOf = (query: string, document: string) =>
    `<Instruct>: ${instruction}\n<Query>: ${query}\n<Document>: ${document}`;
  assertLength(context, pairs, textOf("", "").length, options);
  const around = await asyncTokenizer.encode([BEFORE_PAIR, AFTER_PAIR], { addSpecial: false, parseSpecial: true });
  const [before, after] = around.map(({ ids }) => ids);
  const numAround = before!.length + after!.length;
  const numFit = roomFor(numAround, truncate, maxModelLen);
  const prompts: PooledPrompt[] = [];
  // Part by part: a query of a megabyte is refused with its first document, before its repetition for a thousand.
  for (const texts of partsOf(pairs.map(([a, b]) => textOf(a.text, b.text)))) {
    for (const each of await encodePlain(context, texts, truncate)) {
      const { param } = pairs[prompts.length]![1];
      const ids = wholeIds(each, context, param);
      if (truncate === undefined && ids.length > numFit) {
        throw contextExceeded(maxModelLen, ids.length + numAround, 0, param);
      }
      prompts.push({ ids: joinedIds(before!, ids.subarray(0, numFit), after!), param });
    }
  }
  return prompts;
}

/** Characters of texts to encode together: far more than the caller's own thread encodes. */
const PART_LENGTH = 256 * 1024;

function* partsOf(texts: readonly string[]): Generator<readonly string[]> {
  let [start, length] = [0, 0];
  for (const [index, text] of texts.entries()) {
    length += text.length;
    if (length < PART_LENGTH && index < texts.length - 1) continue;
    yield texts.slice(start, index + 1);
    [start, length] = [index + 1, 0];
  }
}

/**
 * The first tokens of both texts, cut from the longer one until both fit; if both are cut, the second keeps the odd
 * token.
 */
function fitting(first: Int32Array, second: Int32Array, numFit: number): [Int32Array, Int32Array] {
  if (first.length + second.length <= numFit) return [first, second];
  const half = Math.floor(numFit / 2);
  const numShort = Math.min(first.length, second.length);
  if (numShort <= half) {
    const numLong = numFit - numShort;
    return first.length <= second.length ? [first, second.subarray(0, numLong)] : [first.subarray(0, numLong), second];
  }
  const isSecondLonger = first.length <= second.length;
  return isSecondLonger
    ? [first.subarray(0, half), second.subarray(0, numFit - half)]
    : [first.subarray(0, numFit - half), second.subarray(0, half)];
}

function joined({ before, between, after, numBetweenOfFirst }: PairTemplate, first: Int32Array, second: Int32Array) {
  return {
    ids: joinedIds(before, first, between, second, after),
    secondTextStart: before.length + first.length + numBetweenOfFirst,
  };
}
