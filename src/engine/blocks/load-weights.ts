/** A model's weights as the transformer takes them: mapped, packed, or from the pack cache. */
import { basename } from "node:path";
import type { KernelDevice } from "../../backend/cpu/kernels.js";
import { loadKernels } from "../../backend/cpu/load.js";
import { PackCache } from "../../backend/cpu/packs/pack-cache.js";
import { type LoadReport, WeightPacker } from "../../backend/cpu/weight-packer.js";
import type { OpenModel } from "../../model/model.js";
import type { EngineOptions } from "../api.js";
import { bindWeights, type ModelWeights } from "./weights.js";

/** numBytes: memory that packed weights take beside the model's file. */
export function loadWeights(
  model: OpenModel,
  path: string,
  { activationDtype, packCache }: Pick<EngineOptions, "activationDtype" | "packCache">,
  device: KernelDevice,
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
