/** Opens a model of either format for the embedded engine: its description and its tensors. */
import { join } from "node:path";
import type { TensorSource } from "../backend/tensor-source.js";
import { readGguf } from "../formats/gguf/read.js";
import type { GgufFile } from "../formats/gguf/types.js";
import { CONFIG_NAME, type HfFolder, isHfFolder, readHfFolder } from "../formats/hf/folder.js";
import type { ServableModel } from "./description/servable.js";
import type { WeightSummary } from "./description/weight-summary.js";
import { servableGguf } from "./gguf/servable.js";
import { GgufSource } from "./gguf/source.js";
import { summarizeGguf } from "./gguf/summary.js";
import { weightFacts } from "./hf/describe.js";
import { readModules } from "./hf/modules.js";
import { HfNames } from "./hf/names.js";
import { servableConfig } from "./hf/servable.js";
import { HfSource } from "./hf/source.js";
import { summarizeHf } from "./hf/summary.js";

/** A model whose headers were read; its tensors are looked for when the engine asks for them. */
export interface OpenModel {
  readonly config: ServableModel;
  readonly summary: WeightSummary;
  /** The files that the tensors' values depend on. */
  readonly files: readonly string[];
  /** Throws where the weights are stored in a way that is not read. */
  tensors(): TensorSource;
  /** The tensors of `config.draftLayers`. Throws as `tensors` does. */
  drafts(): DraftTensors;
}

interface DraftTensors {
  readonly source: TensorSource;
  readonly numBytes: number;
}

/**
 * @param path of a GGUF file or of a folder with config.json and safetensors files
 * @throws architecture_unsupported, where the engine does not compute such a model, and what reading the files throws
 * @example const { config } = openModel("models/qwen3")
 */
export function openModel(path: string): OpenModel {
  return isHfFolder(path) ? openFolder(readHfFolder(path)) : openGguf(readGguf(path));
}

function openGguf(gguf: GgufFile): OpenModel {
  const config = servableGguf(gguf);
  return {
    config,
    summary: summarizeGguf(gguf),
    files: gguf.shards.map((shard) => shard.path),
    tensors: () => new GgufSource(gguf, config),
    drafts: () => sized(new GgufSource(gguf, config, "drafts")),
  };
}

function openFolder(folder: HfFolder): OpenModel {
  const modules = readModules(folder.path, folder.config);
  const servable = servableConfig(folder.config, folder.name, weightFacts(folder), modules);
  return {
    config: servable.model,
    summary: summarizeHf(folder),
    files: [join(folder.path, CONFIG_NAME), ...folder.files.shards.map((shard) => shard.path)],
    tensors: () => new HfSource(folder, servable, new HfNames(folder), modules.headFolders),
    drafts: () => sized(new HfSource(folder, servable, new HfNames(folder), [], "drafts")),
  };
}

const sized = (source: GgufSource | HfSource): DraftTensors => ({ source, numBytes: source.numBytes() });
