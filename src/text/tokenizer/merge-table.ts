/** The merges of a ranked BPE: the pairs that join, their order and their results. */

import type { MergeRules } from "./bpe-merge.js";
import { corrupt, MAX_VOCAB_SIZE } from "./vocabulary.js";

/** The texts of two tokens that merge. */
export type MergePair = readonly [first: string, second: string];

/** Splits merges written as two texts with a space between them. */
export function parseMerges(merges: readonly string[], what: string): readonly MergePair[] {
  return merges.map((merge, index) => {
    // The first character may itself be a space in odd vocabularies, hence the search from 1.
    const space = merge.indexOf(" ", 1);
    if (space === -1 || space === merge.length - 1) {
      throw corrupt(`expected ${what}[${index}] to be two texts and a space, got ${JSON.stringify(merge)}`);
    }
    return [merge.slice(0, space), merge.slice(space + 1)];
  });
}

export type RankOfRepeated = "first" | "last";

/** Hash table from a pair of token ids to the merge that joins them; the merge's index in the list is its rank. */
export class MergeTable implements MergeRules {
  readonly #left: Int32Array;
  readonly #right: Int32Array;
  readonly #ruleBySlot: Int32Array;
  readonly #resultByRule: Int32Array;
  readonly #mask: number;

  /**
   * @param idByText the tokens that merges refer to
   * @param repeated the rank of a pair that is listed twice: its first in GGUF files (llama.cpp's rule), its last in
   * tokenizer.json (Hugging Face's)
   */
  constructor(
    idByText: ReadonlyMap<string, number>,
    merges: readonly MergePair[],
    private readonly repeated: RankOfRepeated,
  ) {
    if (merges.length >= MAX_VOCAB_SIZE)
      throw corrupt(`expected fewer than ${MAX_VOCAB_SIZE} merges, got ${merges.length}`);
    const numSlots = 2 ** Math.ceil(Math.log2(2 * merges.length + 2));
    this.#mask = numSlots - 1;
    this.#left = new Int32Array(numSlots);
    this.#right = new Int32Array(numSlots);
    this.#ruleBySlot = new Int32Array(numSlots).fill(-1);
    this.#resultByRule = new Int32Array(merges.length);
    let numUnknown = 0;
    for (const [rule, [first, second]] of merges.entries()) {
      const leftId = idByText.get(first);
      const rightId = idByText.get(second);
      const resultId = idByText.get(first + second);
      // Pruned vocabularies keep merges of tokens they no longer have; those can never apply.
      if (leftId === undefined || rightId === undefined || resultId === undefined) numUnknown++;
      else this.#insert(leftId, rightId, rule, resultId);
    }
    if (2 * numUnknown > merges.length) {
      throw corrupt(
        `expected merges of the vocabulary's tokens, got ${numUnknown} of ${merges.length} with texts that are no token`,
      );
    }
  }

  find(leftId: number, rightId: number): number {
    return this.#ruleBySlot[this.#slotOf(leftId, rightId)]!;
  }

  rank(rule: number): number {
    return rule;
  }

  result(rule: number): number {
    return this.#resultByRule[rule]!;
  }

  #insert(leftId: number, rightId: number, rule: number, resultId: number): void {
    const slot = this.#slotOf(leftId, rightId);
    if (this.#ruleBySlot[slot] !== -1 && this.repeated === "first") return;
    this.#left[slot] = leftId;
    this.#right[slot] = rightId;
    this.#ruleBySlot[slot] = rule;
    this.#resultByRule[rule] = resultId;
  }

  /** The pair's slot, or the empty slot for it (linear probing; at most half the slots are taken). */
  #slotOf(leftId: number, rightId: number): number {
    let hash = Math.imul(leftId, 0x9e3779b1) ^ Math.imul(rightId, 0x85ebca6b);
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
    let slot = (hash ^ (hash >>> 13)) & this.#mask;
    while (this.#ruleBySlot[slot] !== -1 && (this.#left[slot] !== leftId || this.#right[slot] !== rightId)) {
      slot = (slot + 1) & this.#mask;
    }
    return slot;
  }
}
