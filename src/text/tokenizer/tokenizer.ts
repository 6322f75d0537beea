/**
 * The tokenizer interface: text in, ids out and back. Implementations: byte-level BPE, SentencePiece BPE, WordPiece,
 * Unigram.
 */

import type { InfillTokens } from "./infill-tokens.js";

export interface EncodeOptions {
  /** Whether to add BOS and EOS if the model's metadata requires them. */
  readonly addSpecial: boolean;
  /**
   * Whether to recognise special tokens (`<|im_end|>` …) in the text. Off for user-controlled text outside a chat
   * template.
   */
  readonly parseSpecial: boolean;
}

/** The joining of two texts to one prompt: before, first text, between, second text, after. */
export interface PairTemplate {
  readonly before: readonly number[];
  readonly between: readonly number[];
  readonly after: readonly number[];
  /** Number of tokens of `between` that count with the first text, in models with token types. */
  readonly numBetweenOfFirst: number;
}

export interface Tokenizer {
  readonly vocabSize: number;
  /**
   * The length of the longest token's text in UTF-16 units: n tokens spell at most n times as many, except for white
   * space that special tokens absorb. Infinite where a token may stand for a text of any length, as an unknown word's
   * does.
   */
  readonly maxTokenLength: number;
  readonly bosId: number | undefined;
  readonly eosId: number | undefined;
  /** Ids that end a generation: EOS, EOT, EOM and the like. */
  readonly stopIds: ReadonlySet<number>;
  /** Absent: the model was not trained for infilling. */
  readonly infill?: InfillTokens | undefined;
  readonly addsBos: boolean;
  readonly addsEos: boolean;
  /** Absent: the tokenizer's files do not define how to join two texts. */
  readonly pair?: PairTemplate | undefined;
  /**
   * Whether the tokenizer's files have regular expressions that no published model has. Such expressions may take
   * unbounded time, in which they block the encoding thread.
   */
  readonly hasOwnExpressions?: boolean;
  encode(text: string, options: EncodeOptions): number[];
  /** Whole-sequence decoding; invalid UTF-8 becomes U+FFFD. Special tokens are left out unless `keepSpecial`. */
  decode(ids: ArrayLike<number>, options?: { readonly keepSpecial?: boolean }): string;
  /**
   * The raw bytes of a token that is not the first of a text (special tokens: their text). Throws `token_out_of_range`.
   */
  tokenBytes(id: number): Uint8Array;
  isSpecial(id: number): boolean;
  /** True if a text's first token loses one leading space in decoding (SentencePiece's dummy prefix). */
  readonly stripsLeadingSpace: boolean;
}
