/** The files that a model's tokenizer is read from: a GGUF file, or a folder with a tokenizer.json. */
import { statSync } from "node:fs";
import { join } from "node:path";
import { MillraceError } from "../core/errors.js";
import { readGguf } from "../formats/gguf/read.js";
import { isHfFolder, readHfFolder } from "../formats/hf/folder.js";
import { createHfTokenizer } from "./hf/create-tokenizer.js";
import { createTokenizer } from "./tokenizer/create-tokenizer.js";
import type { Tokenizer } from "./tokenizer/tokenizer.js";

export interface TokenizerSource {
  /** Path of a file or folder. */
  readonly path: string;
  /** Identifies the files by inode and size, so that replaced files have another state. */
  readonly state: string;
}

const FOLDER_FILES = ["tokenizer.json", "tokenizer_config.json", "generation_config.json", "config.json"];

/** @param path a model's file or folder */
export function tokenizerSource(path: string): TokenizerSource {
  const files = isHfFolder(path) ? FOLDER_FILES.map((name) => join(path, name)) : [path];
  const states = files.map((file) => {
    const stat = statSync(file, { throwIfNoEntry: false });
    return stat === undefined ? "none" : `${stat.dev}:${stat.ino}:${stat.size}`;
  });
  return { path, state: states.join(" ") };
}

/** Loads the tokenizer from the files that `source` identifies. Throws `model_file_changed` if they were replaced. */
export function loadTokenizer(source: TokenizerSource): Tokenizer {
  const { path, state } = source;
  const tokenizer = isHfFolder(path)
    ? createHfTokenizer(path, readHfFolder(path).numEmbeddings)
    : createTokenizer(readGguf(path).metadata);
  if (tokenizerSource(path).state === state) return tokenizer;
  throw new MillraceError("model_file_changed", `expected ${path} as it was when the server started, got another file`);
}
