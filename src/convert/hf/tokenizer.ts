/**
 * Writes a folder's tokenizer files from a GGUF file's metadata: tokenizer.json and tokenizer_config.json, in the form
 * of Hugging Face's tokenizers.
 */
import { MillraceError } from "../../core/errors.js";
import type { GgufMetadata } from "../../formats/gguf/types.js";
import { onigurumaOf } from "../../text/hf/regex.js";
import { type MergePair, parseMerges } from "../../text/tokenizer/merge-table.js";
import { findPreTokenizer } from "../../text/tokenizer/pre-tokenizers.js";
import { hasPhi3Spacing, takesSpaceAfter } from "../../text/tokenizer/special-tokens.js";
import type { Tokenizer } from "../../text/tokenizer/tokenizer.js";
import { readVocabulary, SPACE_MARK, TOKEN_TYPE, type Vocabulary } from "../../text/tokenizer/vocabulary.js";

type Json = Record<string, unknown>;

interface TokenizerFiles {
  readonly "tokenizer.json": Json;
  readonly "tokenizer_config.json": Json;
}

/**
 * @param tokenizer tokenizer of the metadata
 * @throws tokenizer_unsupported, if tokenizer.json cannot express the file's tokenizer
 */
export function tokenizerFiles(metadata: GgufMetadata, tokenizer: Tokenizer): TokenizerFiles {
  const kind = metadata.string("tokenizer.ggml.model");
  const isSentencePiece = kind === "llama";
  const isOfCharacters = isSentencePiece || kind === "gemma4";
  const vocab = isOfCharacters ? withSpaces(readVocabulary(metadata)) : readVocabulary(metadata);
  const addsSpace = isSentencePiece && (metadata.boolean("tokenizer.ggml.add_space_prefix") ?? true);
  const textOf = (id: number | undefined) => (id === undefined ? undefined : vocab.texts[id]);
  const { bosId, eosId } = tokenizer;
  const json: Json = {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: addedTokens(vocab, tokenizer, isSentencePiece && hasPhi3Spacing(metadata)),
    ...(isOfCharacters ? characterPipeline(addsSpace) : bytePipeline(metadata)),
    ...(isOfCharacters && !isSentencePiece ? { pre_tokenizer: LINES } : {}),
    post_processor: postProcessor(tokenizer, vocab),
    model: isOfCharacters
      ? characterModel(metadata, vocab, isSentencePiece ? mergesByScore(vocab) : statedMerges(metadata))
      : byteModel(metadata, vocab),
  };
  const padId = metadata.number("tokenizer.ggml.padding_token_id");
  const config: Json = {
    tokenizer_class: "PreTrainedTokenizerFast",
    clean_up_tokenization_spaces: false,
    add_bos_token: tokenizer.addsBos,
    add_eos_token: tokenizer.addsEos,
    bos_token: textOf(bosId) ?? null,
    eos_token: textOf(eosId) ?? null,
    pad_token: textOf(padId) ?? null,
  };
  const unknown = textOf(metadata.number("tokenizer.ggml.unknown_token_id"));
  if (unknown !== undefined) config.unk_token = unknown;
  const template = metadata.string("tokenizer.chat_template");
  const toolTemplate = metadata.string("tokenizer.chat_template.tool_use");
  if (template !== undefined) {
    config.chat_template =
      toolTemplate === undefined
        ? template
        : [
            { name: "default", template },
            { name: "tool_use", template: toolTemplate },
          ];
  }
  return { "tokenizer.json": json, "tokenizer_config.json": config };
}

/** User-defined pieces are matched before spaces become marks. */
function withSpaces(vocab: Vocabulary): Vocabulary {
  const isOwn = (id: number) => vocab.types[id] === TOKEN_TYPE.userDefined;
  const texts = vocab.texts.map((text, id) => (isOwn(id) ? text.replaceAll(SPACE_MARK, " ") : text));
  return { ...vocab, texts };
}

/** Tokens that are matched in text before the merges. */
function addedTokens(vocab: Vocabulary, tokenizer: Tokenizer, isPhi3: boolean): readonly Json[] {
  const tokens: Json[] = [];
  vocab.texts.forEach((text, id) => {
    const type = vocab.types[id];
    const isSpecial = type === TOKEN_TYPE.control || type === TOKEN_TYPE.unknown || tokenizer.isSpecial(id);
    if (!isSpecial && type !== TOKEN_TYPE.userDefined) return;
    tokens.push({
      id,
      content: text,
      single_word: false,
      lstrip: false,
      rstrip: isPhi3 && isSpecial && takesSpaceAfter(text),
      normalized: false,
      special: isSpecial,
    });
  });
  return tokens;
}

const byId = (vocab: Vocabulary): Json => Object.fromEntries(vocab.texts.map((text, id) => [text, id]));

const statedMerges = (metadata: GgufMetadata): readonly MergePair[] =>
  parseMerges(metadata.strings("tokenizer.ggml.merges") ?? [], "tokenizer.ggml.merges");

/** Splits text into lines and the line breaks between them, as for files of Gemma 4. */
const LINES: Json = { type: "Split", pattern: { Regex: "\\n+" }, behavior: "Isolated", invert: false };

function byteModel(metadata: GgufMetadata, vocab: Vocabulary): Json {
  return {
    type: "BPE",
    dropout: null,
    unk_token: null,
    continuing_subword_prefix: null,
    end_of_word_suffix: null,
    fuse_unk: false,
    byte_fallback: false,
    ignore_merges: findPreTokenizer(metadata.string("tokenizer.ggml.pre")).ignoresMerges,
    vocab: byId(vocab),
    merges: statedMerges(metadata),
  };
}

function bytePipeline(metadata: GgufMetadata): Json {
  const { expressions } = findPreTokenizer(metadata.string("tokenizer.ggml.pre"));
  const splits = expressions.map(({ source }) => ({
    type: "Split",
    pattern: { Regex: onigurumaOf(source) },
    behavior: "Isolated",
    invert: false,
  }));
  const bytes = { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false };
  return {
    normalizer: null,
    pre_tokenizer: { type: "Sequence", pretokenizers: [...splits, bytes] },
    decoder: bytes,
  };
}

function characterModel(metadata: GgufMetadata, vocab: Vocabulary, merges: readonly MergePair[]): Json {
  const isSentencePiece = metadata.string("tokenizer.ggml.model") === "llama";
  const unknownId = metadata.number("tokenizer.ggml.unknown_token_id") ?? (isSentencePiece ? 0 : undefined);
  return {
    type: "BPE",
    dropout: null,
    unk_token: unknownId === undefined ? null : vocab.texts[unknownId],
    continuing_subword_prefix: null,
    end_of_word_suffix: null,
    fuse_unk: true,
    byte_fallback: true,
    ignore_merges: false,
    vocab: byId(vocab),
    merges,
  };
}

/**
 * SentencePiece joins neighbours whose text is a token, best score first; tokenizer.json lists such pairs. Pairs for
 * the same token are adjacent, in the order of their halves.
 */
function mergesByScore({ texts, types, scores }: Vocabulary): readonly MergePair[] {
  const idByText = new Map<string, number>();
  texts.forEach((text, id) => {
    if (types[id] === TOKEN_TYPE.normal) idByText.set(text, id);
  });
  const ranked = [...idByText].sort(([, a], [, b]) => scores![b]! - scores![a]! || a - b);
  const merges: MergePair[] = [];
  for (const [text] of ranked) {
    const characters = [...text];
    if (characters.length > 1 && characters.some((character) => !idByText.has(character))) throw unspelled(text);
    const halves: { pair: MergePair; left: number; right: number }[] = [];
    for (let cut = 1; cut < characters.length; cut++) {
      const pair: MergePair = [characters.slice(0, cut).join(""), characters.slice(cut).join("")];
      const [left, right] = [idByText.get(pair[0]), idByText.get(pair[1])];
      if (left !== undefined && right !== undefined) halves.push({ pair, left, right });
    }
    halves.sort((a, b) => a.left - b.left || a.right - b.right);
    for (const { pair } of halves) merges.push(pair);
  }
  return merges;
}

/** tokenizer.json only merges tokens; SentencePiece also merges characters without a token. */
function unspelled(text: string): MillraceError {
  const message = `expected each character of a token to be a token too, got ${JSON.stringify(text)} without all of its`;
  return new MillraceError("tokenizer_unsupported", message, {
    hint: "Take tokenizer.json from the model's own repository, or convert to a .gguf file.",
  });
}

function characterPipeline(addsSpace: boolean): Json {
  const replace = { type: "Replace", pattern: { String: " " }, content: SPACE_MARK };
  const prepend = { type: "Prepend", prepend: SPACE_MARK };
  const unmark = { type: "Replace", pattern: { String: SPACE_MARK }, content: " " };
  const strip = { type: "Strip", content: " ", start: 1, stop: 0 };
  return {
    normalizer: { type: "Sequence", normalizers: addsSpace ? [prepend, replace] : [replace] },
    pre_tokenizer: null,
    decoder: {
      type: "Sequence",
      decoders: [unmark, { type: "ByteFallback" }, { type: "Fuse" }, ...(addsSpace ? [strip] : [])],
    },
  };
}

/** Adds BOS before and EOS after a text, as the model requires. */
function postProcessor({ addsBos, addsEos, bosId, eosId }: Tokenizer, { texts }: Vocabulary): Json | null {
  const special = (id: number) => ({ SpecialToken: { id: texts[id], type_id: 0 } });
  const before = addsBos && bosId !== undefined ? [bosId] : [];
  const after = addsEos && eosId !== undefined ? [eosId] : [];
  if (before.length + after.length === 0) return null;
  const around = (name: string) => [
    ...before.map(special),
    { Sequence: { id: name, type_id: 0 } },
    ...after.map(special),
  ];
  return {
    type: "TemplateProcessing",
    single: around("A"),
    pair: [...around("A"), ...around("B")],
    special_tokens: Object.fromEntries(
      [...new Set([...before, ...after])].map((id) => [texts[id]!, { id: texts[id], ids: [id], tokens: [texts[id]] }]),
    ),
  };
}
