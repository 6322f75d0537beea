/** The tensors of a model with llama.cpp's names and their shapes, including drafting layers. */
import type { ModelPart, TensorSource } from "../../backend/tensor-source.js";
import { factsOf } from "../../model/description/architectures.js";
import { KEY_TENSORS } from "../../model/description/key-tensors.js";
import type {
  AttentionMixer,
  ConvolutionMixer,
  DeltaMixer,
  ExpertsFeedForward,
  FeedForward,
  LatentMixer,
  MambaMixer,
  Mixer,
} from "../../model/description/model-description.js";
import type { PositionTable, ServableLayer, ServableModel } from "../../model/description/servable.js";
import { keyWidth, mixedOutputs, mixedWidth, queryWidth } from "../../model/description/sizes.js";
import type { OpenModel } from "../../model/open-model.js";
import { type ModelTensor, ROPE_FACTORS, unstackedTensors, type WiderStack } from "./tensors.js";

/**
 * The drafting layers of a plain copy. Copies with other weights leave them out, since their effect there is
 * unmeasured.
 * @returns undefined if there are none, or if tensors around them are missing
 */
export function draftsOf({
  config,
  drafts,
}: OpenModel): { readonly source: TensorSource; readonly tensors: readonly ModelTensor[] } | undefined {
  const { layers, draftLayers = [] } = config;
  if (draftLayers.length === 0) return undefined;
  const { source } = drafts();
  const isWhole = draftLayers.every((_, index) =>
    ["eh_proj", "enorm", "hnorm"].every((part) => source.has(`blk.${layers.length + index}.nextn.${part}.weight`)),
  );
  return isWhole ? { source, tensors: tensorsOf(config, source, "drafts") } : undefined;
}

/**
 * All tensors of a model that the engine reads, in the order of its layers.
 * @param part the part of the model in `source`
 * @throws gguf_tensor and model_tensor, if the source has other ones
 */
export function tensorsOf(
  model: ServableModel,
  source: TensorSource,
  part: ModelPart = "layers",
): readonly ModelTensor[] {
  const list = new TensorList(model, source);
  const { layers, draftLayers = [] } = model;
  if (part === "layers") {
    addAround(list);
    for (const [index, layer] of layers.entries()) addLayer(list, layer, `blk.${index}.`);
  } else {
    for (const [index, layer] of draftLayers.entries()) {
      addLayer(list, layer, `blk.${layers.length + index}.`);
      addAroundDraft(list, `blk.${layers.length + index}.nextn.`);
    }
  }
  source.expectNoOthers(new Set([...list.tensors.flatMap(namesOf), ...list.unread]));
  return list.tensors;
}

/** Tensors in order; optional ones are included if the source has them. */
class TensorList {
  readonly tensors: ModelTensor[] = [];
  /** Further permitted names in the source. */
  readonly unread: string[] = [];

  constructor(
    readonly model: ServableModel,
    readonly source: TensorSource,
  ) {}

  vector(name: string, length: number): void {
    if (this.source.has(name)) this.tensors.push({ name, shape: [length] });
  }

  vectors(name: string, length: number, count: number): void {
    this.tensors.push({ name, shape: [length], count });
  }

  table(name: string, rows: number, cols: number): void {
    if (this.source.has(`${name}.weight`)) this.tensors.push({ name: `${name}.weight`, shape: [rows, cols] });
  }

  norm(name: string, length: number): void {
    this.vector(`${name}.weight`, length);
    if (this.model.isLayerNormed) this.vector(`${name}.bias`, length);
  }

  matrix(name: string, rows: number, cols: number): void {
    this.table(name, rows, cols);
    this.vector(`${name}.bias`, rows);
  }

  /** Copies only have the rows of positions. */
  positions({ numRows, firstRow }: PositionTable): void {
    const name = "position_embd.weight";
    const within = { name, totalRows: numRows, start: firstRow };
    this.tensors.push({ name, shape: [numRows - firstRow, this.model.width], within });
  }

  stack(name: string, count: number, rows: number, cols: number, within?: WiderStack): void {
    const totalRows = count * rows;
    const parts = { count, totalRows, start: 0, ...(within && { within }) };
    this.tensors.push({ name: `${name}.weight`, shape: [totalRows, cols], stack: parts });
    if (this.model.hasExpertBiases) this.vectors(`${name}.bias`, rows, count);
  }

  /** Gate above up in one matrix; files of architectures with Mamba-2 layers have them apart. */
  gateAndUp(layer: string, end: string, inner: number): void {
    const name = `${layer}ffn_up${end}.weight`;
    const shape = [inner, this.model.width] as const;
    const within = { name, totalRows: 2 * inner };
    this.tensors.push({ name: `${layer}ffn_gate${end}.weight`, shape, within: { ...within, start: 0 } });
    this.tensors.push({ name, shape, within: { ...within, start: inner } });
  }
}

function addAround(list: TensorList): void {
  const { width, vocabSize, ropes, layers, layerInputWidth = 0, positionTable } = list.model;
  list.table("token_embd", vocabSize, width);
  if (positionTable !== undefined) list.positions(positionTable);
  list.norm("output_norm", width);
  list.matrix("output", vocabSize, width);
  const [rope] = ropes;
  if (rope !== undefined) for (const name of ROPE_FACTORS) list.vector(name, rope.dim / 2);
  if (layerInputWidth === 0) return;
  const totalInputWidth = layers.length * layerInputWidth;
  list.table("per_layer_token_embd", vocabSize, totalInputWidth);
  list.table("per_layer_model_proj", totalInputWidth, width);
  list.vector("per_layer_proj_norm.weight", layerInputWidth);
}

function addAroundDraft(list: TensorList, block: string): void {
  const { width, vocabSize } = list.model;
  list.table(`${block}eh_proj`, width, 2 * width);
  for (const name of ["enorm", "hnorm", "shared_head_norm"]) list.vector(`${block}${name}.weight`, width);
  for (const name of ["embed_tokens", "shared_head_head"]) list.table(`${block}${name}`, vocabSize, width);
}

function addLayer(list: TensorList, { mixer, feedForward }: ServableLayer, layer: string): void {
  const { width, isPostNormed, layerInputWidth = 0 } = list.model;
  if (!isPostNormed) list.norm(`${layer}attn_norm`, width);
  addMixer(list, mixer, layer);
  if (feedForward.width === 0) return;
  if (!isPostNormed && !factsOf(list.model.architecture).isOnePart) list.norm(`${layer}ffn_norm`, width);
  if (feedForward.kind === "experts") addExperts(list, feedForward, layer);
  else addDense(list, layer, "", feedForward.width, feedForward);
  list.vector(`${layer}post_ffw_norm.weight`, width);
  if (layerInputWidth > 0) {
    list.matrix(`${layer}inp_gate`, layerInputWidth, width);
    list.matrix(`${layer}proj`, width, layerInputWidth);
    list.vector(`${layer}post_norm.weight`, width);
  }
  list.vector(`${layer}layer_output_scale.weight`, 1);
}

function addMixer(list: TensorList, mixer: Mixer, layer: string): void {
  if (mixer.kind === "attention") addAttention(list, mixer, layer);
  else if (mixer.kind === "latent") addLatent(list, mixer, layer);
  else if (mixer.kind === "delta") addDelta(list, mixer, layer);
  else if (mixer.kind === "mamba") addMamba(list, mixer, layer);
  else if (mixer.kind === "convolution") addConvolution(list, mixer, layer);
}

function addAttention(list: TensorList, mixer: AttentionMixer, layer: string): void {
  const { width, normsAllHeads, hasSinks } = list.model;
  const numQueryRows = queryWidth({ mixer });
  const numKeyRows = keyWidth({ mixer });
  const hasKeys = mixer.keysOf === undefined;
  if (list.source.has(`${layer}attn_qkv.weight`)) {
    list.matrix(`${layer}attn_qkv`, numQueryRows + 2 * numKeyRows, width);
  } else {
    list.matrix(`${layer}attn_q`, mixer.gates === "values" ? 2 * numQueryRows : numQueryRows, width);
    if (mixer.gates === "heads") list.matrix(`${layer}attn_gate`, mixer.numHeads, width);
    if (hasKeys) list.matrix(`${layer}attn_k`, numKeyRows, width);
    if (hasKeys && !mixer.areValuesKeys) list.matrix(`${layer}attn_v`, numKeyRows, width);
    if (!hasKeys) list.unread.push(...KEY_TENSORS.map((part) => `${layer}${part}`));
  }
  list.vector(`${layer}attn_q_norm.weight`, normsAllHeads ? numQueryRows : mixer.headDim);
  if (hasKeys) list.vector(`${layer}attn_k_norm.weight`, normsAllHeads ? numKeyRows : mixer.headDim);
  if (hasSinks) list.vector(`${layer}attn_sinks.weight`, mixer.numHeads);
  list.matrix(`${layer}attn_output`, width, numQueryRows);
  list.vector(`${layer}post_attention_norm.weight`, width);
}

function addLatent(list: TensorList, mixer: LatentMixer, layer: string): void {
  const { width } = list.model;
  const { numHeads, headDim, valueDim, kvRank, ropeDim, queryRank } = mixer;
  const queryRows = numHeads * (headDim + ropeDim);
  if (queryRank === 0) list.table(`${layer}attn_q`, queryRows, width);
  else {
    list.matrix(`${layer}attn_q_a`, queryRank, width);
    list.vector(`${layer}attn_q_a_norm.weight`, queryRank);
    list.table(`${layer}attn_q_b`, queryRows, queryRank);
  }
  list.matrix(`${layer}attn_kv_a_mqa`, kvRank + ropeDim, width);
  list.vector(`${layer}attn_kv_a_norm.weight`, kvRank);
  list.stack(`${layer}attn_k_b`, numHeads, kvRank, headDim);
  list.stack(`${layer}attn_v_b`, numHeads, valueDim, kvRank);
  list.unread.push(`${layer}attn_kv_b.weight`);
  list.matrix(`${layer}attn_output`, width, numHeads * valueDim);
}

function addDelta(list: TensorList, mixer: DeltaMixer, layer: string): void {
  const { width } = list.model;
  const { numHeads, valueDim, numTaps } = mixer;
  const [mixed, inner] = [mixedWidth(mixer), mixedOutputs(mixer)];
  list.table(`${layer}ssm_in`, mixed + inner, width);
  list.table(`${layer}attn_qkv`, mixed, width);
  list.table(`${layer}attn_gate`, inner, width);
  list.table(`${layer}ssm_ba`, 2 * numHeads, width);
  list.table(`${layer}ssm_alpha`, numHeads, width);
  list.table(`${layer}ssm_beta`, numHeads, width);
  list.vectors(`${layer}ssm_conv1d.weight`, numTaps, mixed);
  list.vector(`${layer}ssm_a`, numHeads);
  list.vector(`${layer}ssm_dt.bias`, numHeads);
  list.vector(`${layer}ssm_norm.weight`, valueDim);
  list.table(`${layer}ssm_out`, width, inner);
}

/** Files store the heads' vectors, and the norm's gain by group, in two dimensions. */
function addMamba(list: TensorList, mixer: MambaMixer, layer: string): void {
  const { width } = list.model;
  const { numHeads, numGroups, numTaps } = mixer;
  const [mixed, inner] = [mixedWidth(mixer), mixedOutputs(mixer)];
  list.matrix(`${layer}ssm_in`, inner + mixed + numHeads, width);
  list.vectors(`${layer}ssm_conv1d.weight`, numTaps, mixed);
  list.vector(`${layer}ssm_conv1d.bias`, mixed);
  for (const name of ["ssm_a", "ssm_d"]) list.vectors(`${layer}${name}`, 1, numHeads);
  list.vector(`${layer}ssm_dt.bias`, numHeads);
  list.vectors(`${layer}ssm_norm.weight`, inner / numGroups, numGroups);
  list.matrix(`${layer}ssm_out`, width, inner);
}

function addConvolution(list: TensorList, { width: columns, numTaps }: ConvolutionMixer, layer: string): void {
  const { width } = list.model;
  list.table(`${layer}shortconv.in_proj`, 3 * columns, width);
  list.vectors(`${layer}shortconv.conv.weight`, numTaps, columns);
  list.table(`${layer}shortconv.out_proj`, width, columns);
  list.vector(`${layer}post_attention_norm.weight`, width);
}

/** A feed-forward part that every token passes. @param end end of its tensors' names */
function addDense(list: TensorList, layer: string, end: string, inner: number, { isGated }: FeedForward): void {
  const { architecture, width } = list.model;
  const isFused = isGated !== false && !list.source.has(`${layer}ffn_gate${end}.weight`);
  if (isFused && factsOf(architecture).hasMamba) list.gateAndUp(layer, end, inner);
  else {
    list.matrix(`${layer}ffn_gate${end}`, inner, width);
    list.matrix(`${layer}ffn_up${end}`, isFused ? 2 * inner : inner, width);
  }
  list.matrix(`${layer}ffn_down${end}`, width, inner);
}

function addExperts(list: TensorList, experts: ExpertsFeedForward, layer: string): void {
  const { width, hasExpertBiases, hasDenseBesideExperts, routing } = list.model;
  const { count, width: inner, sharedWidth, isSharedGated, isGated = true } = experts;
  list.table(`${layer}ffn_gate_inp`, count, width);
  if (hasExpertBiases) list.vector(`${layer}ffn_gate_inp.bias`, count);
  // Each expert's gate above its up; copies store them apart, as most readers expect.
  const fused = `${layer}ffn_gate_up_exps.weight`;
  const within = (offset: number) => (list.source.has(fused) ? { name: fused, rows: 2 * inner, offset } : undefined);
  if (isGated) list.stack(`${layer}ffn_gate_exps`, count, inner, width, within(0));
  list.stack(`${layer}ffn_up_exps`, count, inner, width, within(inner));
  list.stack(`${layer}ffn_down_exps`, count, width, inner);
  if (routing.hasBias) list.vector(`${layer}exp_probs_b.bias`, count);
  if (isSharedGated) list.table(`${layer}ffn_gate_inp_shexp`, 1, width);
  if (sharedWidth > 0) addDense(list, layer, hasDenseBesideExperts ? "" : "_shexp", sharedWidth, experts);
  if (!hasDenseBesideExperts) return;
  list.vector(`${layer}ffn_gate_inp.scale`, width);
  list.vector(`${layer}ffn_down_exps.scale`, count);
  for (const name of NORMS_BESIDE) list.vector(`${layer}${name}.weight`, width);
}

/** Norms of experts beside a dense part. */
const NORMS_BESIDE = ["post_ffw_norm_1", "pre_ffw_norm_2", "post_ffw_norm_2"];

/** Possible names of the tensor in sources. */
const namesOf = (tensor: ModelTensor): readonly string[] => [
  tensor.name,
  ...(tensor.within === undefined ? [] : [tensor.within.name]),
  ...(tensor.stack?.within === undefined ? [] : [tensor.stack.within.name]),
  ...unstackedTensors(tensor).map(({ ownName }) => ownName),
];
