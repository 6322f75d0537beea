/** Opens a model of either format: the engine's description of it, and its tensors. */
import { readGguf } from "../formats/gguf/read.js";
import { isHfFolder, readHfFolder } from "../formats/hf/folder.js";
import { modelConfigFromGguf } from "./config.js";
import { GgufSource, summarizeGguf } from "./gguf-source.js";
import { openHfModel } from "./hf/open.js";
import type { OpenModel } from "./model.js";

/**
 * @param path of a GGUF file or of a folder with config.json and safetensors files
 * @example const { config } = openModel("models/qwen3")
 */
export function openModel(path: string): OpenModel {
  if (isHfFolder(path)) return openHfModel(readHfFolder(path));
  const gguf = readGguf(path);
  return {
    config: modelConfigFromGguf(gguf),
    summary: summarizeGguf(gguf),
    files: gguf.shards.map((shard) => shard.path),
    tensors: () => new GgufSource(gguf),
  };
}
