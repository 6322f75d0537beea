/** Decodes token ids one by one, and returns only complete characters. */

import type { Tokenizer } from "./tokenizer/tokenizer.js";

interface StreamDecoderOptions {
  readonly keepSpecial?: boolean;
  /** Special tokens that stay in the text. */
  readonly keptTokenIds?: ReadonlySet<number> | undefined;
  /**
   * Whether the ids continue a text, as generated tokens do: a leading space then belongs to the text, and is not
   * SentencePiece's dummy prefix.
   */
  readonly continuesText?: boolean;
}

const SPACE = 0x20;
const EMPTY = new Uint8Array(0);

/**
 * The joined outputs equal `tokenizer.decode` of all ids, except for `continuesText`.
 *
 * @example const decoder = new StreamDecoder(tokenizer); let text = ids.map((id) => decoder.push(id)).join("") +
 *   decoder.flush();
 */
export class StreamDecoder {
  readonly #tokenizer: Tokenizer;
  readonly #keepsSpecial: boolean;
  readonly #keptTokenIds: ReadonlySet<number> | undefined;
  readonly #utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
  #isAtStart: boolean;

  constructor(tokenizer: Tokenizer, options: StreamDecoderOptions = {}) {
    this.#tokenizer = tokenizer;
    this.#keepsSpecial = options.keepSpecial === true;
    this.#keptTokenIds = options.keptTokenIds;
    this.#isAtStart = tokenizer.stripsLeadingSpace && options.continuesText !== true;
  }

  /** Returns the characters that are now complete. */
  push(id: number): string {
    let bytes = this.#tokenizer.tokenBytes(id);
    if (this.isLeftOut(id)) return "";
    if (this.#isAtStart && bytes.length > 0) {
      if (bytes[0] === SPACE) bytes = bytes.subarray(1);
      this.#isAtStart = false;
    }
    return this.#utf8.decode(bytes, { stream: true });
  }

  /** Whether the text omits this special token. */
  isLeftOut(id: number): boolean {
    return !this.#keepsSpecial && this.#tokenizer.isSpecial(id) && this.#keptTokenIds?.has(id) !== true;
  }

  /** Ends the stream: an unfinished character becomes U+FFFD. */
  flush(): string {
    return this.#utf8.decode(EMPTY);
  }
}
