/** Caches the token ids of short words, because natural text repeats them often. */

const MAX_WORDS = 1 << 16;
const MAX_WORD_LENGTH = 48;

export class WordCache {
  readonly #idsByWord = new Map<string, readonly number[]>();

  /** Appends the ids of `word` to `out`; encodes it with `encode` if it is not cached. */
  append(word: string, out: number[], encode: (word: string) => readonly number[]): void {
    let ids = this.#idsByWord.get(word);
    if (ids === undefined) {
      ids = encode(word);
      if (word.length <= MAX_WORD_LENGTH) {
        // Clearing the cache is cheaper than tracking ages, because frequent words return immediately.
        if (this.#idsByWord.size >= MAX_WORDS) this.#idsByWord.clear();
        // The key is a copy, because a slice would keep the whole text in memory.
        this.#idsByWord.set(ownCopy(word), ids);
      }
    }
    for (let i = 0; i < ids.length; i++) out.push(ids[i]!);
  }
}

function ownCopy(word: string): string {
  return Buffer.from(word, "utf16le").toString("utf16le");
}
