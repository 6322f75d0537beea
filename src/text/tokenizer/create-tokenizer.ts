/** Creates the tokenizer that a GGUF file's metadata describes. */

import { MillraceError } from "../../core/errors.js";
import type { GgufMetadata } from "../../formats/gguf/types.js";
import { createByteLevelBpe } from "./byte-level-bpe.js";
import { createLineBpe } from "./char-bpe.js";
import { createBertWordPiece, createT5Unigram, pairTemplate } from "./encoder-tokenizers.js";
import { findInfillTokens } from "./infill-tokens.js";
import type { PieceEncoder } from "./piece-encoder.js";
import { findPreTokenizer } from "./pre-tokenizers.js";
import { createSentencePieceBpe } from "./sentencepiece-bpe.js";
import { createSpecialMatchers, findStopIds, hasPhi3Spacing, typesWithStops } from "./special-tokens.js";
import { SubwordTokenizer } from "./subword-tokenizer.js";
import type { Tokenizer } from "./tokenizer.js";
import { corrupt, readTokenId, readVocabulary, TOKEN_TYPE, type Vocabulary } from "./vocabulary.js";

interface ModelKind {
  readonly createEncoder: (metadata: GgufMetadata, vocab: Vocabulary) => PieceEncoder;
  /** Used if the metadata does not say whether to add BOS. */
  readonly addsBosByDefault: (metadata: GgufMetadata) => boolean;
  /** Adds BOS whatever the metadata say, as llama.cpp does: early files of such models deny it. */
  readonly alwaysAddsBos?: true;
  /** Whether U+2581 in the text of a user-defined piece means a space. */
  readonly marksSpaces?: true;
  readonly defaultBosId: number | undefined;
  readonly defaultEosId: number | undefined;
  /** For encoders: number of end tokens between two texts. Texts have end tokens unless the metadata say otherwise. */
  readonly numBetween?: 1 | 2;
}

/** Kinds by `tokenizer.ggml.model`. */
const KINDS: ReadonlyMap<string, ModelKind> = new Map<string, ModelKind>([
  [
    "llama",
    {
      createEncoder: createSentencePieceBpe,
      addsBosByDefault: () => true,
      marksSpaces: true,
      defaultBosId: 1,
      defaultEosId: 2,
    },
  ],
  [
    "gemma4",
    {
      createEncoder: createLineBpe,
      addsBosByDefault: () => true,
      alwaysAddsBos: true,
      marksSpaces: true,
      defaultBosId: undefined,
      defaultEosId: undefined,
    },
  ],
  [
    "gpt2",
    {
      createEncoder: createByteLevelBpe,
      addsBosByDefault: (metadata) => findPreTokenizer(metadata.string("tokenizer.ggml.pre")).addsBos,
      defaultBosId: undefined,
      defaultEosId: undefined,
    },
  ],
  [
    "bert",
    {
      createEncoder: createBertWordPiece,
      addsBosByDefault: () => true,
      defaultBosId: undefined,
      defaultEosId: undefined,
      numBetween: 1,
    },
  ],
  [
    "t5",
    {
      createEncoder: createT5Unigram,
      addsBosByDefault: () => true,
      defaultBosId: undefined,
      defaultEosId: undefined,
      numBetween: 2,
    },
  ],
]);

/** @example const tokenizer = createTokenizer((await readGguf("model.gguf")).metadata); */
export function createTokenizer(metadata: GgufMetadata): Tokenizer {
  const kind = findKind(metadata);
  const read = readVocabulary(metadata);
  const withinVocab = (id: number | undefined): number | undefined =>
    id !== undefined && id < read.texts.length ? id : undefined;
  const stated = (names: readonly string[]): number | undefined =>
    names.map((name) => readTokenId(metadata, `tokenizer.ggml.${name}_token_id`, read)).find((id) => id !== undefined);
  const isOfEncoder = kind.numBetween !== undefined;
  // Files of type BERT name the first token CLS and the last one SEP; most misspell the second name.
  const bosId = stated(isOfEncoder ? ["cls", "bos"] : ["bos"]) ?? withinVocab(kind.defaultBosId);
  const eosId = stated(isOfEncoder ? ["seperator", "separator", "eos"] : ["eos"]) ?? withinVocab(kind.defaultEosId);
  const stopIds = findStopIds(metadata, read, eosId);
  const vocab = { ...read, types: typesWithStops(read, stopIds) };
  const encoder = kind.createEncoder(metadata, vocab);
  const isSentencePiece = kind.createEncoder === createSentencePieceBpe;
  const { marksSpaces = false, alwaysAddsBos = false } = kind;
  // User-defined pieces are matched before spaces become U+2581, so a mark in their text means a space.
  const textOf = (id: number): string => {
    const text = vocab.texts[id]!;
    return marksSpaces && vocab.types[id] === TOKEN_TYPE.userDefined ? text.replaceAll("\u2581", " ") : text;
  };
  return new SubwordTokenizer({
    encoder,
    matchers: createSpecialMatchers(vocab.types, textOf, isSentencePiece && hasPhi3Spacing(metadata)),
    types: vocab.types,
    // Lengths are those of the vocabulary's spelling, which has one unit per byte or per character and so is never
    // shorter than the text.
    maxTokenLength: isOfEncoder
      ? Number.POSITIVE_INFINITY
      : vocab.texts.reduce((longest, text) => Math.max(longest, text.length), 1),
    bosId,
    eosId,
    stopIds,
    infill: findInfillTokens(metadata, vocab),
    addsBos:
      readAddsToken(metadata, "bos", bosId, kind.addsBosByDefault(metadata)) || (alwaysAddsBos && bosId !== undefined),
    addsEos: readAddsToken(metadata, "eos", eosId, isOfEncoder),
    pair: kind.numBetween && pairTemplate(bosId, eosId, kind.numBetween),
  });
}

function findKind(metadata: GgufMetadata): ModelKind {
  const model = metadata.string("tokenizer.ggml.model");
  const kind = model === undefined ? undefined : KINDS.get(model);
  if (kind !== undefined) return kind;
  const supported = [...KINDS.keys()].join(", ");
  throw new MillraceError(
    "tokenizer_unsupported",
    `expected tokenizer.ggml.model to be one of ${supported}, got ${model === undefined ? "nothing" : JSON.stringify(model)}`,
    {
      hint: "Use a model with a SentencePiece-BPE (llama), character BPE (gemma4), byte-level BPE (gpt2), WordPiece (bert) or Unigram (t5) tokenizer.",
    },
  );
}

function readAddsToken(metadata: GgufMetadata, name: string, id: number | undefined, byDefault: boolean): boolean {
  const isAsked = metadata.boolean(`tokenizer.ggml.add_${name}_token`);
  if (isAsked === true && id === undefined) {
    throw corrupt(
      `expected tokenizer.ggml.${name}_token_id, because tokenizer.ggml.add_${name}_token is true, got nothing`,
    );
  }
  return (isAsked ?? byDefault) && id !== undefined;
}
