/**
 * The prompts of an embedding model, in sentence-transformers' files: texts before its inputs, such as `query: ` before
 * queries.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { configError, readJsonFile } from "../../formats/files/json.js";

export interface EmbeddingPrompts {
  readonly byName: ReadonlyMap<string, string>;
  /** Name of the prompt for requests without one; undefined: such requests get no prompt. */
  readonly defaultName: string | undefined;
}

/** @returns undefined where the folder has none @throws model_config */
export function readEmbeddingPrompts(folder: string): EmbeddingPrompts | undefined {
  const path = join(folder, "config_sentence_transformers.json");
  if (!existsSync(path)) return undefined;
  const json = readJsonFile(path);
  const stated = json.object("prompts");
  if (stated === undefined) return undefined;
  const byName = new Map(Object.keys(stated.raw).map((name) => [name, stated.string(name) ?? ""] as const));
  const defaultName = json.string("default_prompt_name");
  if (defaultName !== undefined && !byName.has(defaultName)) {
    throw configError(`expected ${json.nameOf("default_prompt_name")} to be one of the prompts, got ${defaultName}`);
  }
  return byName.size === 0 ? undefined : { byName, defaultName };
}
