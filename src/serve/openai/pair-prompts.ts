/** The prompts of pairs of texts, as a reranker reads them: joined by the tokenizer's own tokens, or in the model's template. */
import { MillraceError } from "../../core/errors.js";
import type { PairTemplate } from "../../text/tokenizer/tokenizer.js";
import type { ServeContext } from "../http/context.js";
import { assertMayBeTruncated, contextExceeded, wholeIds } from "./prompt-size.js";

interface PairText {
  readonly text: string;
  /** The request field that it came in. */
  readonly param: string;
}

export type TextPair = readonly [first: PairText, second: PairText];

export interface PairPrompt {
  readonly ids: Int32Array;
  readonly secondTextStart: number | undefined;
}

/** How the tokens of pairs are made. */
interface PairOptions {
  /** Most tokens of a pair; -1: as many as the context holds. Absent: a pair that is too long is refused. */
  readonly truncate: number | undefined;
  /** What a reranker that reads instructions is told; absent: to look for answers to a search. */
  readonly instruction: string | undefined;
}

/** Special tokens in the texts are plain text: a document cannot end itself. Throws context_length_exceeded for a pair that does not fit. */
export async function encodePairs(
  context: ServeContext,
  pairs: readonly TextPair[],
  { truncate, instruction }: PairOptions,
): Promise<readonly PairPrompt[]> {
  if (context.engine.info.isCausal) return encodeInstructed(context, pairs, truncate, instruction);
  if (instruction !== undefined) {
    const message = "instruction: expected a reranker that reads instructions, got an encoder";
    throw new MillraceError("invalid_parameter", message, { param: "instruction" });
  }
  const { pair: template } = context.tokenizer;
  if (template === undefined) {
    throw new MillraceError(
      "tokenizer_unsupported",
      "expected a tokenizer that joins two texts, got one that does not",
      {
        hint: "The model's tokenizer.json has no template of pairs.",
      },
    );
  }
  const { maxModelLen } = context.engine.info;
  const length = pairs.flat().reduce((sum, { text }) => sum + text.length, 0);
  if (truncate !== undefined) assertMayBeTruncated(length, pairs[0]![1].param);
  // A query that goes with many texts is encoded once.
  const texts = [...new Set(pairs.flatMap((pair) => pair.map(({ text }) => text)))];
  const most = truncate === undefined ? maxModelLen : undefined;
  const encoded = await context.asyncTokenizer.encode(texts, { addSpecial: false, parseSpecial: false }, most);
  const encodedOf = new Map(texts.map((text, index) => [text, encoded[index]!] as const));
  const numAround = template.before.length + template.between.length + template.after.length;
  const longest = Math.min(truncate === undefined || truncate === -1 ? maxModelLen : truncate, maxModelLen);
  return pairs.map(([a, b]) => {
    const first = wholeIds(encodedOf.get(a.text)!, context, a.param);
    const second = wholeIds(encodedOf.get(b.text)!, context, b.param);
    const numTokens = first.length + second.length + numAround;
    if (truncate === undefined && numTokens > maxModelLen) throw contextExceeded(maxModelLen, numTokens, 0, b.param);
    return joined(template, ...fitting(first, second, longest - numAround));
  });
}

/** As Qwen3-Reranker was trained: the answer to the chat is yes or no. */
const BEFORE_PAIR =
  "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. " +
  'Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n';
const AFTER_PAIR = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
const DEFAULT_INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query";

async function encodeInstructed(
  context: ServeContext,
  pairs: readonly TextPair[],
  truncate: number | undefined,
  instruction = DEFAULT_INSTRUCTION,
): Promise<readonly PairPrompt[]> {
  const { asyncTokenizer, engine } = context;
  const { maxModelLen } = engine.info;
  const around = await asyncTokenizer.encode([BEFORE_PAIR, AFTER_PAIR], { addSpecial: false, parseSpecial: true });
  const [before, after] = around.map(({ ids }) => ids);
  const texts = pairs.map(([a, b]) => `<Instruct>: ${instruction}\n<Query>: ${a.text}\n<Document>: ${b.text}`);
  const length = texts.reduce((sum, text) => sum + text.length, 0);
  if (truncate !== undefined) assertMayBeTruncated(length, pairs[0]![1].param);
  const most = truncate === undefined ? maxModelLen : undefined;
  const encoded = await asyncTokenizer.encode(texts, { addSpecial: false, parseSpecial: false }, most);
  const numAround = before!.length + after!.length;
  const longest = Math.min(truncate === undefined || truncate === -1 ? maxModelLen : truncate, maxModelLen);
  return encoded.map((each, index) => {
    const { param } = pairs[index]![1];
    const ids = wholeIds(each, context, param);
    if (truncate === undefined && ids.length + numAround > maxModelLen) {
      throw contextExceeded(maxModelLen, ids.length + numAround, 0, param);
    }
    const kept = ids.subarray(0, Math.max(0, longest - numAround));
    return { ids: Int32Array.of(...before!, ...kept, ...after!), secondTextStart: undefined };
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
