/**
 * Creates the tokenizer of a model folder's tokenizer.json; tokenizer_config.json, generation_config.json and
 * config.json define its special tokens.
 *
 * All added tokens, including those marked `normalized`, are matched in the original text. The result differs only if a
 * normalizer changes a token's own text.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { MillraceError } from "../../core/errors.js";
import { type JsonObject, readJsonFile, shownValue } from "../../formats/files/json.js";
import { ByteLevelBpe } from "../tokenizer/byte-level-bpe.js";
import { CharBpe } from "../tokenizer/char-bpe.js";
import { infillTokensByText } from "../tokenizer/infill-tokens.js";
import type { MergePair } from "../tokenizer/merge-table.js";
import { parseMerges } from "../tokenizer/merge-table.js";
import type { PieceEncoder } from "../tokenizer/piece-encoder.js";
import { harmonyStopIds, matchersOf, stopIdsByText, typesWithStops } from "../tokenizer/special-tokens.js";
import { SubwordTokenizer } from "../tokenizer/subword-tokenizer.js";
import type { Tokenizer } from "../tokenizer/tokenizer.js";
import { Unigram } from "../tokenizer/unigram.js";
import { corrupt, type Vocabulary } from "../tokenizer/vocabulary.js";
import { MOST_MAX_WORD_LENGTH, WordPiece } from "../tokenizer/word-piece.js";
import {
  expressionsOf,
  type Normalize,
  type PreTokenize,
  prependScheme,
  readNormalizer,
  readPreTokenizer,
  refuse,
} from "./pipeline.js";
import { isKnownRegex } from "./regex.js";
import { readTemplates } from "./templates.js";
import { idsByText, readAddedTokens, readHfVocabulary } from "./vocabulary.js";

/** The limit is far above Gemma 3's file of 33 MB. */
export const MAX_TOKENIZER_BYTES = 256 * 1024 * 1024;

/** Unicode's White_Space. */
const SPACES =
  "\t\n\v\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000";

/** @param numEmbeddings rows of the embedding; ids without a name in the tokenizer have no text */
export function createHfTokenizer(folder: string, numEmbeddings: number): Tokenizer {
  const path = join(folder, "tokenizer.json");
  if (!existsSync(path)) {
    throw new MillraceError("tokenizer_unsupported", `expected a tokenizer.json in ${folder}, got none`, {
      hint: "Save the model with a fast tokenizer (transformers: AutoTokenizer.from_pretrained(…).save_pretrained(…)).",
    });
  }
  try {
    return tokenizerOf(folder, readJsonFile(path, MAX_TOKENIZER_BYTES), numEmbeddings);
  } catch (thrown) {
    if (!(thrown instanceof RangeError)) throw thrown;
    throw corrupt(`expected ${path} to have steps within steps a few levels deep, got too many to read`);
  }
}

function tokenizerOf(folder: string, json: JsonObject, numEmbeddings: number): Tokenizer {
  const settings = readOptional(folder, "tokenizer_config.json");
  const model = json.object("model");
  const kind = MODEL_KINDS.find((candidate) => candidate === (model?.string("type") ?? "BPE"));
  if (model === undefined || kind === undefined) throw refuse(model ?? json, "type", MODEL_KINDS.join(", "));
  const added = readAddedTokens(json, numEmbeddings);
  const read = readHfVocabulary(model, added, numEmbeddings);
  const idByText = idsByText(read, added);
  const idOf = (text: string | undefined) => (text === undefined ? undefined : idByText.get(text));
  const eosId = idOf(tokenText(settings, "eos_token"));
  const template = readTemplates(json, idOf, numEmbeddings);
  const bosId = idOf(tokenText(settings, "bos_token")) ?? template.bosId;
  const addedIds = new Map(added.map(({ id, content }) => [content, id] as const));
  const stopIds = readStopIds(folder, { ...read, idByText: addedIds }, eosId);
  const vocab = { ...read, types: typesWithStops(read, stopIds) };
  const matched = added.map(({ id, content }) => [id, content] as const);
  const idsWhere = (term: "lstrip" | "rstrip" | "isSingleWord") =>
    new Set(added.filter((token) => token[term]).map(({ id }) => id));
  return new SubwordTokenizer({
    encoder: createEncoder(json, model, kind, vocab),
    hasOwnExpressions: ["normalizer", "pre_tokenizer"].some((key) =>
      expressionsOf(json.object(key)).some((expression) => !isKnownRegex(expression)),
    ),
    matchers: matchersOf(matched, vocab.types, {
      spaces: SPACES,
      after: idsWhere("rstrip"),
      before: idsWhere("lstrip"),
      singleWords: idsWhere("isSingleWord"),
    }),
    types: vocab.types,
    maxTokenLength:
      kind === "BPE"
        ? vocab.texts.reduce((longest, text) => Math.max(longest, text.length), 1)
        : Number.POSITIVE_INFINITY,
    bosId,
    eosId,
    stopIds,
    infill: infillTokensByText({ idByText: addedIds, types: vocab.types }),
    addsBos: (settings?.boolean("add_bos_token") ?? template.bosId !== undefined) && bosId !== undefined,
    addsEos:
      (settings?.boolean("add_eos_token") ?? template.endId !== undefined) &&
      (eosId !== undefined || template.endId !== undefined),
    endId: template.endId,
    pair: template.pair,
  });
}

export function readOptional(folder: string, name: string): JsonObject | undefined {
  const path = join(folder, name);
  return existsSync(path) ? readJsonFile(path) : undefined;
}

/** A special token's text; the file holds it as a string or as an object with options. */
export function tokenText(settings: JsonObject | undefined, key: string): string | undefined {
  const value = settings?.value(key);
  return typeof value === "object" ? settings!.object(key)!.string("content") : settings?.string(key);
}

const MODEL_KINDS = ["BPE", "WordPiece", "Unigram"] as const;
type ModelKind = (typeof MODEL_KINDS)[number];

function createEncoder(json: JsonObject, model: JsonObject, kind: ModelKind, vocab: Vocabulary): PieceEncoder {
  const normalize = readNormalizer(json.object("normalizer"));
  const preTokenizer = readPreTokenizer(json.object("pre_tokenizer"));
  const { split, isByteLevel } = preTokenizer;
  if (kind !== "BPE" && isByteLevel) throw refuse(json, "pre_tokenizer", `none of bytes beside a ${kind} model`);
  if (kind === "WordPiece") {
    return createWordPiece(model, vocab, normalize, (text, isStart) => (text === "" ? [] : split([text], isStart)));
  }
  const stripsLeadingSpace = readStripsSpace(json.object("decoder"));
  if (kind === "Unigram") {
    return new PipelineEncoder(createUnigram(model, vocab), normalize, split, stripsLeadingSpace);
  }
  for (const key of ["continuing_subword_prefix", "end_of_word_suffix"]) {
    if ((model.string(key) ?? "") !== "") throw refuse(model, key, "empty");
  }
  const merges = readMerges(model);
  if (isByteLevel) {
    const ignoresMerges = model.boolean("ignore_merges") === true;
    const words = new ByteLevelBpe(vocab, merges, { expressions: [], ignoresMerges, addsBos: false }, "last");
    return new PipelineEncoder(words, normalize, split, stripsLeadingSpace);
  }
  if (model.boolean("ignore_merges") === true) throw refuse(model, "ignore_merges", "false where pieces are no bytes");
  const unknown = model.string("unk_token");
  const words = new CharBpe(vocab, merges, {
    hasByteFallback: model.boolean("byte_fallback") === true,
    unknownId: unknown === undefined ? undefined : vocab.idByText.get(unknown),
    fusesUnknown: model.boolean("fuse_unk") === true,
  });
  return new PipelineEncoder(words, normalize, split, stripsLeadingSpace);
}

function createWordPiece(
  model: JsonObject,
  vocab: Vocabulary,
  normalize: Normalize,
  split: (text: string, isStart: boolean) => readonly string[],
): PieceEncoder {
  const prefix = model.string("continuing_subword_prefix") ?? "##";
  const unknown = model.string("unk_token") ?? "[UNK]";
  const unknownId = vocab.idByText.get(unknown);
  if (unknownId === undefined) throw corrupt(`expected the token ${unknown} for unknown words, got none`);
  const maxWordLength = model.number("max_input_chars_per_word") ?? 100;
  if (!(maxWordLength >= 1 && maxWordLength <= MOST_MAX_WORD_LENGTH)) {
    throw refuse(model, "max_input_chars_per_word", `between 1 and ${MOST_MAX_WORD_LENGTH}`);
  }
  const continuing = new Map<string, number>();
  for (const [text, id] of vocab.idByText) {
    if (prefix !== "" && text.startsWith(prefix)) continuing.set(text.slice(prefix.length), id);
  }
  const { texts, idByText: beginning } = vocab;
  return new WordPiece({
    texts,
    beginning,
    continuing: prefix === "" ? beginning : continuing,
    unknownId,
    maxWordLength,
    normalize,
    split,
  });
}

function createUnigram(model: JsonObject, vocab: Vocabulary): Unigram {
  const unknownId = model.number("unk_id");
  if (unknownId === undefined || !Number.isInteger(unknownId) || vocab.texts[unknownId] === undefined) {
    throw corrupt(`expected ${model.nameOf("unk_id")} to be a token, got ${unknownId ?? "none"}`);
  }
  return new Unigram(vocab, { unknownId, hasByteFallback: model.boolean("byte_fallback") === true });
}

/** Normalises text, splits it, and passes the words to the merges. */
class PipelineEncoder implements PieceEncoder {
  constructor(
    private readonly words: {
      encode(word: string, out: number[]): void;
      bytesOf(id: number): Uint8Array;
    },
    private readonly normalize: Normalize,
    private readonly split: PreTokenize,
    readonly stripsLeadingSpace: boolean,
  ) {}

  encode(text: string, out: number[], isStart: boolean): void {
    const normalized = this.normalize(text);
    if (normalized === "") return;
    for (const word of this.split([normalized], isStart)) this.words.encode(word, out);
  }

  bytesOf(id: number): Uint8Array {
    return this.words.bytesOf(id);
  }
}

/** Merges are pairs or, in older files, two texts joined by a space. */
export function readMerges(model: JsonObject): readonly MergePair[] {
  const merges = model.array("merges") ?? [];
  const name = model.nameOf("merges");
  if (merges.every((merge) => typeof merge === "string")) return parseMerges(merges as readonly string[], name);
  const isPair = (merge: unknown): merge is MergePair =>
    Array.isArray(merge) && merge.length === 2 && merge.every((text) => typeof text === "string" && text !== "");
  const wrong = merges.findIndex((merge) => !isPair(merge));
  if (wrong === -1) return merges as readonly MergePair[];
  throw corrupt(`expected ${name}[${wrong}] to be two texts, got ${shownValue(merges[wrong])}`);
}

/**
 * Whether decoding removes a space from the front of a text. Decoders that would change the text in other ways are
 * refused.
 */
function readStripsSpace(decoder: JsonObject | undefined): boolean {
  if (decoder === undefined) return false;
  switch (decoder.string("type")) {
    case "ByteLevel":
    case "ByteFallback":
    case "Fuse":
    case "Replace":
    case "WordPiece":
      return false;
    case "Strip":
      return (decoder.number("start") ?? 0) > 0;
    case "Metaspace":
      return prependScheme(decoder) !== "never";
    case "Sequence":
      return (decoder.objects("decoders") ?? []).map(readStripsSpace).includes(true);
    default:
      throw refuse(decoder, "type", "Sequence, ByteLevel, ByteFallback, Fuse, Replace, Strip or Metaspace");
  }
}

/**
 * End tokens from the configurations, otherwise added tokens known from published models.
 * @param vocab a vocabulary with only the added tokens in `idByText`
 */
function readStopIds(folder: string, vocab: Vocabulary, eosId: number | undefined): Set<number> {
  const config = readOptional(folder, "config.json");
  const stated = [
    ...idsIn(readOptional(folder, "generation_config.json")),
    ...idsIn(config),
    ...idsIn(config?.object("text_config")),
  ];
  const stopIds = stated.length > 0 ? new Set([...stated, ...harmonyStopIds(vocab)]) : stopIdsByText(vocab);
  if (eosId !== undefined) stopIds.add(eosId);
  for (const id of stopIds) {
    if (!Number.isInteger(id) || id < 0 || id >= vocab.texts.length) {
      throw corrupt(`expected eos_token_id in 0..${vocab.texts.length - 1}, got ${id}`);
    }
  }
  return stopIds;
}

function idsIn(json: JsonObject | undefined): readonly number[] {
  const value = json?.value("eos_token_id");
  if (json === undefined || value === undefined) return [];
  return Array.isArray(value) ? json.numbers("eos_token_id")! : [json.number("eos_token_id")!];
}
