/**
 * Reads and checks the vocabulary in a GGUF file's metadata: token texts, types, scores and the ids of special tokens.
 */

import { MillraceError } from "../../core/errors.js";
import type { GgufMetadata } from "../../formats/gguf/types.js";

/** `tokenizer.ggml.token_type`, as llama.cpp numbers them. */
export const TOKEN_TYPE = { normal: 1, unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 } as const;

/** Merge priorities pack a rank and a position into one double; both must stay below this. */
export const MAX_VOCAB_SIZE = 1 << 21;

export interface Vocabulary {
  readonly texts: readonly string[];
  /** One of `TOKEN_TYPE` per id. */
  readonly types: Uint8Array;
  readonly idByText: ReadonlyMap<string, number>;
  /** Scores per id; undefined if the file has none. */
  readonly scores: ArrayLike<number> | undefined;
}

export function corrupt(message: string): MillraceError {
  return new MillraceError("tokenizer_corrupt", message, {
    hint: "The file's tokenizer metadata is damaged or was written by a broken converter; download or convert the model again.",
  });
}

export function readVocabulary(metadata: GgufMetadata): Vocabulary {
  const raw = metadata.strings("tokenizer.ggml.tokens");
  if (raw === undefined || raw.length === 0)
    throw corrupt("expected tokenizer.ggml.tokens to list the tokens, got none");
  if (raw.length >= MAX_VOCAB_SIZE) throw corrupt(`expected fewer than ${MAX_VOCAB_SIZE} tokens, got ${raw.length}`);
  // Empty texts get a distinct name, so that every id has a distinct text.
  const texts = raw.map((text, id) => (text === "" ? `[EMPTY_${id}]` : text));
  const idByText = new Map<string, number>();
  for (const [id, text] of texts.entries()) {
    const earlierId = idByText.get(text);
    if (earlierId !== undefined) {
      throw corrupt(`expected distinct token texts, got ${JSON.stringify(text)} for both ${earlierId} and ${id}`);
    }
    idByText.set(text, id);
  }
  return { texts, types: readTypes(metadata, texts.length), idByText, scores: readScores(metadata, texts.length) };
}

function readTypes(metadata: GgufMetadata, numTokens: number): Uint8Array {
  const values = metadata.numbers("tokenizer.ggml.token_type");
  const types = new Uint8Array(numTokens).fill(TOKEN_TYPE.normal);
  if (values === undefined) return types;
  checkLength("tokenizer.ggml.token_type", values.length, numTokens);
  for (let id = 0; id < numTokens; id++) {
    const type = values[id]!;
    // Type 0 means "undefined": such a token has no text, like an unused one.
    if (!Number.isInteger(type) || type < 0 || type > TOKEN_TYPE.byte) {
      throw corrupt(`expected tokenizer.ggml.token_type in 0..6, got ${type} for token ${id}`);
    }
    types[id] = type === 0 ? TOKEN_TYPE.unused : type;
  }
  return types;
}

function readScores(metadata: GgufMetadata, numTokens: number): ArrayLike<number> | undefined {
  const scores = metadata.numbers("tokenizer.ggml.scores");
  if (scores === undefined) return undefined;
  checkLength("tokenizer.ggml.scores", scores.length, numTokens);
  for (let id = 0; id < numTokens; id++) {
    if (Number.isNaN(scores[id]))
      throw corrupt(`expected tokenizer.ggml.scores to be numbers, got NaN for token ${id}`);
  }
  return scores;
}

function checkLength(key: string, length: number, numTokens: number): void {
  if (length !== numTokens) throw corrupt(`expected ${key} to have ${numTokens} entries, got ${length}`);
}

/** A token id in the metadata; undefined if the key is absent. */
export function readTokenId(metadata: GgufMetadata, key: string, vocab: Vocabulary): number | undefined {
  const id = metadata.number(key);
  if (id === undefined) return undefined;
  if (!Number.isInteger(id) || id < 0 || id >= vocab.texts.length) {
    throw corrupt(`expected ${key} in 0..${vocab.texts.length - 1}, got ${id}`);
  }
  return id;
}

/** The byte of a byte token (`<0x0A>`); undefined if the text has another form. */
export function parseByteToken(text: string): number | undefined {
  const match = /^<0x([0-9A-Fa-f]{2})>$/.exec(text);
  return match === null ? undefined : Number.parseInt(match[1]!, 16);
}

/** U+2581, which stands for a space in SentencePiece's vocabularies. */
export const SPACE_MARK = "\u2581";

const UTF8 = new TextEncoder();

/** The bytes of a token of a SentencePiece vocabulary: its own byte, or its text with spaces in place of marks. */
export function bytesOfPiece({ texts, types }: Vocabulary, id: number): Uint8Array {
  const text = texts[id]!;
  const type = types[id];
  const byte = type === TOKEN_TYPE.byte ? parseByteToken(text) : undefined;
  if (byte !== undefined) return Uint8Array.of(byte);
  const isPlain = type === TOKEN_TYPE.normal || type === TOKEN_TYPE.userDefined;
  return UTF8.encode(isPlain ? text.replaceAll(SPACE_MARK, " ") : text);
}
