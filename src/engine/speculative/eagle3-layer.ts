/** What an EAGLE-3 head computes before its layer's attention: it fuses states of some of the model's layers. */
import type { Backend, LoadReport } from "../../backend/backend.js";
import { ADDED, Products } from "../blocks/products.js";
import type { DraftingLayer } from "./drafting-layer.js";
import type { Eagle3Folder } from "./eagle3-folder.js";
import { bindEagle3 } from "./eagle3-weights.js";
import type { HeadsTarget } from "./head-network.js";

/** Rejects with model_tensor where one of the tensors is missing or has another shape. */
export async function createEagle3Layer(
  folder: Eagle3Folder,
  target: HeadsTarget,
  maxRows: number,
  backend: Backend,
  report: LoadReport,
): Promise<DraftingLayer> {
  const weights = await bindEagle3(folder, target, maxRows, backend, report);
  const { model, fuse, embedding, embeddingNorm, besides, stateNorm } = weights;
  const products = new Products(backend, maxRows);
  const modelWidth = target.transformer.width;
  const gathered = backend.allocate(maxRows * modelWidth * 4);
  const { width, rmsEps: eps } = folder.config;
  return {
    name: "eagle3",
    config: folder.config,
    weights: model,
    inputLayers: folder.inputLayers,
    readsUnnormed: true,
    recordInput(program, hidden, { buffers, areOwn, rows }, { numRows, tokenIds }) {
      if (areOwn) program.record("gatherRows", { out: hidden, x: buffers[0]!, rows, numRows, width });
      else {
        fuse.forEach((part, index) => {
          program.record("gatherRows", { out: gathered, x: buffers[index]!, rows, numRows, width: modelWidth });
          products.multiply(program, hidden, gathered, part, numRows, modelWidth, index === 0 ? {} : ADDED);
        });
      }
      program.record("embed", { out: besides, weight: embedding, ids: tokenIds.buffer, numRows, scale: 1 });
      const norm = { numRows, width, eps };
      program.record("rmsNorm", { out: besides, x: besides, gain: embeddingNorm, ...norm });
      if (stateNorm !== undefined) program.record("rmsNorm", { out: hidden, x: hidden, gain: stateNorm, ...norm });
    },
  };
}
