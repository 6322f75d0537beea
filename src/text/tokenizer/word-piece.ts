/**
 * WordPiece (BERT's): a word is divided into the longest token at its start, then the longest continuing token, and so
 * on; a word whose rest has no token is unknown as a whole.
 */
import type { PieceEncoder } from "./piece-encoder.js";
import { WordCache } from "./word-cache.js";

const UTF8 = new TextEncoder();

interface WordPieceOptions {
  /** Token texts by id, as they read at the start of a word; those of continuing tokens are in `continuing`. */
  readonly texts: readonly string[];
  /** Ids of beginning tokens and of continuing tokens, by their text without marks. */
  readonly beginning: ReadonlyMap<string, number>;
  readonly continuing: ReadonlyMap<string, number>;
  readonly unknownId: number;
  /** Longer words are unknown. In characters, at most MOST_MAX_WORD_LENGTH. */
  readonly maxWordLength: number;
  readonly normalize: (text: string) => string;
  /** Splits a normalised text into words. */
  readonly split: (text: string, isStart: boolean) => readonly string[];
}

/** Published models have 100; the time for a word is quadratic in its length. */
export const MOST_MAX_WORD_LENGTH = 256;

export class WordPiece implements PieceEncoder {
  /** Decoding puts a space before every token that begins a word. */
  readonly stripsLeadingSpace = true;
  readonly #cache = new WordCache();
  readonly #textOfContinuing: ReadonlyMap<number, string>;
  readonly #longestBeginning: number;
  readonly #longestContinuing: number;
  readonly #encodeWord = (word: string): readonly number[] => this.#cut(word);

  constructor(private readonly options: WordPieceOptions) {
    const { beginning, continuing } = options;
    this.#textOfContinuing = new Map(Array.from(continuing, ([text, id]) => [id, text]));
    this.#longestBeginning = longestKey(beginning);
    this.#longestContinuing = longestKey(continuing);
  }

  encode(text: string, out: number[], isStart: boolean): void {
    const { normalize, split } = this.options;
    for (const word of split(normalize(text), isStart)) this.#cache.append(word, out, this.#encodeWord);
  }

  bytesOf(id: number): Uint8Array {
    return UTF8.encode(this.#textOfContinuing.get(id) ?? ` ${this.options.texts[id]!}`);
  }

  #cut(word: string): readonly number[] {
    const { beginning, continuing, unknownId, maxWordLength } = this.options;
    if (word.length > maxWordLength && Array.from(word).length > maxWordLength) return [unknownId];
    const ids: number[] = [];
    for (let start = 0; start < word.length; ) {
      const [table, longest] =
        start === 0 ? [beginning, this.#longestBeginning] : [continuing, this.#longestContinuing];
      let end = Math.min(word.length, start + longest);
      let id: number | undefined;
      for (; end > start; end--) {
        // Half of a surrogate pair is not a token.
        id = isLowSurrogate(word, end) ? undefined : table.get(word.slice(start, end));
        if (id !== undefined) break;
      }
      if (id === undefined) return [unknownId];
      ids.push(id);
      start = end;
    }
    return ids;
  }
}

const longestKey = (table: ReadonlyMap<string, number>): number => {
  let longest = 0;
  for (const key of table.keys()) longest = Math.max(longest, key.length);
  return longest;
};

function isLowSurrogate(text: string, at: number): boolean {
  const unit = text.charCodeAt(at);
  return unit >= 0xdc00 && unit <= 0xdfff;
}
