/** The networks of the two kinds of trained heads in our own files. */
import { queryWidth } from "../../model/description/sizes.js";
import { ADDED, Products } from "../blocks/products.js";
import { bindEagleLayer, EagleLayer } from "./eagle-layer.js";
import type { HeadNetwork, HeadsTarget } from "./head-network.js";
import { bindHeads, eagleShape, type HeadsFile, type HeadsPlace, headsConfig } from "./heads-file.js";
import { medusaNetwork } from "./medusa-network.js";

/** Throws the errors of reading keys and tensors. */
export function createHeadNetwork(file: HeadsFile, target: HeadsTarget, place: HeadsPlace): Promise<HeadNetwork> {
  return (file.kind === "eagle" ? createEagle : createMedusa)(file, target, place);
}

/**
 * One layer over (hidden state of t, token t + 1), whose output stands for the hidden state of t + 1 and feeds the next
 * run. It has queries and no keys or values: it attends to those that one of the model's layers stored up to t, so
 * prompts cost it nothing. With a small model, the output matrix would dominate the cost of a drafted token: a layer
 * that is narrower than the model has an output matrix of its own.
 */
async function createEagle(file: HeadsFile, target: HeadsTarget, place: HeadsPlace): Promise<HeadNetwork> {
  const config = headsConfig(file, target.config);
  const { pastLayer, ffWidth } = eagleShape(file, target.config);
  const { width, vocabSize, rmsEps } = config;
  const sizes = { width, queryWidth: queryWidth(target.config.layers[pastLayer]!), ffWidth, rmsEps };
  const modelWidth = target.config.width;
  const isNarrow = width < modelWidth;
  const own = await bindHeads(file, place, (binder) => ({
    joinHidden: binder.linear("eagle.join_hidden", width, modelWidth),
    joinEmbed: binder.linear("eagle.join_embed", width, modelWidth),
    joinState: isNarrow ? binder.linear("eagle.join_state", width, width) : undefined,
    embedNorm: binder.vector("eagle.embed_norm.weight", modelWidth),
    layer: bindEagleLayer(binder, sizes),
    norm: binder.vector("eagle.norm.weight", width),
    output: isNarrow ? binder.linear("eagle.output", vocabSize, width) : target.weights.output,
  }));
  const products = new Products(place.backend, place.maxRows);
  const embedded = place.backend.allocate(place.maxRows * modelWidth * 4);
  const past = target.transformer.past(pastLayer);
  const layer = new EagleLayer(own.layer, sizes, past, products, place);
  return {
    name: "eagle",
    config,
    weights: {
      ...target.weights,
      layers: [],
      layerInputs: undefined,
      outputNorm: { gain: own.norm },
      output: own.output,
    },
    maxTokens: Number.POSITIVE_INFINITY,
    readsOwn: true,
    recordInput(program, hidden, states, batch) {
      const { tokenIds, numRows } = batch;
      const [join, cols] = states.areOwn ? [own.joinState ?? own.joinHidden, width] : [own.joinHidden, modelWidth];
      products.multiply(program, hidden, states.buffer, join, numRows, cols, { concurrent: true });
      const { embedding: weight } = target.weights;
      program.record("embed", { out: embedded, weight, ids: tokenIds.buffer, numRows, scale: 1 });
      const norm = { out: embedded, x: embedded, gain: own.embedNorm };
      program.record("rmsNorm", { numRows, width: modelWidth, eps: rmsEps, ...norm });
      products.multiply(program, hidden, embedded, own.joinEmbed, numRows, modelWidth, ADDED);
      layer.record(program, hidden, batch);
    },
  };
}

/** One block per depth, before the model's output matrix. */
async function createMedusa(file: HeadsFile, target: HeadsTarget, place: HeadsPlace): Promise<HeadNetwork> {
  const config = headsConfig(file, target.config);
  const { width } = config;
  const heads = await bindHeads(file, place, (binder) =>
    Array.from({ length: file.depth }, (_, depth) => ({ blocks: [binder.linear(`heads.${depth}`, width, width)] })),
  );
  return medusaNetwork(heads, config, target, place);
}
