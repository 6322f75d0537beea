/** Possibly long tokenizer jobs, as messages between threads; see async-tokenizer.ts. */
import { tokenPiece, tokenText } from "./token-text.js";
import type { EncodeOptions, Tokenizer } from "./tokenizer/tokenizer.js";

export type TokenizerJob =
  | {
      readonly kind: "encode";
      readonly texts: readonly string[];
      readonly options: EncodeOptions;
      readonly maxTokens: number;
    }
  | { readonly kind: "list"; readonly text: string; readonly options: EncodeOptions; readonly details: TokenDetails }
  | { readonly kind: "decode"; readonly ids: readonly number[] | Int32Array };

/**
 * The form in which texts of tokens come beside their ids: a list of texts, or an object with id and piece for each
 * token.
 */
export type TokenDetails = "none" | "texts" | "pieces";

export interface Encoded {
  /** Empty if the text has too many tokens. */
  readonly ids: Int32Array<ArrayBuffer>;
  /** A lower bound of the number of tokens, if it exceeds the limit. */
  readonly atLeast?: number;
}

/** A text's tokens as JSON. */
export interface TokenList {
  readonly count: number;
  /** UTF-8 of a JSON array of ids, or of objects with `id` and `piece`. */
  readonly ids: Uint8Array<ArrayBuffer>;
  /** UTF-8 of a JSON array of texts, or of null. */
  readonly texts: Uint8Array<ArrayBuffer>;
}

/** The result depends on the kind of job; `encode` returns one entry per text. */
export type JobResult = readonly Encoded[] | TokenList | string;

const utf8 = new TextEncoder();

/** The size of a job in characters or ids; its time is proportional to it. */
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

/** Runs the job; throws the tokenizer's errors. */
export function runJob(tokenizer: Tokenizer, job: TokenizerJob): JobResult {
  switch (job.kind) {
    case "encode":
      return job.texts.map((text) => encode(tokenizer, text, job.options, job.maxTokens));
    case "list": {
      const ids = tokenizer.encode(job.text, job.options);
      const tokens = job.details === "pieces" ? ids.map((id) => ({ id, piece: tokenPiece(tokenizer, id) })) : ids;
      const texts = job.details === "texts" ? ids.map((id) => tokenText(tokenizer, id)) : null;
      return { count: ids.length, ids: utf8.encode(JSON.stringify(tokens)), texts: utf8.encode(JSON.stringify(texts)) };
    }
    case "decode":
      return tokenizer.decode(job.ids, { keepSpecial: true });
  }
}

/** A text with at most this many characters per allowed token is encoded as a whole. */
const USUAL_TOKEN_LENGTH = 8;
/** Slices are cut at any character, so up to this many tokens of a slice may exist only because of the cut. */
const TOKENS_OF_A_CUT = 64;
/** A special token may absorb any amount of adjacent white space, and the token may be on the other side of the cut. */
const SPACES = /[\s\u0085]+/g;

/** Refuses a prompt beyond the context after its first slices, because encoding megabytes takes seconds. */
function encode(tokenizer: Tokenizer, text: string, options: EncodeOptions, maxTokens: number): Encoded {
  const sliceLength = USUAL_TOKEN_LENGTH * maxTokens;
  const count = (part: string) => tokenizer.encode(part, options).length;
  let numTokens = 0;
  for (let start = 0; text.length > sliceLength && start < text.length; start += sliceLength) {
    const slice = text.slice(start, start + sliceLength);
    // Both counts are needed: if white space belongs to longer tokens, the slice has fewer tokens with all its white
    // space.
    const least = Math.min(count(slice), count(slice.replace(SPACES, " ")));
    numTokens += Math.max(0, least - TOKENS_OF_A_CUT);
    if (numTokens > maxTokens) return { ids: new Int32Array(), atLeast: numTokens };
  }
  return { ids: Int32Array.from(tokenizer.encode(text, options)) };
}

/** The buffers to transfer to the other thread instead of copying them. */
export function buffersOf(result: JobResult): ArrayBuffer[] {
  if (typeof result === "string") return [];
  return "texts" in result ? [result.ids.buffer, result.texts.buffer] : result.map(({ ids }) => ids.buffer);
}
