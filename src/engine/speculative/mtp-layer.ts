/**
 * What a model's layer for multi-token prediction computes before its attention: the model's state after the final
 * norm, or later its own, and the embedding of the token after it, each normed, then projected together.
 */
import type { Backend } from "../../backend/backend.js";
import { ADDED, Products, recordNorm } from "../blocks/products.js";
import type { DraftingLayer } from "./drafting-layer.js";
import type { HeadsTarget } from "./head-network.js";
import type { MtpWeights } from "./mtp-weights.js";

export function createMtpLayer(mtp: MtpWeights, target: HeadsTarget, maxRows: number, backend: Backend): DraftingLayer {
  const { config, layer, joinEmbedding, joinState, embeddingNorm, stateNorm } = mtp;
  const { width, rmsEps: eps, embeddingScale: scale } = config;
  const products = new Products(backend, maxRows);
  const state = backend.allocate(maxRows * width * 4);
  const embedded = backend.allocate(maxRows * width * 4);
  const embedding = mtp.embedding ?? target.weights.embedding;
  return {
    name: "mtp",
    config,
    weights: {
      ...target.weights,
      embedding,
      layerInputs: undefined,
      layers: [layer],
      outputNorm: mtp.outputNorm === undefined ? target.weights.outputNorm : { gain: mtp.outputNorm },
      output: mtp.output ?? target.weights.output,
    },
    inputLayers: [target.config.layers.length],
    readsUnnormed: false,
    recordInput(program, hidden, { buffers, areOwn, rows }, { numRows, tokenIds }) {
      const norm = { numRows, width, eps };
      program.record("gatherRows", { out: state, x: buffers[0]!, rows, numRows, width });
      if (!areOwn) recordNorm(program, state, state, numRows, { weights: target.weights.outputNorm, width, eps });
      program.record("rmsNorm", { out: state, x: state, gain: stateNorm, ...norm });
      program.record("embed", { out: embedded, weight: embedding, ids: tokenIds.buffer, numRows, scale });
      program.record("rmsNorm", { out: embedded, x: embedded, gain: embeddingNorm, ...norm });
      products.multiply(program, hidden, embedded, joinEmbedding, numRows, width);
      products.multiply(program, hidden, state, joinState, numRows, width, ADDED);
    },
  };
}
