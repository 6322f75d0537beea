/**
 * Makes the tokenizer that a model folder's tokenizer.json describes; tokenizer_config.json, generation_config.json and
 * config.json describe its special tokens.
 *
 * All added tokens, also those marked `normalized`, are matched in the original text. The result differs only if a normalizer
 * changes a token's own text.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { MillraceError } from "../../core/errors.js";
import { type JsonObject, readJsonFile, shownValue } from "../../formats/files/json.js";
import { ByteLevelBpe } from "../tokenizer/byte-level-bpe.js";
import { infillTokensByText } from "../tokenizer/infill-tokens.js";
import type { MergePair } from "../tokenizer/merge-table.js";
import { parseMerges } from "../tokenizer/merge-table.js";
import type { PieceEncoder } from "../tokenizer/piece-encoder.js";
import { harmonyStopIds, matchersOf, stopIdsByText, typesWithStops } from "../tokenizer/special-tokens.js";
import { SubwordTokenizer } from "../tokenizer/subword-tokenizer.js";
import type { Tokenizer } from "../tokenizer/tokenizer.js";
import { corrupt, type Vocabulary } from "../tokenizer/vocabulary.js";
import { CharBpe } from "./char-bpe.js";
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
  const json = readJsonFile(path, MAX_TOKENIZER_BYTES);
  const settings = readOptional(folder, "tokenizer_config.json");
  const model = json.object("model");
  if (model === undefined || (model.string("type") ?? "BPE") !== "BPE") throw refuse(model ?? json, "type", "BPE");
  for (const key of ["continuing_subword_prefix", "end_of_word_suffix"]) {
    if ((model.string(key) ?? "") !== "") throw refuse(model, key, "empty");
  }
  const added = readAddedTokens(json, numEmbeddings);
  const read = readHfVocabulary(model, added, numEmbeddings);
  const idByText = idsByText(read, added);
  const idOf = (text: string | undefined) => (text === undefined ? undefined : idByText.get(text));
  const eosId = idOf(tokenText(settings, "eos_token"));
  const template = templateOf(json, idOf);
  const bosId = idOf(tokenText(settings, "bos_token")) ?? template.bosId;
  const addedIds = new Map(added.map(({ id, content }) => [content, id] as const));
  const stopIds = readStopIds(folder, { ...read, idByText: addedIds }, eosId);
  const vocab = { ...read, types: typesWithStops(read, stopIds) };
  const matched = added.map(({ id, content }) => [id, content] as const);
  const idsWhere = (strips: "lstrip" | "rstrip") => new Set(added.filter((token) => token[strips]).map(({ id }) => id));
  return new SubwordTokenizer({
    encoder: createEncoder(json, model, vocab),
    hasOwnExpressions: ["normalizer", "pre_tokenizer"].some((key) =>
      expressionsOf(json.object(key)).some((expression) => !isKnownRegex(expression)),
    ),
    matchers: matchersOf(matched, vocab.types, {
      spaces: SPACES,
      after: idsWhere("rstrip"),
      before: idsWhere("lstrip"),
    }),
    types: vocab.types,
    maxTokenLength: vocab.texts.reduce((longest, text) => Math.max(longest, text.length), 1),
    bosId,
    eosId,
    stopIds,
    infill: infillTokensByText({ idByText: addedIds, types: vocab.types }),
    addsBos: (settings?.boolean("add_bos_token") ?? template.bosId !== undefined) && bosId !== undefined,
    addsEos: (settings?.boolean("add_eos_token") ?? template.addsEos) && eosId !== undefined,
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

function createEncoder(json: JsonObject, model: JsonObject, vocab: Vocabulary): PieceEncoder {
  const merges = readMerges(model);
  const normalize = readNormalizer(json.object("normalizer"));
  const { split, isByteLevel } = readPreTokenizer(json.object("pre_tokenizer"));
  const stripsLeadingSpace = readStripsSpace(json.object("decoder"));
  if (isByteLevel) {
    const ignoresMerges = model.boolean("ignore_merges") === true;
    const words = new ByteLevelBpe(vocab, merges, { expressions: [], ignoresMerges, addsBos: false });
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

/** Normalises, splits, and hands the words to the merges. */
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

/** Whether decoding removes a space from the front of a text. Decoders that would change the text in other ways are refused. */
function readStripsSpace(decoder: JsonObject | undefined): boolean {
  if (decoder === undefined) return false;
  switch (decoder.string("type")) {
    case "ByteLevel":
    case "ByteFallback":
    case "Fuse":
    case "Replace":
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

/** Tokens that the post-processor puts around a single text; at most one on each side is supported. */
function templateOf(
  json: JsonObject,
  idOf: (text: string | undefined) => number | undefined,
): { readonly bosId: number | undefined; readonly addsEos: boolean } {
  const none = { bosId: undefined, addsEos: false };
  const post = json.object("post_processor");
  const parts = post?.string("type") === "Sequence" ? (post.objects("processors") ?? []) : post ? [post] : [];
  const template = parts.find((part) => part.string("type") === "TemplateProcessing");
  if (template === undefined) return none;
  const items = template.objects("single") ?? [];
  const textAt = items.findIndex((item) => item.has("Sequence"));
  const tokens = (from: number, to: number) =>
    items.slice(from, to).map((item) => item.object("SpecialToken")?.string("id"));
  const before = tokens(0, textAt);
  const after = tokens(textAt + 1, items.length);
  if (textAt === -1 || before.length > 1 || after.length > 1) {
    throw refuse(template, "single", "a text with at most one token before and after it");
  }
  return { bosId: idOf(before[0]), addsEos: after.length === 1 };
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
