/** Converts a folder's tokenizer to GGUF's metadata, which name a pre-tokenizer instead of describing it. */
import { join } from "node:path";
import { MillraceError } from "../../core/errors.js";
import { type JsonObject, readJsonFile } from "../../formats/files/json.js";
import { arr, bool, str, u32, type WritableValue } from "../../formats/gguf/write.js";
import type { Architecture } from "../../model/description/architectures.js";
import { MAX_TOKENIZER_BYTES, readMerges, readOptional, tokenText } from "../../text/hf/create-tokenizer.js";
import { idsByText, readAddedTokens, readHfVocabulary } from "../../text/hf/vocabulary.js";
import { ByteLevelBpe } from "../../text/tokenizer/byte-level-bpe.js";
import type { MergePair } from "../../text/tokenizer/merge-table.js";
import { PRE_TOKENIZERS } from "../../text/tokenizer/pre-tokenizer-table.js";
import { LONG_PROBE } from "../../text/tokenizer/probes.js";
import { stopIdsByText, takesSpaceAfter } from "../../text/tokenizer/special-tokens.js";
import type { Tokenizer } from "../../text/tokenizer/tokenizer.js";
import { TOKEN_TYPE, type Vocabulary } from "../../text/tokenizer/vocabulary.js";

type Metadata = Record<string, WritableValue>;

/**
 * @param tokenizer the folder's
 * @returns the metadata, with notes on texts that the file's tokenizer splits differently, as in files of llama.cpp's
 *   own converter
 * @throws tokenizer_unsupported, if no named pre-tokenizer splits text like the folder's
 */
export function tokenizerMetadata(
  folder: string,
  tokenizer: Tokenizer,
  architecture: Architecture,
): { readonly metadata: Metadata; readonly notes: readonly string[] } {
  const json = readJsonFile(join(folder, "tokenizer.json"), MAX_TOKENIZER_BYTES);
  const model = json.object("model")!;
  const type = model.string("type") ?? "BPE";
  if (type !== "BPE") {
    throw new MillraceError("tokenizer_unsupported", `expected a tokenizer.json that merges pairs (BPE), got ${type}`, {
      hint: "Serve the folder as it is: only encoders have such tokenizers, and they are not converted.",
    });
  }
  const added = readAddedTokens(json, tokenizer.vocabSize);
  const vocab = readHfVocabulary(model, added, tokenizer.vocabSize);
  const merges = readMerges(model);
  const { bosId, eosId, addsBos, addsEos } = tokenizer;
  const metadata: Metadata = {
    "tokenizer.ggml.tokens": arr("string", vocab.texts),
    "tokenizer.ggml.token_type": arr("i32", vocab.types),
    "tokenizer.ggml.add_bos_token": bool(addsBos),
    "tokenizer.ggml.add_eos_token": bool(addsEos),
  };
  if (bosId !== undefined) metadata["tokenizer.ggml.bos_token_id"] = u32(bosId);
  if (eosId !== undefined) metadata["tokenizer.ggml.eos_token_id"] = u32(eosId);
  const idByText = idsByText(vocab, added);
  const padId = idByText.get(tokenText(readOptional(folder, "tokenizer_config.json"), "pad_token") ?? "");
  if (padId !== undefined) metadata["tokenizer.ggml.padding_token_id"] = u32(padId);
  const isSentencePiece = model.boolean("byte_fallback") === true;
  if (isSentencePiece) {
    // User-defined, as in llama.cpp's converter: such pieces are printed verbatim.
    const isOwn = (id: number) => vocab.types[id] === TOKEN_TYPE.userDefined;
    const texts = vocab.texts.map((text, id) => (isOwn(id) ? text.replaceAll("\u2581", " ") : text));
    metadata["tokenizer.ggml.tokens"] = arr("string", texts);
  }
  for (const [key, id] of turnEnds(tokenizer, { ...vocab, idByText })) {
    metadata[`tokenizer.ggml.${key}_token_id`] = u32(id);
  }
  const own = !isSentencePiece
    ? byteLevel(vocab, merges, tokenizer)
    : architecture === "gemma4" && isOfLines(merges, tokenizer)
      ? lines(model, vocab, merges)
      : sentencePiece(model, vocab, merges, tokenizer);
  return { metadata: { ...metadata, ...own }, notes: differences(json, added, architecture) };
}

/** Texts that end a turn. Without a stated id, llama.cpp uses any stop token with such a text. */
const TURN_ENDS = ["<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<turn|>"] as const;

/**
 * Ids of the tokens that end a turn (`eot`) and a message within it (`eom`). Stop tokens with unknown texts take a
 * remaining key.
 */
function turnEnds({ stopIds, eosId }: Tokenizer, vocab: Vocabulary): readonly (readonly ["eot" | "eom", number])[] {
  const stopOf = (texts: readonly string[]) =>
    texts.map((text) => vocab.idByText.get(text)).find((id) => id !== undefined && stopIds.has(id));
  const known = stopIdsByText(vocab);
  const unknown = [...stopIds].filter((id) => id !== eosId && !known.has(id));
  const ids = { eot: stopOf(TURN_ENDS) ?? unknown.shift(), eom: stopOf(["<|eom_id|>"]) ?? unknown.shift() };
  return (["eot", "eom"] as const).flatMap((key) => (ids[key] === undefined ? [] : [[key, ids[key]] as const]));
}

/** Properties of the tokenizer that GGUF's metadata cannot express. */
function differences(
  json: JsonObject,
  added: ReturnType<typeof readAddedTokens>,
  architecture: Architecture,
): readonly string[] {
  const notes: string[] = [];
  if (JSON.stringify(json.raw.normalizer ?? null).includes('"NFC"')) {
    notes.push("the file's tokenizer does not compose characters (NFC): decomposed accents have other tokens");
  }
  if (json.object("pre_tokenizer")?.string("prepend_scheme") === "first") {
    notes.push("the file's tokenizer puts a space before each stretch of text, not only before the first");
  }
  const isPhi3 = architecture === "phi3";
  if (added.some(({ content, lstrip, rstrip }) => lstrip || rstrip !== (isPhi3 && takesSpaceAfter(content)))) {
    notes.push(
      `the file's special tokens ${isPhi3 ? "take the white space after them" : "leave the white space beside them"}`,
    );
  }
  if (added.some(({ isSingleWord }) => isSingleWord)) {
    notes.push("the file's added tokens are found within words, too");
  }
  return notes;
}

function byteLevel(vocab: Vocabulary, merges: readonly MergePair[], tokenizer: Tokenizer): Metadata {
  return {
    "tokenizer.ggml.model": str("gpt2"),
    "tokenizer.ggml.pre": str(namedPreTokenizer(vocab, merges, tokenizer)),
    "tokenizer.ggml.merges": mergesOf(merges),
  };
}

/** The first pre-tokenizer that splits the probes into the same tokens as the folder's tokenizer. */
function namedPreTokenizer(vocab: Vocabulary, merges: readonly MergePair[], tokenizer: Tokenizer): string {
  const probe = LONG_PROBE;
  const expected = tokenizer.encode(probe, { addSpecial: false, parseSpecial: false });
  for (const [name, preTokenizer] of PRE_TOKENIZERS) {
    const ids: number[] = [];
    new ByteLevelBpe(vocab, merges, preTokenizer).encode(probe, ids);
    if (ids.length === expected.length && ids.every((id, i) => id === expected[i])) return name;
  }
  throw new MillraceError(
    "tokenizer_unsupported",
    "expected a tokenizer.json that splits text as a pre-tokenizer of llama.cpp does, got another",
    { hint: "Convert to a folder instead, which keeps tokenizer.json as it is." },
  );
}

/** Whether Gemma 4's file format can express the tokenization: with BOS in front, and no token across a line's end. */
const isOfLines = (merges: readonly MergePair[], { addsBos, stripsLeadingSpace }: Tokenizer): boolean =>
  addsBos && !stripsLeadingSpace && !merges.some((pair) => /[^\n]\n|\n[^\n]/.test(pair.join("")));

function lines(model: JsonObject, vocab: Vocabulary, merges: readonly MergePair[]): Metadata {
  return {
    "tokenizer.ggml.model": str("gemma4"),
    "tokenizer.ggml.pre": str("gemma4"),
    "tokenizer.ggml.merges": mergesOf(merges),
    "tokenizer.ggml.add_space_prefix": bool(false),
    ...unknownToken(model, vocab),
  };
}

const mergesOf = (merges: readonly MergePair[]): WritableValue =>
  arr(
    "string",
    merges.map((pair) => pair.join(" ")),
  );

/** Type and id of the unknown token. */
function unknownToken(model: JsonObject, vocab: Vocabulary): Metadata {
  const unknown = model.string("unk_token");
  const id = unknown === undefined ? undefined : vocab.idByText.get(unknown);
  if (id === undefined) return { "tokenizer.ggml.token_type": arr("i32", vocab.types) };
  const types = Uint8Array.from(vocab.types);
  types[id] = TOKEN_TYPE.unknown;
  return { "tokenizer.ggml.token_type": arr("i32", types), "tokenizer.ggml.unknown_token_id": u32(id) };
}

/** SentencePiece's scores from the ranks of merges: the token of an earlier merge has the better score. */
function sentencePiece(
  model: JsonObject,
  vocab: Vocabulary,
  merges: readonly MergePair[],
  tokenizer: Tokenizer,
): Metadata {
  const scores = new Float32Array(vocab.texts.length);
  const ranked = new Set<string>();
  for (const [first, second] of merges) ranked.add(first + second);
  [...ranked].forEach((text, rank) => {
    const id = vocab.idByText.get(text);
    if (id !== undefined) scores[id] = -1 - rank;
  });
  // Characters that no merge produces rank after all tokens from merges.
  for (let id = 0; id < scores.length; id++) {
    if (scores[id] === 0 && vocab.types[id] === TOKEN_TYPE.normal) scores[id] = -1 - ranked.size - id;
  }
  return {
    "tokenizer.ggml.model": str("llama"),
    "tokenizer.ggml.pre": str("default"),
    "tokenizer.ggml.scores": arr("f32", scores),
    "tokenizer.ggml.add_space_prefix": bool(tokenizer.stripsLeadingSpace),
    ...unknownToken(model, vocab),
  };
}
