/** From a model folder to the engine's description of it and its tensors under the loader's names. */
import type { HfFolder } from "../../../formats/huggingface/folder.js";
import type { OpenModel } from "../tensor-source.js";
import { modelConfigFromHf } from "./config.js";
import { HfNames } from "./names.js";
import { HfSource, summarizeHf } from "./source.js";

export function openHfModel(folder: HfFolder): OpenModel {
  const names = new HfNames(folder.files.tensors);
  const model = modelConfigFromHf(folder.config, folder.name, names.numEmbeddings);
  return {
    config: model.config,
    summary: summarizeHf(folder),
    tensorsFor: (device) => new HfSource(folder, model, names, device),
  };
}
