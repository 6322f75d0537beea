/**
 * Bars tokens by a request's own lists and its bound of thoughts, beside its grammar. The barred tokens are a function
 * of the tokens before the position, drafted ones included, so they advance and roll back with drafts.
 */
import type { SamplingParams } from "../api/request.js";

/** The fields of a sequence that bars depend on. */
interface BarredSequence {
  readonly sampling: SamplingParams;
  readonly numPromptTokens: number;
  /** Drafted tokens up to the position included. */
  readonly tokens: Int32Array;
}

export class TokenBars {
  /** One bit per token, as in the grammar's masks. */
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
   * The mask of tokens allowed at `position`, given that all before it are right. If the rules conflict so that no
   * token is left, the grammar takes precedence over the end of a thought, this over the allowed tokens, and these over
   * bad words.
   * @param grammar the grammar's mask; undefined: all tokens
   * @returns undefined: all tokens are allowed; else valid until the next call
   */
  maskAt(sequence: BarredSequence, position: number, grammar: Int32Array | undefined): Int32Array | undefined {
    const { allowedTokenIds, badWords } = sequence.sampling;
    const ending = endOfThought(sequence, position);
    if (ending !== undefined && (grammar === undefined || isSet(grammar, ending))) return this.#only(ending);
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

  #only(id: number): Int32Array {
    this.#words.fill(0);
    this.#words[id >> 5]! |= 1 << (id & 31);
    return this.#words;
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

/** Are these the only tokens allowed? */
export function leavesOnly(words: ArrayLike<number>, ids: readonly number[]): boolean {
  const rest = Int32Array.from(words);
  for (const id of ids) rest[id >> 5]! &= ~(1 << (id & 31));
  return rest.every((word) => word === 0);
}

function isSet(words: Int32Array, id: number): boolean {
  return (words[id >> 5]! & (1 << (id & 31))) !== 0;
}

/**
 * The token that ends the thought which has reached its bound before `position`; undefined: no thought has. Only that
 * token counts as the end: of a model that spells the marker with others, the bound writes it once more.
 */
function endOfThought({ sampling, numPromptTokens, tokens }: BarredSequence, position: number): number | undefined {
  if (sampling.thought === undefined) return undefined;
  const { maxTokens, closeId, opening } = sampling.thought;
  let start = numPromptTokens;
  if (opening !== undefined) {
    while (start < position && opening.blankIds.has(tokens[start]!)) start++;
    if (start >= position || tokens[start] !== opening.id) return undefined;
    start++;
  }
  const said = tokens.subarray(start, position);
  return said.length >= maxTokens && !said.includes(closeId) ? closeId : undefined;
}

/** Does the output before `position` end with all of the word but its last token? */
function endsWith({ tokens, numPromptTokens }: BarredSequence, position: number, word: readonly number[]): boolean {
  const start = position - word.length + 1;
  if (start < numPromptTokens) return false;
  for (let i = 0; i < word.length - 1; i++) if (tokens[start + i] !== word[i]) return false;
  return true;
}
