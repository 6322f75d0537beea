/**
 * The steps of a tokenizer.json before the merges: normalizers and pre-tokenizers, limited to the kinds that current
 * language models use. Semantics match Hugging Face's tokenizers; any other kind, option or behaviour is refused.
 */
import { MillraceError } from "../../core/errors.js";
import { type JsonObject, shownValue } from "../../formats/files/json.js";
import { bertNormalizer, bertWords, lowercase } from "../tokenizer/bert-text.js";
import { charsmapNormalizer } from "../tokenizer/charsmap.js";
import { PRE_TOKENIZERS } from "../tokenizer/pre-tokenizer-table.js";
import { corrupt, SPACE_MARK } from "../tokenizer/vocabulary.js";
import { literal, translateRegex } from "./regex.js";

export type Normalize = (text: string) => string;

/** Splits pieces further; `isStart`: the first piece is the beginning of the whole text. */
export type PreTokenize = (pieces: readonly string[], isStart: boolean) => readonly string[];

interface PreTokenizer {
  readonly split: PreTokenize;
  /** Whether the merges work on bytes in GPT-2's alphabet. */
  readonly isByteLevel: boolean;
}

const GPT2 = PRE_TOKENIZERS.get("gpt-2")!.expressions[0]!;
const FORMS = ["NFC", "NFD", "NFKC", "NFKD"] as const;
/** Runs of word characters by Rust's regular expressions, and runs of other characters except white space. */
const WHITESPACE_WORDS =
  /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]+|[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}\p{White_Space}]+/gu;
const PUNCTUATION = /[\p{P}$+<=>^`|~]/gu;

export function refuse(json: JsonObject, key: string, expected: string): MillraceError {
  const got = shownValue(json.value(key));
  return new MillraceError("tokenizer_unsupported", `expected ${json.nameOf(key)} to be ${expected}, got ${got}`, {
    hint: "Use a GGUF file of this model, whose tokenizer is described by name.",
  });
}

export function readNormalizer(json: JsonObject | undefined): Normalize {
  if (json === undefined) return (text) => text;
  const type = json.string("type");
  const form = FORMS.find((candidate) => candidate === type);
  if (form !== undefined) return (text) => text.normalize(form);
  if (type === "Sequence") {
    const steps = (json.objects("normalizers") ?? []).map(readNormalizer);
    return (text) => steps.reduce((result, step) => notGrown(text, step(result)), text);
  }
  if (type === "Prepend") {
    const prefix = shortText(json, "prepend");
    return (text) => (text === "" ? "" : prefix + text);
  }
  if (type === "Lowercase") return lowercase;
  if (type === "StripAccents") return (text) => text.replace(/\p{M}/gu, "");
  if (type === "Strip") return readStrip(json);
  if (type === "BertNormalizer") return readBertNormalizer(json);
  if (type === "Precompiled") return readPrecompiled(json);
  if (type === "Replace") {
    const pattern = readPattern(json);
    const content = shortText(json, "content");
    return (text) => text.replace(pattern, () => content);
  }
  const known =
    "Sequence, Prepend, Replace, Lowercase, StripAccents, Strip, BertNormalizer, Precompiled, NFC, NFD, NFKC or NFKD";
  throw refuse(json, "type", known);
}

/** Published models replace a space with one mark; the cost of each match of a text is proportional to this. */
const MAX_INSERTED_LENGTH = 16;

function shortText(json: JsonObject, key: string): string {
  const text = json.string(key) ?? "";
  if (text.length <= MAX_INSERTED_LENGTH) return text;
  throw refuse(json, key, `at most ${MAX_INSERTED_LENGTH} characters`);
}

/**
 * Limits growth, because several steps that each lengthen a text would multiply. Unicode's forms turn one character
 * into at most 18.
 */
function notGrown(text: string, result: string): string {
  if (result.length <= 64 * (text.length + MAX_INSERTED_LENGTH)) return result;
  throw corrupt(
    `expected a normalizer that keeps the length of a text, got ${result.length} of ${text.length} characters`,
  );
}

function readStrip(json: JsonObject): Normalize {
  const left = json.boolean("strip_left") ?? true;
  const right = json.boolean("strip_right") ?? true;
  return (text) => {
    const trimmed = left ? text.replace(/^\p{White_Space}+/u, "") : text;
    return right ? trimmed.replace(/\p{White_Space}+$/u, "") : trimmed;
  };
}

function readBertNormalizer(json: JsonObject): Normalize {
  const lowercases = json.boolean("lowercase") ?? true;
  return bertNormalizer({
    cleansText: json.boolean("clean_text") ?? true,
    separatesIdeographs: json.boolean("handle_chinese_chars") ?? true,
    stripsAccents: json.boolean("strip_accents") ?? lowercases,
    lowercases,
  });
}

/** An empty map leaves text unchanged. */
function readPrecompiled(json: JsonObject): Normalize {
  const encoded = json.string("precompiled_charsmap") ?? "";
  return encoded === "" ? (text) => text : charsmapNormalizer(Buffer.from(encoded, "base64"));
}

export function readPreTokenizer(json: JsonObject | undefined): PreTokenizer {
  if (json === undefined) return { split: (pieces) => pieces, isByteLevel: false };
  switch (json.string("type")) {
    case "Sequence":
      return readSequence(json);
    case "ByteLevel":
      return { split: readByteLevel(json), isByteLevel: true };
    case "Split":
      return { split: readSplit(json), isByteLevel: false };
    case "Digits": {
      const digits = json.boolean("individual_digits") === true ? /\p{N}/gu : /\p{N}+/gu;
      return { split: splitting(digits, "Isolated"), isByteLevel: false };
    }
    case "Punctuation":
      if ((json.string("behavior") ?? "Isolated") !== "Isolated") throw refuse(json, "behavior", "Isolated");
      return { split: splitting(PUNCTUATION, "Isolated"), isByteLevel: false };
    case "Metaspace":
      return { split: readMetaspace(json), isByteLevel: false };
    case "WhitespaceSplit":
      return { split: splitting(/\p{White_Space}/gu, "Removed"), isByteLevel: false };
    case "Whitespace":
      return { split: splitting(WHITESPACE_WORDS, "Kept"), isByteLevel: false };
    case "BertPreTokenizer":
      return { split: (pieces) => pieces.flatMap((piece) => bertWords(piece)), isByteLevel: false };
    default:
      throw refuse(
        json,
        "type",
        "Sequence, ByteLevel, Split, Digits, Punctuation, Metaspace, Whitespace, WhitespaceSplit or BertPreTokenizer",
      );
  }
}

function readByteLevel(json: JsonObject): PreTokenize {
  const split: PreTokenize = json.boolean("use_regex") === false ? (pieces) => pieces : splitting(GPT2, "Isolated");
  if (json.boolean("add_prefix_space") !== true) return split;
  return (pieces, isStart) =>
    split(
      pieces.map((piece) => (piece.startsWith(" ") ? piece : ` ${piece}`)),
      isStart,
    );
}

function readSequence(json: JsonObject): PreTokenizer {
  const parts = (json.objects("pretokenizers") ?? []).map(readPreTokenizer);
  // A step after ByteLevel would see the byte alphabet instead of the text.
  if (parts.slice(0, -1).some((part) => part.isByteLevel)) throw refuse(json, "pretokenizers", "ByteLevel at the end");
  return {
    split: (pieces, isStart) => parts.reduce((result, part) => part.split(result, isStart), pieces),
    isByteLevel: parts.at(-1)?.isByteLevel === true,
  };
}

const BEHAVIORS = ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext"] as const;
type Behavior = (typeof BEHAVIORS)[number] | "Kept";

function readSplit(json: JsonObject): PreTokenize {
  const stated = json.string("behavior");
  const behavior = BEHAVIORS.find((candidate) => candidate === stated);
  if (behavior === undefined) throw refuse(json, "behavior", BEHAVIORS.join(", "));
  const isInverted = json.boolean("invert") === true;
  if (!isInverted) return splitting(readPattern(json), behavior);
  // With `invert`, the gaps between matches are removed or isolated.
  if (behavior === "Removed") return splitting(readPattern(json), "Kept");
  if (behavior === "Isolated") return splitting(readPattern(json), "Isolated");
  throw refuse(json, "behavior", "Isolated or Removed where invert is true");
}

/** The regular expressions of a normalizer or a pre-tokenizer. */
export function expressionsOf(json: JsonObject | undefined): readonly string[] {
  if (json === undefined) return [];
  const steps = [...(json.objects("normalizers") ?? []), ...(json.objects("pretokenizers") ?? [])];
  const expression = json.value("pattern") === undefined ? undefined : json.object("pattern")?.string("Regex");
  return [...(expression === undefined ? [] : [expression]), ...steps.flatMap(expressionsOf)];
}

/** A pattern is a literal text or a regular expression. */
function readPattern(json: JsonObject): RegExp {
  const pattern = json.object("pattern");
  const text = pattern?.string("String");
  if (text !== undefined && text !== "") return new RegExp([...text].map(literal).join(""), "gu");
  const expression = pattern?.string("Regex");
  if (expression !== undefined) return translateRegex(expression);
  throw refuse(json, "pattern", "a String or a Regex");
}

function splitting(expression: RegExp, behavior: Behavior): PreTokenize {
  return (pieces) => {
    const out: string[] = [];
    for (const piece of pieces) splitPiece(piece, expression, behavior, out);
    return out;
  };
}

function splitPiece(piece: string, expression: RegExp, behavior: Behavior, out: string[]): void {
  let from = 0;
  // The match that MergedWithNext moves to the next piece.
  let carried = "";
  for (const match of piece.matchAll(expression)) {
    const gap = carried + piece.slice(from, match.index);
    carried = "";
    from = match.index + match[0].length;
    if (behavior === "MergedWithPrevious") {
      out.push(gap + match[0]);
      continue;
    }
    if (gap !== "" && behavior !== "Kept") out.push(gap);
    if (behavior === "MergedWithNext") carried = match[0];
    else if (match[0] !== "" && behavior !== "Removed") out.push(match[0]);
  }
  const rest = carried + piece.slice(from);
  if (rest !== "" && behavior !== "Kept") out.push(rest);
}

const MARKS = new RegExp(SPACE_MARK, "gu");

/** Replaces spaces with marks, and may put a mark in front of each piece or of the whole text. */
function readMetaspace(json: JsonObject): PreTokenize {
  if ((json.string("replacement") ?? SPACE_MARK) !== SPACE_MARK) throw refuse(json, "replacement", SPACE_MARK);
  const scheme = prependScheme(json);
  const splits = json.boolean("split") ?? true;
  const split = splitting(MARKS, "MergedWithNext");
  return (pieces, isStart) => {
    const marked = pieces.map((piece, index) => {
      const text = piece.replaceAll(" ", SPACE_MARK);
      const isPrefixed = scheme === "always" || (scheme === "first" && isStart && index === 0);
      return isPrefixed && !text.startsWith(SPACE_MARK) ? SPACE_MARK + text : text;
    });
    return splits ? split(marked, isStart) : marked;
  };
}

/** How a Metaspace pre-tokenizer or decoder treats the start of a text. */
export function prependScheme(json: JsonObject): "always" | "first" | "never" {
  const stated = json.string("prepend_scheme");
  if (stated === undefined) return json.boolean("add_prefix_space") === false ? "never" : "always";
  if (stated === "always" || stated === "first" || stated === "never") return stated;
  throw refuse(json, "prepend_scheme", "always, first or never");
}
