/** A model's weights as the transformer takes them: mapped, packed, or from the pack cache. */
import { basename } from "node:path";
import type { Device } from "../../kernels/kernels.js";
import { loadKernels } from "../../kernels/load.js";
import type { EngineOptions } from "../api.js";
import { PackCache } from "../packs/pack-cache.js";
import type { OpenModel } from "./tensor-source.js";
import { type LoadReport, WeightPacker } from "./weight-packer.js";
import { bindWeights, type ModelWeights } from "./weights.js";

/** numBytes: memory that packed weights take beside the model's file. */
export function loadWeights(
  model: OpenModel,
  path: string,
  { activationDtype, packCache }: Pick<EngineOptions, "activationDtype" | "packCache">,
  device: Device,
  report: LoadReport,
): { readonly weights: ModelWeights; readonly numBytes: number } {
  const source = model.tensorsFor(device);
  const packer = new WeightPacker(device, source, {
    activationDtype,
    modelName: basename(path).replace(/\.gguf$/, ""),
    files: model.files,
    weightBytes: model.summary.weightBytes,
    cache: packCache && new PackCache(packCache, loadKernels().packedLayoutVersion()),
    report,
  });
  const weights = bindWeights(source, model.config, device, packer);
  return { weights, numBytes: packer.numBytes };
}
