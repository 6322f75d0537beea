/** Turns token ids into text one by one; only whole characters come out. */

import type { Tokenizer } from "./tokenizer/tokenizer.js";

interface StreamDecoderOptions {
  readonly keepSpecial?: boolean;
  /** Special tokens whose texts come out in any case. */
  readonly keptTokenIds?: ReadonlySet<number> | undefined;
  /** The ids go on with a text (as generated tokens do), so a first space is the text's own, not SentencePiece's dummy prefix. */
  readonly continuesText?: boolean;
}

const SPACE = 0x20;
const EMPTY = new Uint8Array(0);

/**
 * The outputs together equal `tokenizer.decode` of all ids, but for `continuesText`.
 *
 * @example const decoder = new StreamDecoder(tokenizer); let text = ids.map((id) => decoder.push(id)).join("") + decoder.flush();
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

  /** The characters that are complete now. */
  push(id: number): string {
    let bytes = this.#tokenizer.tokenBytes(id);
    if (!this.#keepsSpecial && this.#tokenizer.isSpecial(id) && this.#keptTokenIds?.has(id) !== true) return "";
    if (this.#isAtStart && bytes.length > 0) {
      if (bytes[0] === SPACE) bytes = bytes.subarray(1);
      this.#isAtStart = false;
    }
    return this.#utf8.decode(bytes, { stream: true });
  }

  /** Ends the stream: an unfinished character becomes U+FFFD. */
  flush(): string {
    return this.#utf8.decode(EMPTY);
  }
}
