/**
 * Encodes text between special tokens; each kind of vocabulary has an implementation, and `SubwordTokenizer` does the
 * rest.
 */

export interface PieceEncoder {
  /** Decoding removes one space from a text's front, because encoding put one there (SentencePiece's dummy prefix). */
  readonly stripsLeadingSpace: boolean;
  /**
   * Appends the ids of a text without special tokens to `out`.
   * @param isStart the text is at the start of the whole text, not after a special token
   */
  encode(text: string, out: number[], isStart: boolean): void;
  /** The bytes of a token; the id is in range. */
  bytesOf(id: number): Uint8Array;
}
