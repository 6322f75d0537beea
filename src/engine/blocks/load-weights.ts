/** A model's weights as the transformer takes them, placed by the backend. */
import { basename } from "node:path";
import type { Backend, LoadReport } from "../../backend/backend.js";
import { headTensors } from "../../model/description/pooling.js";
import type { OpenModel } from "../../model/open-model.js";
import { bindModel } from "./bind-model.js";
import { bindTensors } from "./binder.js";
import type { ModelWeights } from "./weights.js";

/** The name of a model for people, from the path of its file or folder. */
export const modelName = (path: string): string => basename(path).replace(/\.gguf$/, "");

export function loadWeights(
  model: OpenModel,
  path: string,
  backend: Backend,
  report: LoadReport,
): Promise<ModelWeights> {
  const { config, files, summary } = model;
  const tensors = {
    name: modelName(path),
    files,
    numBytes: summary.weightBytes,
    memoryBytes: summary.memoryBytes,
    source: model.tensors(),
    areBiased: config.hasBiases,
    otherNames: headTensors(config.head),
  };
  return bindTensors(tensors, backend, report, (binder) => bindModel(binder, config));
}
