/** The tokenizers of encoders in GGUF files: WordPiece (`bert`) and Unigram (`t5`). */
import type { GgufMetadata } from "../../formats/gguf/types.js";
import { bertNormalizer, bertWords } from "./bert-text.js";
import { charsmapNormalizer } from "./charsmap.js";
import type { PieceEncoder } from "./piece-encoder.js";
import type { PairTemplate } from "./tokenizer.js";
import { Unigram } from "./unigram.js";
import { corrupt, readTokenId, SPACE_MARK, TOKEN_TYPE, type Vocabulary } from "./vocabulary.js";
import { WordPiece } from "./word-piece.js";

/** The value of Hugging Face's files, which GGUF files omit. */
const MAX_WORD_LENGTH = 100;

/** Lowercases and drops accents, unless the file says otherwise. */
export function createBertWordPiece(metadata: GgufMetadata, vocab: Vocabulary): PieceEncoder {
  const unknownId = readTokenId(metadata, "tokenizer.ggml.unknown_token_id", vocab) ?? vocab.idByText.get("[UNK]");
  if (unknownId === undefined) throw corrupt("expected tokenizer.ggml.unknown_token_id, got none");
  const beginning = new Map<string, number>();
  const continuing = new Map<string, number>();
  const texts = vocab.texts.map((text) => (text.startsWith(SPACE_MARK) ? text.slice(1) : text));
  for (const [id, text] of vocab.texts.entries()) {
    const isPlain = vocab.types[id] === TOKEN_TYPE.normal || vocab.types[id] === TOKEN_TYPE.userDefined;
    if (isPlain) (text.startsWith(SPACE_MARK) ? beginning : continuing).set(texts[id]!, id);
  }
  const flag = (name: string): boolean | undefined => metadata.boolean(`tokenizer.ggml.normalizer.${name}`);
  const lowercases = flag("lowercase") ?? true;
  return new WordPiece({
    texts,
    beginning,
    continuing,
    unknownId,
    maxWordLength: MAX_WORD_LENGTH,
    normalize: bertNormalizer({
      cleansText: true,
      separatesIdeographs: true,
      stripsAccents: flag("strip_accents") ?? lowercases,
      lowercases,
    }),
    split: bertWords,
  });
}

export function createT5Unigram(metadata: GgufMetadata, vocab: Vocabulary): PieceEncoder {
  const unknownId = readTokenId(metadata, "tokenizer.ggml.unknown_token_id", vocab);
  if (unknownId === undefined) throw corrupt("expected tokenizer.ggml.unknown_token_id, got none");
  const idByText = new Map<string, number>();
  for (const [text, id] of vocab.idByText) {
    const type = vocab.types[id];
    if (type === TOKEN_TYPE.normal || type === TOKEN_TYPE.userDefined || type === TOKEN_TYPE.byte)
      idByText.set(text, id);
  }
  const hasByteFallback = vocab.types.includes(TOKEN_TYPE.byte);
  const words = new Unigram({ ...vocab, idByText }, { unknownId, hasByteFallback });
  const bytes = metadata.numbers("tokenizer.ggml.precompiled_charsmap");
  const normalize = bytes === undefined ? (text: string) => text : charsmapNormalizer(Uint8Array.from(bytes));
  return new MarkedUnigram(words, normalize, {
    addsPrefix: metadata.boolean("tokenizer.ggml.add_space_prefix") ?? true,
    collapsesSpaces: metadata.boolean("tokenizer.ggml.remove_extra_whitespaces") ?? true,
  });
}

/** Each word carries a mark in place of the space before it. */
class MarkedUnigram implements PieceEncoder {
  readonly stripsLeadingSpace: boolean;

  constructor(
    private readonly words: Unigram,
    private readonly normalize: (text: string) => string,
    private readonly options: { readonly addsPrefix: boolean; readonly collapsesSpaces: boolean },
  ) {
    this.stripsLeadingSpace = options.addsPrefix;
  }

  encode(text: string, out: number[]): void {
    let plain = this.normalize(text);
    if (this.options.collapsesSpaces) plain = plain.replace(/ {2,}/g, " ").replace(/^ | $/g, "");
    if (plain === "") return;
    const marked = (this.options.addsPrefix ? ` ${plain}` : plain).replaceAll(" ", SPACE_MARK);
    for (const [word] of marked.matchAll(/\u2581[^\u2581]*|[^\u2581]+/g)) this.words.encode(word, out);
  }

  bytesOf(id: number): Uint8Array {
    return this.words.bytesOf(id);
  }
}

/** The end tokens between two texts: one, or two in RoBERTa's models. */
export function pairTemplate(
  bosId: number | undefined,
  eosId: number | undefined,
  numBetween: 1 | 2,
): PairTemplate | undefined {
  if (bosId === undefined || eosId === undefined) return undefined;
  const between = new Array<number>(numBetween).fill(eosId);
  return { before: [bosId], between, after: [eosId], numBetweenOfFirst: 1 };
}
