/** Counts the stored prompts in which each word occurs: the rarer a word, the more it determines a question. */

/** With fewer prompts, a word's rarity is chance. */
const MIN_PROMPTS = 50;

export class WordCounts {
  readonly #counts = new Map<string, number>();
  #numPrompts = 0;

  add(words: Iterable<string>): void {
    this.#numPrompts++;
    for (const word of new Set(words)) this.#counts.set(word, (this.#counts.get(word) ?? 0) + 1);
  }

  remove(words: Iterable<string>): void {
    this.#numPrompts--;
    for (const word of new Set(words)) {
      const count = (this.#counts.get(word) ?? 0) - 1;
      if (count > 0) this.#counts.set(word, count);
      else this.#counts.delete(word);
    }
  }

  /**
   * Inverse document frequency: 0 for a word of every prompt, 1 for a word of none but one. 0.5 while there are too few
   * prompts.
   */
  readonly rarity = (word: string): number => {
    if (this.#numPrompts < MIN_PROMPTS) return 0.5;
    const count = Math.max(this.#counts.get(word) ?? 1, 1);
    return Math.max(0, Math.log(this.#numPrompts / count) / Math.log(this.#numPrompts));
  };
}
