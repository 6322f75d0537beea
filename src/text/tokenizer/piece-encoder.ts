/** Encodes text between special tokens, one implementation per kind of vocabulary; `SubwordTokenizer` does the rest. */

export interface PieceEncoder {
  /** Decoding takes one space off a text's front, because encoding put one there (SentencePiece's dummy prefix). */
  readonly stripsLeadingSpace: boolean;
  /**
   * Appends the ids of a text without special tokens to `out`.
   * @param isStart the text begins the whole text, rather than following a special token
   */
  encode(text: string, out: number[], isStart: boolean): void;
  /** The bytes a token stands for; the id is in range. */
  bytesOf(id: number): Uint8Array;
}
