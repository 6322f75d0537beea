/** What each token spells, and which end an answer, read from the model's own tokenizer. */
import { readGguf } from "../../formats/gguf/read.js";
import { isHfFolder, readHfFolder } from "../../formats/huggingface/folder.js";
import { createTokenizer } from "../../text/create-tokenizer.js";
import { createHfTokenizer } from "../../text/hf/create-tokenizer.js";

export interface TokenBytes {
  /** Empty for tokens that are no text. */
  readonly bytes: readonly Uint8Array[];
  readonly stopIds: ReadonlySet<number>;
}

export function readTokenBytes(modelPath: string): TokenBytes {
  const tokenizer = isHfFolder(modelPath)
    ? createHfTokenizer(modelPath, readHfFolder(modelPath).numEmbeddings)
    : createTokenizer(readGguf(modelPath).metadata);
  const bytes = Array.from({ length: tokenizer.vocabSize }, (_, id) =>
    tokenizer.isSpecial(id) ? new Uint8Array() : tokenizer.tokenBytes(id),
  );
  return { bytes, stopIds: tokenizer.stopIds };
}
