/** Narrows the encoder in a GGUF file to the part that the embedded engine computes. */
import type { GgufFile } from "../../formats/gguf/types.js";
import { type EncoderArchitecture, factsOf } from "../description/architectures.js";
import { MODEL_LIMITS } from "../description/model-description.js";
import {
  attentionMixers,
  fixedBy,
  type ServableModel,
  servableLayers,
  unservedVariant,
  withServedDrafts,
} from "../description/servable.js";
import { describeGguf } from "./describe.js";
import { headDimOf } from "./head-dim.js";
import { MetadataReader } from "./metadata-reader.js";
import { encoderPooling } from "./pooling.js";
import { positionsOf, rowsOf } from "./position-table.js";
import { ropesFromMetadata } from "./rope.js";
import { readRouting } from "./routing.js";

/** @throws architecture_unsupported, gguf_metadata and gguf_tensor, as `servableGguf` does */
export function servableEncoder(gguf: GgufFile, architecture: EncoderArchitecture): ServableModel {
  const { metadata, tensors } = gguf;
  const read = new MetadataReader(metadata, architecture);
  if (metadata.boolean(`${architecture}.attention.causal`) === true) {
    throw unservedVariant(`expected ${architecture}.attention.causal to be false, got true`);
  }
  const { activation, hasPositionTable, isLayerNormed, normsSums, isNeoxInFiles = false } = factsOf(architecture);
  const description = describeGguf(gguf);
  const layers = servableLayers(description, architecture);
  const mixers = attentionMixers({ layers });
  const headDim = headDimOf(mixers);
  return Object.freeze({
    ...withServedDrafts(description),
    layers,
    ...fixedBy(architecture, description.width),
    rmsEps: isLayerNormed
      ? read.positive("attention.layer_norm_epsilon", normsSums ? 1e-12 : 1e-5)
      : read.positive("attention.layer_norm_rms_epsilon", 1e-6),
    attentionScale: 1 / Math.sqrt(headDim),
    ...positionsOf(gguf, architecture, description.contextLength),
    numTokenTypes: tensors.has("token_types.weight")
      ? (rowsOf(gguf, "token_types.weight", MODEL_LIMITS.heads) ?? 0)
      : 0,
    activation,
    routing: readRouting(read, gguf, architecture),
    isNeoxRope: isNeoxInFiles,
    ropes: hasPositionTable ? [] : ropesFromMetadata(metadata, architecture, mixers),
    ...encoderPooling(gguf, architecture, description.width),
  });
}
