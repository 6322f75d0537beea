/** Work for a tokenizer that may be long, as messages between threads; see async-tokenizer.ts. */
import { tokenText } from "./token-text.js";
import type { EncodeOptions, Tokenizer } from "./tokenizer/tokenizer.js";

export type TokenizerJob =
  | {
      readonly kind: "encode";
      readonly texts: readonly string[];
      readonly options: EncodeOptions;
      readonly maxTokens: number;
    }
  | { readonly kind: "list"; readonly text: string; readonly options: EncodeOptions; readonly withTexts: boolean }
  | { readonly kind: "decode"; readonly ids: readonly number[] | Int32Array };

export interface Encoded {
  /** None of a text that has too many. */
  readonly ids: Int32Array<ArrayBuffer>;
  /** How many the text has at least, where they are more than were asked for. */
  readonly atLeast?: number;
}

/** A text's tokens, written out. */
export interface TokenList {
  readonly count: number;
  /** UTF-8 of a JSON array of ids. */
  readonly ids: Uint8Array<ArrayBuffer>;
  /** UTF-8 of a JSON array of texts, or of null. */
  readonly texts: Uint8Array<ArrayBuffer>;
}

/** By the kind of job; of `encode`, one for each text. */
export type JobResult = readonly Encoded[] | TokenList | string;

const utf8 = new TextEncoder();

/** Size of a job, which its time grows with: characters of its texts, or ids. */
export function jobSize(job: TokenizerJob): number {
  switch (job.kind) {
    case "encode":
      return job.texts.reduce((sum, text) => sum + text.length, 0);
    case "list":
      return job.text.length;
    case "decode":
      return job.ids.length;
  }
}

/** Throws the tokenizer's errors. */
export function runJob(tokenizer: Tokenizer, job: TokenizerJob): JobResult {
  switch (job.kind) {
    case "encode":
      return job.texts.map((text) => encode(tokenizer, text, job.options, job.maxTokens));
    case "list": {
      const ids = tokenizer.encode(job.text, job.options);
      const texts = job.withTexts ? ids.map((id) => tokenText(tokenizer, id)) : null;
      return { count: ids.length, ids: utf8.encode(JSON.stringify(ids)), texts: utf8.encode(JSON.stringify(texts)) };
    }
    case "decode":
      return tokenizer.decode(job.ids, { keepSpecial: true });
  }
}

/** Texts of fewer characters a token are encoded whole at once. */
const USUAL_TOKEN_LENGTH = 8;
/** Slices are cut anywhere: of each, so many tokens may be there only because of the cut. */
const TOKENS_OF_A_CUT = 64;
/** A special token may swallow the white space after or before it, however long, and may be on the other side of the cut. */
const SPACES = /[\s\u0085]+/g;

/** Refuses a prompt beyond the context by its first slices: encoding all of megabytes takes seconds. */
function encode(tokenizer: Tokenizer, text: string, options: EncodeOptions, maxTokens: number): Encoded {
  const sliceLength = USUAL_TOKEN_LENGTH * maxTokens;
  const count = (part: string) => tokenizer.encode(part, options).length;
  let numTokens = 0;
  for (let start = 0; text.length > sliceLength && start < text.length; start += sliceLength) {
    const slice = text.slice(start, start + sliceLength);
    // Where white space belongs to longer tokens, the slice has fewer with all of it.
    const least = Math.min(count(slice), count(slice.replace(SPACES, " ")));
    numTokens += Math.max(0, least - TOKENS_OF_A_CUT);
    if (numTokens > maxTokens) return { ids: new Int32Array(), atLeast: numTokens };
  }
  return { ids: Int32Array.from(tokenizer.encode(text, options)) };
}

/** Buffers that the result need not be copied for. */
export function buffersOf(result: JobResult): ArrayBuffer[] {
  if (typeof result === "string") return [];
  return "texts" in result ? [result.ids.buffer, result.texts.buffer] : result.map(({ ids }) => ids.buffer);
}
