/** Byte-level BPE (GPT-2's): text is split into words, each word's UTF-8 bytes are merged by ranked pairs. */

import type { GgufMetadata } from "../../formats/gguf/types.js";
import { BpeMerger } from "./bpe-merge.js";
import { alphabetToBytes, bytesToAlphabet, CHAR_BY_BYTE } from "./byte-alphabet.js";
import { type MergePair, MergeTable, parseMerges, type RankOfRepeated } from "./merge-table.js";
import type { PieceEncoder } from "./piece-encoder.js";
import type { PreTokenizer } from "./pre-tokenizer-table.js";
import { findPreTokenizer, splitWords } from "./pre-tokenizers.js";
import { corrupt, parseByteToken, TOKEN_TYPE, type Vocabulary } from "./vocabulary.js";
import { WordCache } from "./word-cache.js";

const UTF8 = new TextEncoder();

export function createByteLevelBpe(metadata: GgufMetadata, vocab: Vocabulary): PieceEncoder {
  const merges = metadata.strings("tokenizer.ggml.merges");
  if (merges === undefined) throw corrupt("expected tokenizer.ggml.merges to list the merges, got none");
  const pairs = parseMerges(merges, "tokenizer.ggml.merges");
  return new ByteLevelBpe(vocab, pairs, findPreTokenizer(metadata.string("tokenizer.ggml.pre")));
}

export class ByteLevelBpe implements PieceEncoder {
  readonly stripsLeadingSpace = false;
  readonly #vocab: Vocabulary;
  readonly #preTokenizer: PreTokenizer;
  readonly #merger: BpeMerger;
  readonly #cache = new WordCache();
  readonly #encodeWord = (word: string): readonly number[] => this.#mergeWord(word);
  /** -1 if the vocabulary has no token for a byte (trained vocabularies may lack bytes that UTF-8 never uses). */
  readonly #idByByte: Int32Array;
  readonly #maxWordChars: number;

  constructor(
    vocab: Vocabulary,
    merges: readonly MergePair[],
    preTokenizer: PreTokenizer,
    repeated: RankOfRepeated = "first",
  ) {
    this.#vocab = vocab;
    this.#preTokenizer = preTokenizer;
    this.#merger = new BpeMerger(new MergeTable(vocab.idByText, merges, repeated));
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
    // The converter wrote a token with a character outside the alphabet as plain text.
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
