/** What a vocabulary kind does with text between special tokens; `GgufTokenizer` does the rest. */

export interface PieceEncoder {
  /** Encoding puts a space before a text's first word (SentencePiece's dummy prefix), and decoding takes it off. */
  readonly addsSpacePrefix: boolean;
  /** Appends the ids of a text without special tokens to `out`. */
  encode(text: string, out: number[]): void;
  /** The bytes a token stands for; the id is in range. */
  bytesOf(id: number): Uint8Array;
}
