/** The tensors of a model under llama.cpp's names, with their shapes: its layers', and those of layers that draft. */
import type { ModelPart, TensorSource } from "../../backend/tensor-source.js";
import { factsOf } from "../../model/description/architectures.js";
import { KEY_TENSORS } from "../../model/description/key-tensors.js";
import type {
  ConvolutionMixer,
  DeltaMixer,
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
import type { OpenModel } from "../../model/open-model.js";
import { type ModelTensor, ROPE_FACTORS, unstackedTensors, type WiderStack } from "./tensors.js";

/**
 * The layers that draft, as a plain copy has them: copies with other weights than the model's leave them out, since
 * nobody has measured what they do there.
 * @returns undefined where there are none, or what stands around them is missing
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
 * All tensors that the engine reads of a model, in the order of its layers.
 * @param part what `source` has
 * @throws gguf_tensor and model_tensor, where the source has others
 */
export function tensorsOf(
  model: ServableModel,
  source: TensorSource,
  part: ModelPart = "layers",
): readonly ModelTensor[] {
  const { width, vocabSize } = model;
  const tensors: ModelTensor[] = [];
  const unread: string[] = [];
  const vector = (name: string, length: number) => {
    if (source.has(name)) tensors.push({ name, shape: [length] });
  };
  const table = (name: string, rows: number, cols: number) => {
    if (source.has(`${name}.weight`)) tensors.push({ name: `${name}.weight`, shape: [rows, cols] });
  };
  const norm = (name: string, length: number) => {
    vector(`${name}.weight`, length);
    if (model.isLayerNormed) vector(`${name}.bias`, length);
  };
  const matrix = (name: string, rows: number, cols: number) => {
    table(name, rows, cols);
    vector(`${name}.bias`, rows);
  };
  const stack = (name: string, count: number, rows: number, cols: number, within?: WiderStack) => {
    const totalRows = count * rows;
    const parts = { count, totalRows, start: 0, ...(within && { within }) };
    tensors.push({ name: `${name}.weight`, shape: [totalRows, cols], stack: parts });
    if (model.hasExpertBiases) tensors.push({ name: `${name}.bias`, shape: [rows], count });
  };
  const { layerInputWidth = 0 } = model;
  const aroundLayers = () => {
    table("token_embd", vocabSize, width);
    norm("output_norm", width);
    matrix("output", vocabSize, width);
    for (const name of ROPE_FACTORS) vector(name, model.ropes[0]!.dim / 2);
    if (layerInputWidth === 0) return;
    const totalInputWidth = model.layers.length * layerInputWidth;
    table("per_layer_token_embd", vocabSize, totalInputWidth);
    table("per_layer_model_proj", totalInputWidth, width);
    vector("per_layer_proj_norm.weight", layerInputWidth);
  };
  const aroundDraft = (layer: string) => {
    table(`${layer}nextn.eh_proj`, width, 2 * width);
    for (const name of ["enorm", "hnorm", "shared_head_norm"]) vector(`${layer}nextn.${name}.weight`, width);
    for (const name of ["embed_tokens", "shared_head_head"]) table(`${layer}nextn.${name}`, vocabSize, width);
  };
  const recurrent = (layer: string, mixer: DeltaMixer) => {
    const { numHeads, valueDim, numTaps } = mixer;
    const inner = numHeads * valueDim;
    const mixed = mixedWidth(mixer);
    table(`${layer}ssm_in`, mixed + inner, width);
    table(`${layer}attn_qkv`, mixed, width);
    table(`${layer}attn_gate`, inner, width);
    table(`${layer}ssm_ba`, 2 * numHeads, width);
    table(`${layer}ssm_alpha`, numHeads, width);
    table(`${layer}ssm_beta`, numHeads, width);
    tensors.push({ name: `${layer}ssm_conv1d.weight`, shape: [numTaps], count: mixed });
    vector(`${layer}ssm_a`, numHeads);
    vector(`${layer}ssm_dt.bias`, numHeads);
    vector(`${layer}ssm_norm.weight`, valueDim);
    table(`${layer}ssm_out`, width, inner);
  };
  // Files have vectors of heads, and the norm's gain by group, in two dimensions.
  const mamba = (layer: string, mixer: MambaMixer) => {
    const { numHeads, numGroups, numTaps } = mixer;
    const [mixed, inner] = [mixedWidth(mixer), mixedOutputs(mixer)];
    matrix(`${layer}ssm_in`, inner + mixed + numHeads, width);
    tensors.push({ name: `${layer}ssm_conv1d.weight`, shape: [numTaps], count: mixed });
    vector(`${layer}ssm_conv1d.bias`, mixed);
    for (const name of ["ssm_a", "ssm_d"]) tensors.push({ name: `${layer}${name}`, shape: [1], count: numHeads });
    vector(`${layer}ssm_dt.bias`, numHeads);
    tensors.push({ name: `${layer}ssm_norm.weight`, shape: [inner / numGroups], count: numGroups });
    matrix(`${layer}ssm_out`, width, inner);
  };
  // Gate above up in one matrix, which files have apart where the architecture has a Mamba-2.
  const gateAndUp = (layer: string, end: string, inner: number) => {
    const [gate, up] = [`${layer}ffn_gate${end}.weight`, `${layer}ffn_up${end}.weight`];
    const within = (start: number) => ({ name: up, totalRows: 2 * inner, start });
    tensors.push({ name: gate, shape: [inner, width], within: within(0) });
    tensors.push({ name: up, shape: [inner, width], within: within(inner) });
  };
  const { isOnePart = false, hasMamba = false } = factsOf(model.architecture);
  const convolution = (layer: string, { width: columns, numTaps }: ConvolutionMixer) => {
    table(`${layer}shortconv.in_proj`, 3 * columns, width);
    tensors.push({ name: `${layer}shortconv.conv.weight`, shape: [numTaps], count: columns });
    table(`${layer}shortconv.out_proj`, width, columns);
  };
  const latent = (layer: string, mixer: LatentMixer) => {
    const { numHeads, headDim, valueDim, kvRank, ropeDim, queryRank } = mixer;
    const queryRows = numHeads * (headDim + ropeDim);
    if (queryRank === 0) table(`${layer}attn_q`, queryRows, width);
    else {
      matrix(`${layer}attn_q_a`, queryRank, width);
      vector(`${layer}attn_q_a_norm.weight`, queryRank);
      table(`${layer}attn_q_b`, queryRows, queryRank);
    }
    matrix(`${layer}attn_kv_a_mqa`, kvRank + ropeDim, width);
    vector(`${layer}attn_kv_a_norm.weight`, kvRank);
    stack(`${layer}attn_k_b`, numHeads, kvRank, headDim);
    stack(`${layer}attn_v_b`, numHeads, valueDim, kvRank);
    unread.push(`${layer}attn_kv_b.weight`);
    matrix(`${layer}attn_output`, width, numHeads * valueDim);
  };
  const attention = (layer: string, { mixer }: AttentionLayer) => {
    const numQueryRows = queryWidth({ mixer });
    const numKeyRows = keyWidth({ mixer });
    if (source.has(`${layer}attn_qkv.weight`)) matrix(`${layer}attn_qkv`, numQueryRows + 2 * numKeyRows, width);
    else {
      matrix(`${layer}attn_q`, mixer.isGated ? 2 * numQueryRows : numQueryRows, width);
      if (mixer.keysOf === undefined) {
        matrix(`${layer}attn_k`, numKeyRows, width);
        if (!mixer.areValuesKeys) matrix(`${layer}attn_v`, numKeyRows, width);
      } else unread.push(...KEY_TENSORS.map((part) => `${layer}${part}`));
    }
    vector(`${layer}attn_q_norm.weight`, model.normsAllHeads ? numQueryRows : mixer.headDim);
    if (mixer.keysOf === undefined) {
      vector(`${layer}attn_k_norm.weight`, model.normsAllHeads ? numKeyRows : mixer.headDim);
    }
    if (model.hasSinks) vector(`${layer}attn_sinks.weight`, mixer.numHeads);
    matrix(`${layer}attn_output`, width, numQueryRows);
    vector(`${layer}post_attention_norm.weight`, width);
  };
  const layerAt = (each: ServableLayer, index: number) => {
    const { feedForward } = each;
    const layer = `blk.${index}.`;
    if (!model.isPostNormed) norm(`${layer}attn_norm`, width);
    if (isAttention(each)) attention(layer, each);
    else if (each.mixer.kind === "latent") latent(layer, each.mixer);
    else if (each.mixer.kind === "delta") recurrent(layer, each.mixer);
    else if (each.mixer.kind === "mamba") mamba(layer, each.mixer);
    else if (each.mixer.kind === "convolution") convolution(layer, each.mixer);
    if (feedForward.width === 0) return;
    const isGated = feedForward.isGated ?? true;
    const isGateFused = isGated && !source.has(`${layer}ffn_gate.weight`);
    if (!model.isPostNormed && !isOnePart) norm(`${layer}ffn_norm`, width);
    const { width: inner } = feedForward;
    if (feedForward.kind === "experts") {
      const { count } = feedForward;
      table(`${layer}ffn_gate_inp`, count, width);
      if (model.hasExpertBiases) vector(`${layer}ffn_gate_inp.bias`, count);
      // Gate above up of each expert; copies have them apart, as most readers know them.
      const fused = `${layer}ffn_gate_up_exps.weight`;
      const within = (offset: number) => (source.has(fused) ? { name: fused, rows: 2 * inner, offset } : undefined);
      if (isGated) stack(`${layer}ffn_gate_exps`, count, inner, width, within(0));
      stack(`${layer}ffn_up_exps`, count, inner, width, within(inner));
      stack(`${layer}ffn_down_exps`, count, width, inner);
      if (model.routing.hasBias) vector(`${layer}exp_probs_b.bias`, count);
      const { sharedWidth, isSharedGated } = feedForward;
      if (isSharedGated) table(`${layer}ffn_gate_inp_shexp`, 1, width);
      const end = model.hasDenseBesideExperts ? "" : "_shexp";
      if (sharedWidth > 0) {
        if (hasMamba && isGated && !source.has(`${layer}ffn_gate${end}.weight`)) gateAndUp(layer, end, sharedWidth);
        else {
          matrix(`${layer}ffn_gate${end}`, sharedWidth, width);
          matrix(`${layer}ffn_up${end}`, sharedWidth, width);
        }
        matrix(`${layer}ffn_down${end}`, width, sharedWidth);
      }
      if (model.hasDenseBesideExperts) {
        vector(`${layer}ffn_gate_inp.scale`, width);
        vector(`${layer}ffn_down_exps.scale`, count);
        for (const name of NORMS_BESIDE) vector(`${layer}${name}.weight`, width);
      }
    } else {
      if (hasMamba && isGateFused) gateAndUp(layer, "", inner);
      else {
        matrix(`${layer}ffn_gate`, inner, width);
        matrix(`${layer}ffn_up`, isGateFused ? 2 * inner : inner, width);
      }
      matrix(`${layer}ffn_down`, width, inner);
    }
    vector(`${layer}post_ffw_norm.weight`, width);
    if (layerInputWidth > 0) {
      matrix(`${layer}inp_gate`, layerInputWidth, width);
      matrix(`${layer}proj`, width, layerInputWidth);
      vector(`${layer}post_norm.weight`, width);
    }
    vector(`${layer}layer_output_scale.weight`, 1);
  };
  if (part === "layers") {
    aroundLayers();
    model.layers.forEach(layerAt);
  } else {
    model.draftLayers?.forEach((each, index) => {
      layerAt(each, model.layers.length + index);
      aroundDraft(`blk.${model.layers.length + index}.`);
    });
  }
  source.expectNoOthers(new Set([...tensors.flatMap(namesOf), ...unread]));
  return tensors;
}

/** Norms of experts that have a dense part beside them. */
const NORMS_BESIDE = ["post_ffw_norm_1", "pre_ffw_norm_2", "post_ffw_norm_2"];

/** Names under which sources may have the tensor. */
const namesOf = (tensor: ModelTensor): readonly string[] => [
  tensor.name,
  ...(tensor.within === undefined ? [] : [tensor.within.name]),
  ...(tensor.stack?.within === undefined ? [] : [tensor.stack.within.name]),
  ...unstackedTensors(tensor).map(({ ownName }) => ownName),
];
