/** Binds a model's weights: the names and shapes of the tensors that its blocks take. */
import { NO_BUFFER } from "../../backend/handles.js";
import { MillraceError } from "../../core/errors.js";
import { factsOf } from "../../model/description/architectures.js";
import { KEY_TENSORS } from "../../model/description/key-tensors.js";
import type {
  ConvolutionMixer,
  DeltaMixer,
  DenseFeedForward,
  ExpertsFeedForward,
  LatentMixer,
  MambaMixer,
} from "../../model/description/model-description.js";
import {
  type AttentionLayer,
  isAttention,
  type ServableLayer,
  type ServableModel,
} from "../../model/description/servable.js";
import { keyWidth, mixedOutputs, mixedWidth, queryWidth } from "../../model/description/sizes.js";
import type { Binder } from "./binder.js";
import type {
  AnyLayerWeights,
  ConvolutionWeights,
  DeltaWeights,
  DenseWeights,
  ExpertWeights,
  FeedForwardWeights,
  LatentWeights,
  LayerInputsWeights,
  LayerInputWeights,
  LayerWeights,
  MambaWeights,
  ModelWeights,
  NormWeights,
} from "./weights.js";

export function bindModel(binder: Binder, config: ServableModel): ModelWeights {
  const { width, vocabSize } = config;
  const layers = config.layers.map((layer, index) => bindLayer(binder, layer, config, `blk.${index}.`));
  const embedding = binder.rows("token_embd", vocabSize, width);
  const layerInputs = bindLayerInputs(binder, config);
  const { positionTable: table, numTokenTypes } = config;
  const positions =
    table && binder.rows("position_embd", table.numRows - table.firstRow, width, table.firstRow, table.numRows);
  const tokenTypes = numTokenTypes === 0 ? undefined : binder.rows("token_types", numTokenTypes, width);
  const output = config.isCausal
    ? binder.linear(binder.has("output.weight") ? "output" : "token_embd", vocabSize, width)
    : undefined;
  const [ofAll] = config.ropes;
  const rope = (name: string) => (ofAll && binder.has(name) ? binder.values(name, ofAll.dim / 2) : undefined);
  return {
    embedding,
    positions,
    tokenTypes,
    embeddingNorm: config.hasEmbeddingNorm ? bindNorm(binder, "token_embd_norm", width, config) : undefined,
    layerInputs,
    layers,
    outputNorm: config.normsSums ? undefined : bindNorm(binder, "output_norm", width, config),
    output,
    ropeFactors: rope("rope_freqs.weight"),
    ropeFactorsShort: rope("rope_factors_short.weight"),
    ropeFactorsLong: rope("rope_factors_long.weight"),
  };
}

function bindLayerInputs(binder: Binder, config: ServableModel): LayerInputsWeights | undefined {
  const { width, vocabSize, layers, layerInputWidth } = config;
  if (layerInputWidth === undefined) return undefined;
  const total = layers.length * layerInputWidth;
  return {
    table: binder.rows("per_layer_token_embd", vocabSize, total),
    projection: binder.linear("per_layer_model_proj", total, width),
    norm: bindNorm(binder, "per_layer_proj_norm", layerInputWidth, config),
  };
}

function bindNorm(binder: Binder, name: string, width: number, { isLayerNormed }: ServableModel): NormWeights {
  const gain = binder.vector(`${name}.weight`, width);
  return isLayerNormed ? { gain, bias: binder.optionalVector(`${name}.bias`, width) ?? NO_BUFFER } : { gain };
}

/** The norms of a layer. @param prefix of the layer's tensor names */
function layerNorms(binder: Binder, config: ServableModel, prefix: string) {
  const { width, isPostNormed, hasHeadNorms, hasPostNorms, normsSums } = config;
  const norm = (name: string, length: number) => bindNorm(binder, `${prefix}${name}`, length, config);
  const optional = (name: string, length: number) =>
    binder.has(`${prefix}${name}.weight`) ? norm(name, length) : undefined;
  return {
    optional,
    ofHeads: hasHeadNorms ? norm : optional,
    after: hasPostNorms ? norm : optional,
    before: (name: string) => (isPostNormed || normsSums ? undefined : norm(name, width)),
    ofSum: (name: string) => (normsSums ? norm(name, width) : undefined),
  };
}

function bindLayer(binder: Binder, layer: ServableLayer, config: ServableModel, prefix: string): AnyLayerWeights {
  if (isAttention(layer)) return bindAttentionLayer(binder, layer, config, prefix);
  const { mixer, feedForward } = layer;
  const rest = bindFeedForward(binder, feedForward, config, prefix);
  if (mixer.kind === "latent") return { latent: bindLatent(binder, mixer, config, prefix), ...rest };
  if (mixer.kind === "none") return { isMixerless: true, ...rest };
  if (mixer.kind === "delta") return { delta: bindDelta(binder, mixer, config, prefix), ...rest };
  if (mixer.kind === "mamba") return { mamba: bindMamba(binder, mixer, config, prefix), ...rest };
  return { convolution: bindConvolution(binder, mixer as ConvolutionMixer, config, prefix), ...rest };
}

function bindLatent(binder: Binder, mixer: LatentMixer, config: ServableModel, prefix: string): LatentWeights {
  const { width } = config;
  const { numHeads, headDim, valueDim, kvRank, ropeDim, queryRank } = mixer;
  const linear = (name: string, rows: number, cols: number) => binder.linear(`${prefix}${name}`, rows, cols);
  const stack = (name: string, totalRows: number, cols: number) =>
    binder.stack(`${prefix}${name}`, { count: numHeads, totalRows, cols, isBiased: false });
  const ofBoth = (start: number, rows: number) =>
    binder.linear(`${prefix}attn_kv_a_mqa`, kvRank + ropeDim, width, start, rows);
  // Some files have the matrices of keys and values both apart and in one.
  binder.ignore(`${prefix}attn_kv_b.weight`);
  const queryRows = numHeads * (headDim + ropeDim);
  return {
    norm: bindNorm(binder, `${prefix}attn_norm`, width, config),
    compression:
      queryRank === 0
        ? undefined
        : {
            linear: linear("attn_q_a", queryRank, width),
            norm: bindNorm(binder, `${prefix}attn_q_a_norm`, queryRank, config),
          },
    query: queryRank === 0 ? linear("attn_q", queryRows, width) : linear("attn_q_b", queryRows, queryRank),
    latent: ofBoth(0, kvRank),
    latentNorm: bindNorm(binder, `${prefix}attn_kv_a_norm`, kvRank, config),
    rotated: ofBoth(kvRank, ropeDim),
    keys: stack("attn_k_b", kvRank, headDim),
    values: stack("attn_v_b", valueDim, kvRank),
    output: linear("attn_output", width, numHeads * valueDim),
  };
}

function bindConvolution(
  binder: Binder,
  { width: columns, numTaps }: ConvolutionMixer,
  config: ServableModel,
  prefix: string,
): ConvolutionWeights {
  const { width } = config;
  const input = (part: number) =>
    binder.linear(`${prefix}shortconv.in_proj`, 3 * columns, width, part * columns, columns);
  return {
    norm: bindNorm(binder, `${prefix}attn_norm`, width, config),
    before: input(0),
    behind: input(1),
    inputs: input(2),
    kernel: binder.transposed(`${prefix}shortconv.conv.weight`, numTaps, columns),
    output: binder.linear(`${prefix}shortconv.out_proj`, width, columns),
    postNorm: layerNorms(binder, config, prefix).after("post_attention_norm", width),
  };
}

function bindFeedForward(
  binder: Binder,
  feedForward: ServableLayer["feedForward"],
  config: ServableModel,
  prefix: string,
): FeedForwardWeights {
  const { width } = config;
  const norms = layerNorms(binder, config, prefix);
  const scale = `${prefix}layer_output_scale.weight`;
  if (feedForward.width === 0) {
    return { ffNorm: undefined, feedForward: undefined, ffPostNorm: undefined, ffSumNorm: undefined };
  }
  return {
    ffNorm: norms.before(
      config.parallel === "oneNorm" || factsOf(config.architecture).isOnePart ? "attn_norm" : "ffn_norm",
    ),
    feedForward:
      feedForward.kind === "dense"
        ? bindDense(binder, feedForward, width, prefix)
        : bindExperts(binder, feedForward, config, prefix),
    ffPostNorm: norms.after("post_ffw_norm", width),
    ffSumNorm: norms.ofSum("layer_output_norm"),
    input: bindLayerInput(binder, config, prefix),
    ...(binder.has(scale) ? { scale: finiteScale(binder, scale) } : {}),
  };
}

function finiteScale(binder: Binder, name: string): number {
  const [scale = 1] = binder.values(name, 1);
  if (Number.isFinite(scale)) return scale;
  throw new MillraceError("model_tensor", `expected a finite number in ${name}, got ${scale}`);
}

function bindMamba(binder: Binder, mixer: MambaMixer, config: ServableModel, prefix: string): MambaWeights {
  const { width } = config;
  const { numHeads, numTaps } = mixer;
  const [mixed, inner] = [mixedWidth(mixer), mixedOutputs(mixer)];
  const input = (start: number, rows: number) =>
    binder.linear(`${prefix}ssm_in`, inner + mixed + numHeads, width, start, rows);
  const kernelBias = `${prefix}ssm_conv1d.bias`;
  return {
    norm: bindNorm(binder, `${prefix}attn_norm`, width, config),
    gate: input(0, inner),
    mixed: input(inner, mixed),
    steps: input(inner + mixed, numHeads),
    kernel: binder.transposed(`${prefix}ssm_conv1d.weight`, numTaps, mixed),
    kernelBias: binder.has(kernelBias) ? binder.vector(kernelBias, mixed) : undefined,
    decay: binder.vector(`${prefix}ssm_a`, numHeads),
    bias: binder.vector(`${prefix}ssm_dt.bias`, numHeads),
    skip: binder.vector(`${prefix}ssm_d`, numHeads),
    groupNorm: binder.vector(`${prefix}ssm_norm.weight`, inner),
    output: binder.linear(`${prefix}ssm_out`, width, inner),
  };
}

function bindDelta(binder: Binder, mixer: DeltaMixer, config: ServableModel, prefix: string): DeltaWeights {
  const { width } = config;
  const { numHeads, valueDim, numTaps } = mixer;
  const mixed = mixedWidth(mixer);
  const inner = numHeads * valueDim;
  const linear = (name: string, rows: number, cols = width) => binder.linear(`${prefix}${name}`, rows, cols);
  const has = (name: string) => binder.has(`${prefix}${name}.weight`);
  return {
    norm: bindNorm(binder, `${prefix}attn_norm`, width, config),
    mixed: has("ssm_in")
      ? { fused: linear("ssm_in", mixed + inner) }
      : { mixed: linear("attn_qkv", mixed), gate: linear("attn_gate", inner) },
    gates: has("ssm_ba")
      ? { fused: linear("ssm_ba", 2 * numHeads) }
      : { alpha: linear("ssm_alpha", numHeads), beta: linear("ssm_beta", numHeads) },
    kernel: binder.transposed(`${prefix}ssm_conv1d.weight`, numTaps, mixed),
    decay: binder.vector(`${prefix}ssm_a`, numHeads),
    bias: binder.vector(`${prefix}ssm_dt.bias`, numHeads),
    headNorm: bindNorm(binder, `${prefix}ssm_norm`, valueDim, config),
    output: linear("ssm_out", width, inner),
  };
}

/** @param prefix of the layer's tensor names */
export function bindAttentionLayer(
  binder: Binder,
  layer: AttentionLayer,
  config: ServableModel,
  prefix: string,
): LayerWeights {
  const { width, normsAllHeads, isLayerNormed, isCausal, hasSinks } = config;
  const { headDim, numHeads, gates, keysOf, areValuesKeys } = layer.mixer;
  const numQueryRows = queryWidth(layer);
  const numKeyRows = keyWidth(layer);
  // phi3 fuses q, k and v into one matrix.
  const isQkvFused = binder.has(`${prefix}attn_qkv.weight`);
  const qkvRows = numQueryRows + 2 * numKeyRows;
  const part = (name: string, start: number, rows: number) =>
    isQkvFused
      ? binder.linear(`${prefix}attn_qkv`, qkvRows, width, start, rows)
      : binder.linear(`${prefix}${name}`, rows, width);
  const norms = layerNorms(binder, config, prefix);
  // The first layer of modern-bert reads the normed embeddings as they are.
  const isFirstPlain = isLayerNormed && !isCausal && prefix === "blk.0.";
  const hasKeys = keysOf === undefined;
  if (!hasKeys) for (const name of KEY_TENSORS) binder.ignore(`${prefix}${name}`);
  return {
    attentionNorm: isFirstPlain ? norms.optional("attn_norm", width) : norms.before("attn_norm"),
    query:
      gates === "values" ? binder.linear(`${prefix}attn_q`, 2 * numQueryRows, width) : part("attn_q", 0, numQueryRows),
    gate: gates === "heads" ? binder.linear(`${prefix}attn_gate`, numHeads, width) : undefined,
    key: hasKeys ? part("attn_k", numQueryRows, numKeyRows) : undefined,
    value: hasKeys && !areValuesKeys ? part("attn_v", numQueryRows + numKeyRows, numKeyRows) : undefined,
    queryNorm: norms.ofHeads("attn_q_norm", normsAllHeads ? numQueryRows : headDim),
    keyNorm: hasKeys ? norms.ofHeads("attn_k_norm", normsAllHeads ? numKeyRows : headDim) : undefined,
    sinks: hasSinks ? binder.vector(`${prefix}attn_sinks.weight`, numHeads) : undefined,
    attentionOutput: binder.linear(`${prefix}attn_output`, width, numQueryRows),
    attentionPostNorm: norms.after("post_attention_norm", width),
    attentionSumNorm: norms.ofSum("attn_output_norm"),
    ...bindFeedForward(binder, layer.feedForward, config, prefix),
  };
}

function bindLayerInput(binder: Binder, config: ServableModel, prefix: string): LayerInputWeights | undefined {
  const { width, layerInputWidth } = config;
  if (layerInputWidth === undefined) return undefined;
  return {
    gate: binder.linear(`${prefix}inp_gate`, layerInputWidth, width),
    projection: binder.linear(`${prefix}proj`, width, layerInputWidth),
    norm: bindNorm(binder, `${prefix}post_norm`, width, config),
  };
}

function bindDense(binder: Binder, part: DenseFeedForward, width: number, prefix: string): DenseWeights {
  const { width: ffWidth } = part;
  const isGated = part.isGated ?? true;
  // phi3 fuses gate and up into one matrix.
  const isFused = isGated && !binder.has(`${prefix}ffn_gate.weight`);
  const up = (start: number) =>
    isFused
      ? binder.linear(`${prefix}ffn_up`, 2 * ffWidth, width, start, ffWidth)
      : binder.linear(`${prefix}${start === 0 ? "ffn_gate" : "ffn_up"}`, ffWidth, width);
  return {
    kind: "dense",
    width: ffWidth,
    gate: isGated ? up(0) : undefined,
    up: up(ffWidth),
    down: binder.linear(`${prefix}ffn_down`, width, ffWidth),
  };
}

function bindExperts(binder: Binder, part: ExpertsFeedForward, config: ServableModel, prefix: string): ExpertWeights {
  const { width, hasExpertBiases: isBiased, routing, hasDenseBesideExperts } = config;
  const { count, width: ffWidth, sharedWidth, isSharedGated } = part;
  const sharedEnd = hasDenseBesideExperts ? "" : "_shexp";
  const shared = (name: string, totalRows: number, cols: number, start?: number, rows?: number) =>
    binder.linear(`${prefix}ffn_${name}${sharedEnd}`, totalRows, cols, start, rows);
  // As phi3's, where folders of Granite have it.
  const isSharedFused = part.isGated !== false && !binder.has(`${prefix}ffn_gate${sharedEnd}.weight`);
  const sharedUp = (start: number) =>
    isSharedFused
      ? shared("up", 2 * sharedWidth, width, start, sharedWidth)
      : shared(start === 0 ? "gate" : "up", sharedWidth, width);
  const norm = (name: string) => bindNorm(binder, `${prefix}${name}`, width, config);
  const inputs = { count, cols: width, isBiased };
  const sumBias = `${prefix}ffn_exps.bias`;
  // Newer files fuse each expert's gate and up.
  const isFused = binder.has(`${prefix}ffn_gate_up_exps.weight`);
  const up = (start: number) =>
    isFused
      ? binder.stack(`${prefix}ffn_gate_up_exps`, { ...inputs, totalRows: 2 * ffWidth, start, rows: ffWidth })
      : binder.stack(`${prefix}${start === 0 ? "ffn_gate_exps" : "ffn_up_exps"}`, { ...inputs, totalRows: ffWidth });
  return {
    kind: "experts",
    part,
    router: binder.exact(`${prefix}ffn_gate_inp`, count, width, isBiased),
    gates: part.isGated === false ? undefined : up(0),
    ups: up(ffWidth),
    downs: binder.stack(`${prefix}ffn_down_exps`, { count, totalRows: width, cols: ffWidth, isBiased }),
    scoreBias: routing.hasBias ? binder.vector(`${prefix}exp_probs_b.bias`, count) : undefined,
    sumBias: binder.has(sumBias) ? binder.vector(sumBias, width) : undefined,
    shared:
      sharedWidth === 0
        ? undefined
        : {
            kind: "dense",
            width: sharedWidth,
            gate: part.isGated === false ? undefined : sharedUp(0),
            up: sharedUp(sharedWidth),
            down: shared("down", width, sharedWidth),
          },
    sharedGate: isSharedGated ? binder.exact(`${prefix}ffn_gate_inp_shexp`, 1, width, false) : undefined,
    beside: hasDenseBesideExperts
      ? {
          routerNorm: { gain: binder.vector(`${prefix}ffn_gate_inp.scale`, width) },
          factors: binder.vector(`${prefix}ffn_down_exps.scale`, count),
          expertsNorm: norm("pre_ffw_norm_2"),
          expertsPostNorm: norm("post_ffw_norm_2"),
          sharedPostNorm: norm("post_ffw_norm_1"),
        }
      : undefined,
  };
}
