/** Remembers the token ids of short words, which natural text repeats all the time. */

const MAX_WORDS = 1 << 16;
const MAX_WORD_LENGTH = 48;

export class WordCache {
  readonly #idsByWord = new Map<string, readonly number[]>();

  /** Appends the ids of `word` to `out`, encoding it with `encode` when it is not remembered. */
  append(word: string, out: number[], encode: (word: string) => readonly number[]): void {
    let ids = this.#idsByWord.get(word);
    if (ids === undefined) {
      ids = encode(word);
      if (word.length <= MAX_WORD_LENGTH) {
        // Starting over is cheaper than tracking ages: the frequent words are back at once.
        if (this.#idsByWord.size >= MAX_WORDS) this.#idsByWord.clear();
        // A slice of a large text would keep all of it alive, so the key is a copy.
        this.#idsByWord.set(ownCopy(word), ids);
      }
    }
    for (let i = 0; i < ids.length; i++) out.push(ids[i]!);
  }
}

function ownCopy(word: string): string {
  return Buffer.from(word, "utf16le").toString("utf16le");
}
