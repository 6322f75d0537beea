/**
 * SentencePiece BPE: neighbours whose joined text is a token are merged, best score first; characters without a token
 * become byte tokens.
 */

import type { GgufMetadata } from "../../formats/gguf/types.js";
import { BpeMerger, type MergeRules } from "./bpe-merge.js";
import type { PieceEncoder } from "./piece-encoder.js";
import {
  bytesOfPiece,
  corrupt,
  parseByteToken,
  readTokenId,
  SPACE_MARK,
  TOKEN_TYPE,
  type Vocabulary,
} from "./vocabulary.js";
import { WordCache } from "./word-cache.js";

const UTF8 = new TextEncoder();

export function createSentencePieceBpe(metadata: GgufMetadata, vocab: Vocabulary): PieceEncoder {
  if (vocab.scores === undefined) throw corrupt("expected tokenizer.ggml.scores to list the scores, got none");
  const unknownId = readTokenId(metadata, "tokenizer.ggml.unknown_token_id", vocab);
  const addsSpacePrefix = metadata.boolean("tokenizer.ggml.add_space_prefix") ?? true;
  return new SentencePieceBpe(vocab, vocab.scores, { addsSpacePrefix, unknownId: unknownId ?? 0 });
}

class SentencePieceBpe implements PieceEncoder {
  readonly stripsLeadingSpace: boolean;
  readonly #vocab: Vocabulary;
  readonly #pieceIds: ReadonlyMap<string, number>;
  readonly #merger: BpeMerger;
  readonly #idByByte: Int32Array;
  readonly #cache = new WordCache();
  readonly #encodeWord = (word: string): readonly number[] => this.#mergeWord(word);
  /**
   * No token has a space mark after another character, so no merge crosses the start of a word, and words can be
   * encoded alone.
   */
  readonly #splitsAtSpaces: boolean;

  constructor(
    vocab: Vocabulary,
    scores: ArrayLike<number>,
    options: { readonly addsSpacePrefix: boolean; readonly unknownId: number },
  ) {
    this.#vocab = vocab;
    this.stripsLeadingSpace = options.addsSpacePrefix;
    const pieceIds = new Map<string, number>();
    this.#idByByte = new Int32Array(256).fill(options.unknownId);
    for (const [id, text] of vocab.texts.entries()) {
      const type = vocab.types[id];
      // Control, unknown, unused and byte tokens cannot be spelled out in plain text.
      if (type === TOKEN_TYPE.normal || type === TOKEN_TYPE.userDefined) pieceIds.set(text, id);
      if (type !== TOKEN_TYPE.byte) continue;
      const byte = parseByteToken(text);
      if (byte === undefined)
        throw corrupt(`expected byte token ${id} to read <0x00> to <0xFF>, got ${JSON.stringify(text)}`);
      this.#idByByte[byte] = id;
    }
    this.#pieceIds = pieceIds;
    this.#splitsAtSpaces = ![...pieceIds.keys()].some((text) => /[^\u2581]\u2581/u.test(text));
    this.#merger = new BpeMerger(new ScoreRules(vocab, pieceIds, scores));
  }

  /** Each stretch of plain text counts as a separate text, so each gets the space prefix (as in llama.cpp). */
  encode(text: string, out: number[]): void {
    const marked = (this.stripsLeadingSpace ? ` ${text}` : text).replaceAll(" ", SPACE_MARK);
    if (!this.#splitsAtSpaces) {
      for (const id of this.#mergeWord(marked)) out.push(id);
      return;
    }
    const words = /\u2581*[^\u2581]+|\u2581+/gu;
    for (let match = words.exec(marked); match !== null; match = words.exec(marked)) {
      this.#cache.append(match[0], out, this.#encodeWord);
    }
  }

  bytesOf(id: number): Uint8Array {
    return bytesOfPiece(this.#vocab, id);
  }

  #mergeWord(word: string): readonly number[] {
    const { texts } = this.#vocab;
    const symbols = new Int32Array(word.length);
    let numSymbols = 0;
    for (const char of word) symbols[numSymbols++] = this.#pieceIds.get(char) ?? texts.length + char.codePointAt(0)!;
    numSymbols = this.#merger.merge(symbols, numSymbols);
    const ids: number[] = [];
    for (let i = 0; i < numSymbols; i++) {
      const symbol = symbols[i]!;
      if (symbol < texts.length) ids.push(symbol);
      else for (const byte of UTF8.encode(String.fromCodePoint(symbol - texts.length))) ids.push(this.#idByByte[byte]!);
    }
    return ids;
  }
}

/**
 * Rules by text: two symbols merge if their concatenation is a token. Symbols are token ids or, for a character that is
 * no token, the vocabulary's size plus the code point. A rule is the resulting token's id.
 */
class ScoreRules implements MergeRules {
  readonly #texts: readonly string[];
  readonly #pieceIds: ReadonlyMap<string, number>;
  /** The rank of each id: 0 for the best score, equal for equal scores. */
  readonly #rankById: Int32Array;
  readonly #maxTextLength: number;
  readonly #ruleByPair = new Map<number, number>();

  /** Symbols are below the vocabulary's size plus 0x110000, hence below 2^22. */
  static readonly #PAIR_STRIDE = 2 ** 22;
  static readonly #MAX_PAIRS = 1 << 18;

  constructor(vocab: Vocabulary, pieceIds: ReadonlyMap<string, number>, scores: ArrayLike<number>) {
    this.#texts = vocab.texts;
    this.#pieceIds = pieceIds;
    this.#rankById = rankByScore(scores);
    this.#maxTextLength = vocab.texts.reduce((longest, text) => Math.max(longest, text.length), 0);
  }

  find(leftSymbol: number, rightSymbol: number): number {
    const pair = leftSymbol * ScoreRules.#PAIR_STRIDE + rightSymbol;
    const known = this.#ruleByPair.get(pair);
    if (known !== undefined) return known;
    const left = this.#textOf(leftSymbol);
    const right = this.#textOf(rightSymbol);
    const isShort = left.length + right.length <= this.#maxTextLength;
    const rule = (isShort ? this.#pieceIds.get(left + right) : undefined) ?? -1;
    if (this.#ruleByPair.size >= ScoreRules.#MAX_PAIRS) this.#ruleByPair.clear();
    this.#ruleByPair.set(pair, rule);
    return rule;
  }

  rank(rule: number): number {
    return this.#rankById[rule]!;
  }

  result(rule: number): number {
    return rule;
  }

  #textOf(symbol: number): string {
    return symbol < this.#texts.length ? this.#texts[symbol]! : String.fromCodePoint(symbol - this.#texts.length);
  }
}

function rankByScore(scores: ArrayLike<number>): Int32Array {
  const best = Float64Array.from(scores).sort().reverse();
  const rankByValue = new Map<number, number>();
  for (const score of best) if (!rankByValue.has(score)) rankByValue.set(score, rankByValue.size);
  return Int32Array.from(scores, (score) => rankByValue.get(score)!);
}
