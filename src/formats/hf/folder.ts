/** A model folder as the Hugging Face hub has it: config.json beside safetensors files. */
import { existsSync, readdirSync, statSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { MillraceError } from "../../core/errors.js";
import { type JsonObject, readJsonFile } from "../files/json.js";
import { INDEX_NAME, readSafetensors, SINGLE_NAME, shardNamesOfIndex } from "../safetensors/read.js";
import type { SafetensorsFiles } from "../safetensors/types.js";

export const CONFIG_NAME = "config.json";
/** Where transformers writes a template for conversations with tools. */
export const TOOL_TEMPLATE_NAME = "additional_chat_templates/tool_use.jinja";

export interface HfFolder {
  readonly path: string;
  /** The folder's own name. */
  readonly name: string;
  readonly config: JsonObject;
  readonly files: SafetensorsFiles;
  /** Where the language model's tensors lie in `files`. */
  readonly prefix: string;
  /** The embedding matrix in `files`. */
  readonly embeddingName: string;
  /** Rows of the embedding matrix: the model's vocabulary. */
  readonly numEmbeddings: number;
}

/**
 * Prefixes of the language model's tensors: in text-only checkpoints, in two generations of multimodal ones and in
 * SmolVLM's, in embedding models.
 */
const PREFIXES = ["model.", "language_model.model.", "model.language_model.", "model.text_model.", ""] as const;
/** The same of encoders, alone and with a head. */
const ENCODER_PREFIXES = ["", "bert.", "roberta.", "nomic_bert.", "model."] as const;
const EMBEDDINGS: readonly (readonly [prefix: string, name: string])[] = [
  ...PREFIXES.map((prefix) => [prefix, "embed_tokens.weight"] as const),
  // InternLM2's and Ling's.
  ["model.", "tok_embeddings.weight"],
  ["model.", "word_embeddings.weight"],
  ["transformer.", "wte.weight"],
  ["", "wte.weight"],
  ["gpt_neox.", "embed_in.weight"],
  // OPT's, as transformers writes it, and older.
  ["model.decoder.", "embed_tokens.weight"],
  ["decoder.", "embed_tokens.weight"],
  // Of Nemotron-H, as its maker and as transformers write it.
  ["backbone.", "embeddings.weight"],
  ["model.", "embeddings.weight"],
  ...ENCODER_PREFIXES.map((prefix) => [prefix, "embeddings.word_embeddings.weight"] as const),
  ...ENCODER_PREFIXES.map((prefix) => [prefix, "embeddings.tok_embeddings.weight"] as const),
];

/** True for a folder with a config and safetensors weights; whether they are whole shows on reading. */
export function isHfFolder(path: string): boolean {
  const has = (name: string) => existsSync(join(path, name));
  return (
    statSync(path, { throwIfNoEntry: false })?.isDirectory() === true &&
    has(CONFIG_NAME) &&
    (has(SINGLE_NAME) || has(INDEX_NAME))
  );
}

/** Paths of the settings, vocabularies and templates beside the weights. */
export function textFilesOf(folder: string): readonly string[] {
  const names = readdirSync(folder).filter((name) => /\.(json|jinja)$/.test(name));
  if (existsSync(join(folder, TOOL_TEMPLATE_NAME))) names.push(TOOL_TEMPLATE_NAME);
  return names.map((name) => join(folder, name));
}

/** Paths of the weight files; that they are there shows on reading. */
export function weightFilesOf(folder: string): readonly string[] {
  const hasSingle = existsSync(join(folder, SINGLE_NAME));
  const names = hasSingle ? [SINGLE_NAME] : shardNamesOfIndex(join(folder, INDEX_NAME));
  return names.map((name) => join(folder, name));
}

export function readHfFolder(path: string): HfFolder {
  const config = readJsonFile(join(path, CONFIG_NAME));
  const files = readSafetensors(path);
  const [prefix = "", name] = EMBEDDINGS.find((candidate) => files.tensors.has(candidate.join(""))) ?? [];
  const embeddingName = `${prefix}${name}`;
  const numEmbeddings = files.tensors.get(embeddingName)?.shape[0];
  if (numEmbeddings === undefined || numEmbeddings === 0) {
    throw new MillraceError("model_tensor", `expected a matrix model.embed_tokens.weight in ${path}, got none`, {
      hint: "The folder holds no language model in the layout of transformers, or not all of it.",
    });
  }
  return { path, name: basename(resolve(path)), config, files, prefix, embeddingName, numEmbeddings };
}
