/**
 * BPE over characters with ranked merges, for SentencePiece models in tokenizer.json and for GGUF files of Gemma 4;
 * characters without a token become byte tokens.
 */
import type { GgufMetadata } from "../../formats/gguf/types.js";
import { BpeMerger } from "./bpe-merge.js";
import { type MergePair, MergeTable, parseMerges, type RankOfRepeated } from "./merge-table.js";
import type { PieceEncoder } from "./piece-encoder.js";
import { bytesOfPiece, corrupt, parseByteToken, readTokenId, SPACE_MARK, type Vocabulary } from "./vocabulary.js";
import { WordCache } from "./word-cache.js";

const UTF8 = new TextEncoder();

interface CharBpeOptions {
  readonly hasByteFallback: boolean;
  /** The token for characters without their own token; undefined: encoding omits such characters. */
  readonly unknownId: number | undefined;
  /** Whether adjacent unknown characters become a single token. */
  readonly fusesUnknown: boolean;
}

/** The encoder of a GGUF file of Gemma 4. */
export function createLineBpe(metadata: GgufMetadata, vocab: Vocabulary): PieceEncoder {
  const merges = metadata.strings("tokenizer.ggml.merges");
  if (merges === undefined) throw corrupt("expected tokenizer.ggml.merges to list the merges, got none");
  const unknownId = readTokenId(metadata, "tokenizer.ggml.unknown_token_id", vocab);
  return new LineBpe(vocab, parseMerges(merges, "tokenizer.ggml.merges"), unknownId);
}

/** Merges the characters of lines, and those of the line breaks between them, as llama.cpp does for Gemma 4. */
class LineBpe implements PieceEncoder {
  readonly stripsLeadingSpace = false;
  readonly #bpe: CharBpe;

  constructor(
    private readonly vocab: Vocabulary,
    merges: readonly MergePair[],
    unknownId: number | undefined,
  ) {
    const options = { hasByteFallback: true, unknownId, fusesUnknown: true };
    this.#bpe = new CharBpe(vocab, merges, options, "first");
  }

  encode(text: string, out: number[]): void {
    const parts = /[^\n]+|\n+/gu;
    for (let match = parts.exec(text); match !== null; match = parts.exec(text)) {
      const [part] = match;
      // Some numbers of line breaks are tokens that no merges produce.
      const id = part.startsWith("\n") ? this.vocab.idByText.get(part) : undefined;
      if (id === undefined) this.#bpe.encode(part.replaceAll(" ", SPACE_MARK), out);
      else out.push(id);
    }
  }

  bytesOf(id: number): Uint8Array {
    return this.#bpe.bytesOf(id);
  }
}

/** Marks a symbol without a token during merging. */
const NO_TOKEN = -1;

export class CharBpe {
  readonly #vocab: Vocabulary;
  readonly #options: CharBpeOptions;
  readonly #merger: BpeMerger;
  /** Ids of <0x00> … <0xFF>; -1 if the vocabulary lacks the token. */
  readonly #idByByte = new Int32Array(256).fill(NO_TOKEN);
  readonly #cache = new WordCache();
  readonly #encodeWord = (word: string): readonly number[] => this.#mergeWord(word);
  /**
   * No merge contains a space mark after another character, so no merge crosses the start of a word, and words can be
   * encoded alone.
   */
  readonly #splitsAtSpaces: boolean;

  constructor(
    vocab: Vocabulary,
    merges: readonly MergePair[],
    options: CharBpeOptions,
    repeated: RankOfRepeated = "last",
  ) {
    this.#vocab = vocab;
    this.#options = options;
    this.#merger = new BpeMerger(new MergeTable(vocab.idByText, merges, repeated));
    if (options.hasByteFallback) {
      for (const [text, id] of vocab.idByText) {
        const byte = parseByteToken(text);
        if (byte !== undefined) this.#idByByte[byte] = id;
      }
    }
    // Fusing unknown characters into one token may join characters on both sides of a space.
    this.#splitsAtSpaces =
      vocab.idByText.has(SPACE_MARK) && !merges.some((pair) => /[^\u2581]\u2581/u.test(pair.join("")));
  }

  /** Appends the ids of a piece of text whose ends no merge crosses. */
  encode(piece: string, out: number[]): void {
    if (!this.#splitsAtSpaces) {
      for (const id of this.#mergeWord(piece)) out.push(id);
      return;
    }
    const words = /\u2581*[^\u2581]+|\u2581+/gu;
    for (let match = words.exec(piece); match !== null; match = words.exec(piece)) {
      this.#cache.append(match[0], out, this.#encodeWord);
    }
  }

  bytesOf(id: number): Uint8Array {
    return bytesOfPiece(this.#vocab, id);
  }

  #mergeWord(word: string): readonly number[] {
    const { fusesUnknown } = this.#options;
    const symbols: number[] = [];
    let isAfterUnknown = false;
    for (const char of word) {
      const ids = this.#symbolsOf(char);
      const isUnknown = ids === undefined;
      if (!isUnknown) symbols.push(...ids);
      else if (this.#options.unknownId !== undefined && !(fusesUnknown && isAfterUnknown)) {
        symbols.push(this.#options.unknownId);
      }
      isAfterUnknown = isUnknown;
    }
    const merged = Int32Array.from(symbols);
    return [...merged.subarray(0, this.#merger.merge(merged, merged.length))];
  }

  /** The character's token, or the tokens of its bytes if all bytes have one; undefined: the character is unknown. */
  #symbolsOf(char: string): readonly number[] | undefined {
    const id = this.#vocab.idByText.get(char);
    if (id !== undefined) return [id];
    const ids = Array.from(UTF8.encode(char), (byte) => this.#idByByte[byte]!);
    return ids.includes(NO_TOKEN) ? undefined : ids;
  }
}
