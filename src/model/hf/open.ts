/** From a model folder to the engine's description of it and its tensors under the loader's names. */
import { join } from "node:path";
import type { HfFolder } from "../../formats/hf/folder.js";
import type { OpenModel } from "../model.js";
import { modelConfigFromHf } from "./config.js";
import { HfNames } from "./names.js";
import { HfSource } from "./source.js";
import { summarizeHf } from "./summary.js";

export function openHfModel(folder: HfFolder): OpenModel {
  const names = new HfNames(folder);
  const model = modelConfigFromHf(folder.config, folder.name, folder.numEmbeddings);
  return {
    config: model.config,
    summary: summarizeHf(folder.files.tensors.values()),
    files: [join(folder.path, "config.json"), ...folder.files.shards.map((shard) => shard.path)],
    tensors: () => new HfSource(folder, model, names),
  };
}
