/**
 * What a request's own lists leave of a position's tokens, beside its grammar: the only ones that may come (`allowedTokenIds`), and words that may
 * not. What is barred is a function of the tokens before the position, drafted ones among them, so that it advances and rolls back with drafts.
 */
import type { SamplingParams } from "../api/request.js";

/** The part of a sequence that is looked at. */
interface BarredSequence {
  readonly sampling: SamplingParams;
  readonly numPromptTokens: number;
  /** With the drafted ones up to the position. */
  readonly tokens: Int32Array;
}

export class TokenBars {
  /** One bit a token, as in the grammar's masks. */
  readonly #words: Int32Array;
  readonly #all: Int32Array;
  readonly #allowed = new WeakMap<SamplingParams, Int32Array>();

  constructor(vocabSize: number) {
    this.#words = new Int32Array(Math.ceil(vocabSize / 32));
    this.#all = new Int32Array(this.#words.length).fill(-1);
    const numInLast = vocabSize % 32;
    if (numInLast > 0) this.#all[this.#all.length - 1] = (1 << numInLast) - 1;
  }

  /**
   * The tokens that may come at `position`, were all before it right. Where nothing would be left, the grammar goes before the allowed tokens, and
   * these before the words that may not come.
   * @param grammar what the grammar leaves; undefined: everything
   * @returns undefined: everything may come. Else valid until the next call
   */
  maskAt(sequence: BarredSequence, position: number, grammar: Int32Array | undefined): Int32Array | undefined {
    const { allowedTokenIds, badWords } = sequence.sampling;
    if (allowedTokenIds === undefined && (badWords === undefined || badWords.length === 0)) return grammar;
    const left = this.#words;
    left.set(grammar ?? this.#all);
    if (allowedTokenIds !== undefined) this.#keepAllowed(sequence.sampling, allowedTokenIds);
    const cleared: number[] = [];
    for (const word of badWords ?? []) {
      const id = word.at(-1)!;
      if (!isSet(left, id) || !endsWith(sequence, position, word)) continue;
      left[id >> 5]! &= ~(1 << (id & 31));
      cleared.push(id);
    }
    if (cleared.length > 0 && left.every((word) => word === 0))
      for (const id of cleared) left[id >> 5]! |= 1 << (id & 31);
    return left;
  }

  #keepAllowed(sampling: SamplingParams, ids: readonly number[]): void {
    let allowed = this.#allowed.get(sampling);
    if (allowed === undefined) {
      allowed = new Int32Array(this.#words.length);
      for (const id of ids) allowed[id >> 5]! |= 1 << (id & 31);
      this.#allowed.set(sampling, allowed);
    }
    const left = this.#words;
    if (!left.some((word, i) => (word & allowed[i]!) !== 0)) return;
    for (let i = 0; i < left.length; i++) left[i]! &= allowed[i]!;
  }
}

/** Whether no token may come but these. */
export function leavesOnly(words: ArrayLike<number>, ids: readonly number[]): boolean {
  const rest = Int32Array.from(words);
  for (const id of ids) rest[id >> 5]! &= ~(1 << (id & 31));
  return rest.every((word) => word === 0);
}

function isSet(words: Int32Array, id: number): boolean {
  return (words[id >> 5]! & (1 << (id & 31))) !== 0;
}

/** Whether the output before `position` is the word's beginning, so that its last token would complete it. */
function endsWith({ tokens, numPromptTokens }: BarredSequence, position: number, word: readonly number[]): boolean {
  const start = position - word.length + 1;
  if (start < numPromptTokens) return false;
  for (let i = 0; i < word.length - 1; i++) if (tokens[start + i] !== word[i]) return false;
  return true;
}
