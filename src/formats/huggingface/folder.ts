/** A model folder as the Hugging Face hub has it: config.json beside safetensors files. */
import { existsSync, statSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { INDEX_NAME, readSafetensors, SINGLE_NAME } from "../safetensors/read.js";
import type { SafetensorsFiles } from "../safetensors/types.js";
import { type JsonObject, readJsonFile } from "./json.js";

export const CONFIG_NAME = "config.json";

export interface HfFolder {
  readonly path: string;
  /** The folder's own name. */
  readonly name: string;
  readonly config: JsonObject;
  readonly files: SafetensorsFiles;
}

/** True for a folder with a config and safetensors weights; whether they are whole shows on reading. */
export function isHfFolder(path: string): boolean {
  const has = (name: string) => existsSync(join(path, name));
  return (
    statSync(path, { throwIfNoEntry: false })?.isDirectory() === true &&
    has(CONFIG_NAME) &&
    (has(SINGLE_NAME) || has(INDEX_NAME))
  );
}

export function readHfFolder(path: string): HfFolder {
  const config = readJsonFile(join(path, CONFIG_NAME));
  return { path, name: basename(resolve(path)), config, files: readSafetensors(path) };
}
