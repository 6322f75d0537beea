/** The prompts of pairs of texts, as a reranker reads them: joined by the tokenizer's own tokens, or in the model's template. */
import { MillraceError } from "../../core/errors.js";
import type { PairTemplate } from "../../text/tokenizer/tokenizer.js";
import type { ServeContext } from "../http/context.js";
import type { PooledPrompt } from "./embeddings.js";
import { assertMayBeTruncated, contextExceeded, wholeIds } from "./prompt-size.js";

interface PairText {
  readonly text: string;
  /** The request field that it came in. */
  readonly param: string;
}

export type TextPair = readonly [first: PairText, second: PairText];

/** How the tokens of pairs are made. */
interface PairOptions {
  /** Most tokens of a pair; -1: as many as the context holds. Absent: a pair that is too long is refused. */
  readonly truncate: number | undefined;
  /** The task of a reranker that reads instructions; absent: to find passages that answer a web search. */
  readonly instruction: string | undefined;
}

/** @example noInstruction("an encoder") // instruction: expected a reranker that reads instructions, got an encoder */
export const noInstruction = (got: string): MillraceError =>
  new MillraceError("invalid_parameter", `instruction: expected a reranker that reads instructions, got ${got}`, {
    param: "instruction",
    hint: "leave it out",
  });

/** Special tokens in the texts are plain text: a document cannot end itself. Throws context_length_exceeded for a pair that does not fit. */
export async function encodePairs(
  context: ServeContext,
  pairs: readonly TextPair[],
  { truncate, instruction }: PairOptions,
): Promise<readonly PooledPrompt[]> {
  const length = pairs.flat().reduce((sum, { text }) => sum + text.length, 0);
  if (truncate !== undefined) assertMayBeTruncated(length, pairs[0]![1].param);
  if (context.engine.info.isCausal) return encodeInstructed(context, pairs, truncate, instruction);
  if (instruction !== undefined) throw noInstruction("an encoder");
  return encodeJoined(context, pairs, truncate);
}

/** Most tokens of a pair that may be cut. */
const longestPair = (truncate: number | undefined, maxModelLen: number): number =>
  truncate === undefined || truncate === -1 ? maxModelLen : Math.min(truncate, maxModelLen);

/** Of texts that stand in a pair. */
function encodePlain(context: ServeContext, texts: readonly string[], truncate: number | undefined) {
  const most = truncate === undefined ? context.engine.info.maxModelLen : undefined;
  return context.asyncTokenizer.encode(texts, { addSpecial: false, parseSpecial: false }, most);
}

/** The pairs of an encoder, joined as its tokenizer says. */
async function encodeJoined(
  context: ServeContext,
  pairs: readonly TextPair[],
  truncate: number | undefined,
): Promise<readonly PooledPrompt[]> {
  const { pair: template } = context.tokenizer;
  if (template === undefined) {
    throw new MillraceError(
      "tokenizer_unsupported",
      "expected a tokenizer that joins two texts, got one that does not",
      { hint: "The post_processor of the model's tokenizer.json has no template of pairs." },
    );
  }
  const { maxModelLen } = context.engine.info;
  // A query that goes with many texts is encoded once.
  const texts = [...new Set(pairs.flatMap((pair) => pair.map(({ text }) => text)))];
  const encoded = await encodePlain(context, texts, truncate);
  const encodedOf = new Map(texts.map((text, index) => [text, encoded[index]!] as const));
  const numAround = template.before.length + template.between.length + template.after.length;
  const numFit = longestPair(truncate, maxModelLen) - numAround;
  return pairs.map(([a, b]) => {
    const first = wholeIds(encodedOf.get(a.text)!, context, a.param);
    const second = wholeIds(encodedOf.get(b.text)!, context, b.param);
    const numTokens = first.length + second.length + numAround;
    if (truncate === undefined && numTokens > maxModelLen) throw contextExceeded(maxModelLen, numTokens, 0, b.param);
    return { ...joined(template, ...fitting(first, second, numFit)), param: b.param };
  });
}

/** The chat that Qwen3-Reranker was trained on, around a pair; the model answers yes or no. */
const BEFORE_PAIR =
  "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. " +
  'Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n';
const AFTER_PAIR = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
const DEFAULT_INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query";

/** The pairs of a Qwen3-Reranker. */
async function encodeInstructed(
  context: ServeContext,
  pairs: readonly TextPair[],
  truncate: number | undefined,
  instruction = DEFAULT_INSTRUCTION,
): Promise<readonly PooledPrompt[]> {
  const { asyncTokenizer, engine } = context;
  const { maxModelLen } = engine.info;
  const around = await asyncTokenizer.encode([BEFORE_PAIR, AFTER_PAIR], { addSpecial: false, parseSpecial: true });
  const [before, after] = around.map(({ ids }) => ids);
  const texts = pairs.map(([a, b]) => `<Instruct>: ${instruction}\n<Query>: ${a.text}\n<Document>: ${b.text}`);
  const encoded = await encodePlain(context, texts, truncate);
  const numAround = before!.length + after!.length;
  const numFit = Math.max(0, longestPair(truncate, maxModelLen) - numAround);
  return encoded.map((each, index) => {
    const { param } = pairs[index]![1];
    const ids = wholeIds(each, context, param);
    const numTokens = ids.length + numAround;
    if (truncate === undefined && numTokens > maxModelLen) throw contextExceeded(maxModelLen, numTokens, 0, param);
    return { ids: Int32Array.of(...before!, ...ids.subarray(0, numFit), ...after!), param };
  });
}

/** The first tokens of both, taken from the longer one until both fit; of two as long as each other the second keeps one more. */
function fitting(first: Int32Array, second: Int32Array, numFit: number): [Int32Array, Int32Array] {
  const room = Math.max(0, numFit);
  if (first.length + second.length <= room) return [first, second];
  const half = Math.floor(room / 2);
  const numShort = Math.min(first.length, second.length);
  if (numShort <= half) {
    const numLong = room - numShort;
    return first.length <= second.length ? [first, second.subarray(0, numLong)] : [first.subarray(0, numLong), second];
  }
  const isSecondLonger = first.length <= second.length;
  return isSecondLonger
    ? [first.subarray(0, half), second.subarray(0, room - half)]
    : [first.subarray(0, room - half), second.subarray(0, half)];
}

function joined({ before, between, after, numBetweenOfFirst }: PairTemplate, first: Int32Array, second: Int32Array) {
  return {
    ids: Int32Array.of(...before, ...first, ...between, ...second, ...after),
    secondTextStart: before.length + first.length + numBetweenOfFirst,
  };
}
