/** The tokenizer interface: text in, ids out and back. Implementations: byte-level BPE, SentencePiece BPE. */

import type { InfillTokens } from "./infill-tokens.js";

export interface EncodeOptions {
  /** Add BOS/EOS where the model's metadata asks for them. */
  readonly addSpecial: boolean;
  /** Recognise special tokens (`<|im_end|>` …) written in the text. Off for text that a user controls outside a chat template. */
  readonly parseSpecial: boolean;
}

export interface Tokenizer {
  readonly vocabSize: number;
  /** UTF-16 units of the longest token's text: n tokens spell at most n times as many (but for white space that a special token swallows). */
  readonly maxTokenLength: number;
  readonly bosId: number | undefined;
  readonly eosId: number | undefined;
  /** Ids that end a generation: EOS, EOT, EOM and the like. */
  readonly stopIds: ReadonlySet<number>;
  /** Absent: the model was not trained to fill in. */
  readonly infill?: InfillTokens | undefined;
  readonly addsBos: boolean;
  readonly addsEos: boolean;
  encode(text: string, options: EncodeOptions): number[];
  /** Whole-sequence decoding; invalid UTF-8 becomes U+FFFD. Special tokens are left out unless `keepSpecial`. */
  decode(ids: ArrayLike<number>, options?: { readonly keepSpecial?: boolean }): string;
  /** The raw bytes a token stands for when it is not the first of a text (special tokens: their text). Throws `token_out_of_range`. */
  tokenBytes(id: number): Uint8Array;
  isSpecial(id: number): boolean;
  /** True where a text's first token loses one leading space on decoding (SentencePiece's dummy prefix). */
  readonly stripsLeadingSpace: boolean;
}
