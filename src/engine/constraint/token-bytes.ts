/** The bytes of each token as grammars read them, and the tokens that end an answer, from the model's own tokenizer. */
import { readGguf } from "../../formats/gguf/read.js";
import { isHfFolder, readHfFolder } from "../../formats/hf/folder.js";
import { SPECIAL_BYTE } from "../../text/grammar/markers.js";
import { createHfTokenizer } from "../../text/hf/create-tokenizer.js";
import { createTokenizer } from "../../text/tokenizer/create-tokenizer.js";
import type { Tokenizer } from "../../text/tokenizer/tokenizer.js";

export interface TokenBytes {
  /**
   * Bytes of each token; special tokens have SPECIAL_BYTE in front. Empty for tokens that no grammar accepts: end
   * tokens and tokens without text.
   */
  readonly bytes: readonly Uint8Array[];
  readonly stopIds: ReadonlySet<number>;
}

const NO_BYTES = new Uint8Array();

export function readTokenBytes(modelPath: string): TokenBytes {
  const tokenizer = isHfFolder(modelPath)
    ? createHfTokenizer(modelPath, readHfFolder(modelPath).numEmbeddings)
    : createTokenizer(readGguf(modelPath).metadata);
  const bytes = Array.from({ length: tokenizer.vocabSize }, (_, id) => grammarBytes(tokenizer, id));
  return { bytes, stopIds: tokenizer.stopIds };
}

function grammarBytes(tokenizer: Tokenizer, id: number): Uint8Array {
  if (tokenizer.stopIds.has(id)) return NO_BYTES;
  const bytes = tokenizer.tokenBytes(id);
  if (tokenizer.isSpecial(id)) return Uint8Array.of(SPECIAL_BYTE, ...bytes);
  return bytes.includes(SPECIAL_BYTE) ? NO_BYTES : bytes;
}
