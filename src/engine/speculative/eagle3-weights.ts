/** Binds the tensors of an EAGLE-3 head: its layer as the transformer takes it, and the fusion and norms before it. */
import type { Backend, LoadReport } from "../../backend/backend.js";
import type { BufferHandle, WeightHandle } from "../../backend/handles.js";
import { configError } from "../../formats/files/json.js";
import { keyWidth, queryWidth } from "../../model/description/sizes.js";
import { type Binder, bindTensors, type Linear } from "../blocks/binder.js";
import type { ModelWeights } from "../blocks/weights.js";
import type { Eagle3Folder } from "./eagle3-folder.js";
import type { HeadsTarget } from "./head-network.js";

interface Eagle3Weights {
  readonly model: ModelWeights;
  /** For each fused layer [width, model's width]. */
  readonly fuse: readonly Linear[];
  readonly embedding: WeightHandle;
  /** f32 [width] */
  readonly embeddingNorm: BufferHandle;
  /** f32 [maxRows, width]: the normed embeddings, which the layer's attention reads beside the states. */
  readonly besides: BufferHandle;
  /** Norm of the state that the layer adds to; undefined: it adds to the state itself. */
  readonly stateNorm: BufferHandle | undefined;
}

/** Rejects with model_tensor where one of the tensors is missing or has another shape. */
export async function bindEagle3(
  folder: Eagle3Folder,
  target: HeadsTarget,
  maxRows: number,
  backend: Backend,
  report: LoadReport,
): Promise<Eagle3Weights> {
  const { tensors: source, numBytes, config, outputTokens } = folder;
  const besides = backend.allocate(maxRows * config.width * 4);
  const ids = outputTokens && backend.allocate(outputTokens.byteLength);
  if (ids !== undefined) backend.write(ids, 0, outputTokens!);
  const output = ids && { ids, numRows: outputTokens!.length };
  const set = { name: "eagle3", files: [], numBytes, memoryBytes: numBytes, source };
  return await bindTensors(set, backend, report, (binder) => bindHead(binder, folder, target, besides, output));
}

function bindHead(
  binder: Binder,
  { config, ropeFactors, inputLayers, addsToNormed }: Eagle3Folder,
  target: HeadsTarget,
  besides: BufferHandle,
  outputTokens: ModelWeights["outputTokens"],
): Eagle3Weights {
  const { width, vocabSize } = config;
  const layer = config.layers[0]!;
  if (layer.feedForward.kind !== "dense") throw configError("expected a head without experts, got one with them");
  const { width: ffWidth } = layer.feedForward;
  const query = queryWidth(layer);
  const key = keyWidth(layer);
  const projections = (part: "" | "_embd") => ({
    query: binder.linear(`attn_q${part}`, query, width),
    key: binder.linear(`attn_k${part}`, key, width),
    value: binder.linear(`attn_v${part}`, key, width),
  });
  const fuse = inputLayers.map((_, index) => binder.linear(`fc.${index}`, width, target.config.width));
  const embedding = binder.has("token_embd.weight")
    ? binder.rows("token_embd", vocabSize, width)
    : target.weights.embedding;
  const embeddingNorm = binder.vector("embd_norm.weight", width);
  const attentionNorm = binder.vector("attn_norm.weight", width);
  const dense = {
    kind: "dense",
    width: ffWidth,
    gate: binder.linear("ffn_gate", ffWidth, width),
    up: binder.linear("ffn_up", ffWidth, width),
    down: binder.linear("ffn_down", width, ffWidth),
  } as const;
  const output = binder.has("output.weight")
    ? binder.linear("output", outputTokens?.numRows ?? vocabSize, width)
    : target.weights.output;
  const layerWeights = {
    attentionNorm: addsToNormed ? undefined : { gain: attentionNorm },
    ...projections(""),
    besides: { input: besides, ...projections("_embd") },
    queryNorm: undefined,
    keyNorm: undefined,
    sinks: undefined,
    attentionOutput: binder.linear("attn_output", width, query),
    attentionPostNorm: undefined,
    attentionSumNorm: undefined,
    ffNorm: { gain: binder.vector("ffn_norm.weight", width) },
    feedForward: dense,
    ffPostNorm: undefined,
    ffSumNorm: undefined,
  };
  const model = {
    ...target.weights,
    embedding,
    layerInputs: undefined,
    layers: [layerWeights],
    outputNorm: { gain: binder.vector("output_norm.weight", width) },
    output,
    outputTokens,
    ropeFactors: ropeFactors.all,
    ropeFactorsShort: ropeFactors.short,
    ropeFactorsLong: ropeFactors.long,
  };
  return { model, fuse, embedding, embeddingNorm, besides, stateNorm: addsToNormed ? attentionNorm : undefined };
}
