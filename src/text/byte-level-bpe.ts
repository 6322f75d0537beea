/** Byte-level BPE (GPT-2's): text is split into words, each word's UTF-8 bytes are merged by ranked pairs. */

import type { GgufMetadata } from "../formats/gguf/types.js";
import { BpeMerger, type MergeRules } from "./bpe-merge.js";
import { alphabetToBytes, bytesToAlphabet, CHAR_BY_BYTE } from "./byte-alphabet.js";
import type { PieceEncoder } from "./piece-encoder.js";
import type { PreTokenizer } from "./pre-tokenizer-table.js";
import { findPreTokenizer, splitWords } from "./pre-tokenizers.js";
import { corrupt, MAX_VOCAB_SIZE, parseByteToken, TOKEN_TYPE, type Vocabulary } from "./vocabulary.js";
import { WordCache } from "./word-cache.js";

const UTF8 = new TextEncoder();

export function createByteLevelBpe(metadata: GgufMetadata, vocab: Vocabulary): PieceEncoder {
  const merges = metadata.strings("tokenizer.ggml.merges");
  if (merges === undefined) throw corrupt("expected tokenizer.ggml.merges to list the merges, got none");
  return new ByteLevelBpe(vocab, merges, findPreTokenizer(metadata.string("tokenizer.ggml.pre")));
}

export class ByteLevelBpe implements PieceEncoder {
  readonly addsSpacePrefix = false;
  readonly #vocab: Vocabulary;
  readonly #preTokenizer: PreTokenizer;
  readonly #merger: BpeMerger;
  readonly #cache = new WordCache();
  readonly #encodeWord = (word: string): readonly number[] => this.#mergeWord(word);
  /** -1 where the vocabulary has no token for a byte (trained vocabularies may lack those that UTF-8 never uses). */
  readonly #idByByte: Int32Array;
  readonly #maxWordChars: number;

  constructor(vocab: Vocabulary, merges: readonly string[], preTokenizer: PreTokenizer) {
    this.#vocab = vocab;
    this.#preTokenizer = preTokenizer;
    this.#merger = new BpeMerger(new MergeTable(vocab, merges));
    this.#idByByte = Int32Array.from(CHAR_BY_BYTE, (char) => vocab.idByText.get(char) ?? -1);
    this.#maxWordChars = vocab.texts.reduce((longest, text) => Math.max(longest, text.length), 0);
  }

  encode(text: string, out: number[]): void {
    for (const word of splitWords(text, this.#preTokenizer)) this.#cache.append(word, out, this.#encodeWord);
  }

  bytesOf(id: number): Uint8Array {
    const text = this.#vocab.texts[id]!;
    const type = this.#vocab.types[id];
    if (type === TOKEN_TYPE.byte) {
      const byte = parseByteToken(text);
      if (byte !== undefined) return Uint8Array.of(byte);
    }
    // A token with a character outside the alphabet was written in plain text by the converter.
    return (type === TOKEN_TYPE.normal ? alphabetToBytes(text) : undefined) ?? UTF8.encode(text);
  }

  #mergeWord(word: string): readonly number[] {
    const bytes = UTF8.encode(word);
    if (this.#preTokenizer.ignoresMerges && bytes.length <= this.#maxWordChars) {
      const id = this.#vocab.idByText.get(bytesToAlphabet(bytes));
      if (id !== undefined && this.#vocab.types[id] === TOKEN_TYPE.normal) return [id];
    }
    const symbols = new Int32Array(bytes.length);
    for (let i = 0; i < bytes.length; i++) symbols[i] = this.#idByByte[bytes[i]!]!;
    const numSymbols = this.#merger.merge(symbols, symbols.length);
    const ids: number[] = [];
    // Bytes without a token are left out, as llama.cpp and Hugging Face's tokenizers do.
    for (let i = 0; i < numSymbols; i++) if (symbols[i] !== -1) ids.push(symbols[i]!);
    return ids;
  }
}

/** Hash table from a pair of token ids to the merge that joins them; the merge's place in the list is its rank. */
class MergeTable implements MergeRules {
  readonly #left: Int32Array;
  readonly #right: Int32Array;
  readonly #ruleBySlot: Int32Array;
  readonly #resultByRule: Int32Array;
  readonly #mask: number;

  constructor(vocab: Vocabulary, merges: readonly string[]) {
    if (merges.length >= MAX_VOCAB_SIZE)
      throw corrupt(`expected fewer than ${MAX_VOCAB_SIZE} merges, got ${merges.length}`);
    const numSlots = 2 ** Math.ceil(Math.log2(2 * merges.length + 2));
    this.#mask = numSlots - 1;
    this.#left = new Int32Array(numSlots);
    this.#right = new Int32Array(numSlots);
    this.#ruleBySlot = new Int32Array(numSlots).fill(-1);
    this.#resultByRule = new Int32Array(merges.length);
    let numUnknown = 0;
    for (const [rule, merge] of merges.entries()) {
      // The first character may itself be a space in odd vocabularies, hence the search from 1.
      const space = merge.indexOf(" ", 1);
      if (space === -1 || space === merge.length - 1) {
        throw corrupt(
          `expected tokenizer.ggml.merges[${rule}] to be two texts and a space, got ${JSON.stringify(merge)}`,
        );
      }
      const first = merge.slice(0, space);
      const second = merge.slice(space + 1);
      const leftId = vocab.idByText.get(first);
      const rightId = vocab.idByText.get(second);
      const resultId = vocab.idByText.get(first + second);
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

  /** A pair listed twice keeps its first rank. */
  #insert(leftId: number, rightId: number, rule: number, resultId: number): void {
    const slot = this.#slotOf(leftId, rightId);
    if (this.#ruleBySlot[slot] !== -1) return;
    this.#left[slot] = leftId;
    this.#right[slot] = rightId;
    this.#ruleBySlot[slot] = rule;
    this.#resultByRule[rule] = resultId;
  }

  /** The pair's slot, or the empty one where it would go (linear probing; at most half the slots are taken). */
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
