/** Tensors and keys of random models whose layers do not attend over the keys and values of like heads. */
import { arr, bool, f32, u32, type WritableTensor, type WritableValue } from "../../src/formats/gguf/write.js";
import type { Dimensions } from "./random-dimensions.js";
import type { TensorFactory } from "./random-tensors.js";

export const CONVOLUTION_TAPS = 3;
export const LATENT = { headDim: 32, ropeDim: 16, valueDim: 64, kvRank: 96, queryRank: 64 } as const;
const MAMBA = { heads: 4, groups: 2, stateDim: 16, valueDim: 40, taps: 4 } as const;
const NEMOTRON_KINDS = ["mamba", "attention", "feedForward", "mamba", "feedForward"] as const;
export const DELTA = { keyHeads: 2, heads: 4, keyDim: 32, valueDim: 64, taps: 4 } as const;
const LAYER_INPUT_WIDTH = 32;

export function mambaMetadata({ architecture, layers, kvHeads, ff }: Dimensions): Record<string, WritableValue> {
  const { heads, groups, stateDim, valueDim, taps } = MAMBA;
  const ofLayers = (value: (layer: number) => number) =>
    arr(
      "i32",
      Array.from({ length: layers }, (_, i) => value(i)),
    );
  const own: Record<string, WritableValue> =
    architecture === "granitehybrid"
      ? {
          "attention.head_count_kv": ofLayers((layer) => (layer % 2 === 0 ? 0 : kvHeads)),
          "rope.scaling.finetuned": bool(false),
          expert_shared_feed_forward_length: u32(ff),
          "attention.scale": f32(0.1),
          embedding_scale: f32(3),
          residual_scale: f32(0.4),
          logit_scale: f32(0.7),
        }
      : {
          "attention.head_count_kv": ofLayers((layer) => (NEMOTRON_KINDS[layer] === "attention" ? kvHeads : 0)),
          feed_forward_length: ofLayers((layer) => (NEMOTRON_KINDS[layer] === "feedForward" ? ff : 0)),
          ...(architecture === "nemotron_h"
            ? {}
            : {
                expert_shared_feed_forward_length: u32(2 * ff),
                expert_weights_norm: bool(true),
                expert_weights_scale: f32(1.7),
              }),
        };
  return {
    ...own,
    "ssm.conv_kernel": u32(taps),
    "ssm.state_size": u32(stateDim),
    "ssm.group_count": u32(groups),
    "ssm.time_step_rank": u32(heads),
    "ssm.inner_size": u32(heads * valueDim),
  };
}

/** Every second layer sees everything. Its heads are twice as wide, and it has half as many of keys. */
function gemma4Layer({ heads, kvHeads, headDim, layers, ff, sharesKeys }: Dimensions, layer: number) {
  const isFull = layer % 2 === 1;
  const readsOthers = sharesKeys && layer >= layers - 2;
  return {
    isFull,
    kvHeads: isFull ? kvHeads / 2 : kvHeads,
    headDim: isFull ? 2 * headDim : headDim,
    queryRows: heads * headDim * (isFull ? 2 : 1),
    ff: readsOthers ? 2 * ff : ff,
    readsOthers,
  };
}

export function gemma4Metadata(dimensions: Dimensions): Record<string, WritableValue> {
  const { headDim, layers, sharesKeys } = dimensions;
  const each = Array.from({ length: layers }, (_, layer) => gemma4Layer(dimensions, layer));
  const ofKind = (kind: string, size: number) => ({
    [`attention.key_length${kind}`]: u32(size),
    [`attention.value_length${kind}`]: u32(size),
    [`rope.dimension_count${kind}`]: u32(size),
  });
  const lists = {
    "attention.sliding_window_pattern": arr(
      "bool",
      each.map(({ isFull }) => !isFull),
    ),
    "attention.head_count_kv": arr(
      "i32",
      each.map(({ kvHeads }) => kvHeads),
    ),
    feed_forward_length: arr(
      "i32",
      each.map(({ ff }) => ff),
    ),
  };
  return {
    ...ofKind("", 2 * headDim),
    ...ofKind("_swa", headDim),
    ...lists,
    "rope.freq_base_swa": f32(100),
    final_logit_softcapping: f32(6),
    ...(sharesKeys
      ? { "attention.shared_kv_layers": u32(2), embedding_length_per_layer_input: u32(LAYER_INPUT_WIDTH) }
      : {}),
  };
}

/** Of a rope whose first half of pairs turn. */
export function halfRope(numPairs: number): WritableTensor {
  const factors = Float32Array.from({ length: numPairs }, (_, pair) => (pair < numPairs / 2 ? 1 : 1e30));
  const bytes = new Uint8Array(factors.buffer);
  return { name: "rope_freqs.weight", type: "F32", shape: [numPairs], data: () => [bytes] };
}

export function gemma4Globals(create: TensorFactory, dimensions: Dimensions): readonly WritableTensor[] {
  const { headDim, layers, vocab, width, sharesKeys } = dimensions;
  const tensors = [halfRope(headDim)];
  if (!sharesKeys) return tensors;
  const total = layers * LAYER_INPUT_WIDTH;
  return [
    ...tensors,
    create.matrix("per_layer_token_embd.weight", total, vocab),
    create.matrix("per_layer_model_proj.weight", width, total),
    create.norm("per_layer_proj_norm.weight", LAYER_INPUT_WIDTH),
  ];
}

export function gemma4Tensors(create: TensorFactory, dimensions: Dimensions, layer: number): readonly WritableTensor[] {
  const { width, ff: expertFf, experts, sharesKeys } = dimensions;
  const name = (part: string) => `blk.${layer}.${part}`;
  const { isFull, kvHeads, headDim, queryRows, ff, readsOthers } = gemma4Layer(dimensions, layer);
  const norms = ["attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"];
  const ofExperts = experts.count === 0 ? [] : ["post_ffw_norm_1", "pre_ffw_norm_2", "post_ffw_norm_2"];
  const tensors = [...norms, ...ofExperts].map((part) => create.norm(name(`${part}.weight`), width));
  const matrix = (part: string, cols: number, rows: number, count = 0) =>
    tensors.push(create.matrix(name(`${part}.weight`), cols, rows, count));
  matrix("attn_q", width, queryRows);
  tensors.push(create.norm(name("attn_q_norm.weight"), headDim));
  if (!readsOthers) {
    matrix("attn_k", width, kvHeads * headDim);
    // Elsewhere values are keys.
    if (!isFull || sharesKeys) matrix("attn_v", width, kvHeads * headDim);
    tensors.push(create.norm(name("attn_k_norm.weight"), headDim));
  }
  matrix("attn_output", queryRows, width);
  matrix("ffn_gate", width, ff);
  matrix("ffn_up", width, ff);
  matrix("ffn_down", ff, width);
  tensors.push(create.norm(name("layer_output_scale.weight"), 1));
  if (sharesKeys) {
    matrix("inp_gate", width, LAYER_INPUT_WIDTH);
    matrix("proj", LAYER_INPUT_WIDTH, width);
    tensors.push(create.norm(name("post_norm.weight"), width));
  }
  if (experts.count === 0) return tensors;
  tensors.push(create.router(name("ffn_gate_inp.weight"), width, experts.count));
  tensors.push(create.norm(name("ffn_gate_inp.scale"), width), create.norm(name("ffn_down_exps.scale"), experts.count));
  matrix("ffn_gate_exps", width, expertFf, experts.count);
  matrix("ffn_up_exps", width, expertFf, experts.count);
  matrix("ffn_down_exps", expertFf, width, experts.count);
  return tensors;
}

export function latentTensors(
  create: TensorFactory,
  { width, heads, joinsLatents }: Dimensions,
  name: (part: string) => string,
): readonly WritableTensor[] {
  const { headDim, ropeDim, valueDim, kvRank, queryRank } = LATENT;
  const matrix = (part: string, cols: number, rows: number, count = 0) =>
    create.matrix(name(`${part}.weight`), cols, rows, count);
  return [
    matrix("attn_q_a", width, queryRank),
    create.norm(name("attn_q_a_norm.weight"), queryRank),
    matrix("attn_q_b", queryRank, heads * (headDim + ropeDim)),
    matrix("attn_kv_a_mqa", width, kvRank + ropeDim),
    create.norm(name("attn_kv_a_norm.weight"), kvRank),
    ...(joinsLatents
      ? [matrix("attn_kv_b", kvRank, heads * (headDim + valueDim))]
      : [matrix("attn_k_b", headDim, kvRank, heads), matrix("attn_v_b", kvRank, valueDim, heads)]),
    matrix("attn_output", heads * valueDim, width),
  ];
}

export function convolutionTensors(
  create: TensorFactory,
  { width }: Dimensions,
  name: (part: string) => string,
): readonly WritableTensor[] {
  return [
    create.matrix(name("shortconv.in_proj.weight"), width, 3 * width),
    create.taps(name("shortconv.conv.weight"), CONVOLUTION_TAPS, width),
    create.matrix(name("shortconv.out_proj.weight"), width, width),
  ];
}

/** Files have vectors of heads, and the norm's gain by group, in two dimensions. */
export function mambaTensors(
  create: TensorFactory,
  { width }: Dimensions,
  name: (part: string) => string,
): readonly WritableTensor[] {
  const { heads, groups, stateDim, valueDim, taps } = MAMBA;
  const inner = heads * valueDim;
  const mixed = inner + 2 * groups * stateDim;
  return [
    create.matrix(name("ssm_in.weight"), width, inner + mixed + heads),
    create.taps(name("ssm_conv1d.weight"), taps, mixed),
    create.bias(name("ssm_conv1d.bias"), mixed),
    { ...create.decay(name("ssm_a"), heads), shape: [1, heads] },
    { ...create.bias(name("ssm_d"), heads), shape: [1, heads] },
    create.bias(name("ssm_dt.bias"), heads),
    { ...create.norm(name("ssm_norm.weight"), inner), shape: [inner / groups, groups] },
    create.matrix(name("ssm_out.weight"), inner, width),
  ];
}

export function nemotronTensors(
  create: TensorFactory,
  dimensions: Dimensions,
  layer: number,
): readonly WritableTensor[] {
  const { width, heads, kvHeads, headDim, ff, experts } = dimensions;
  const name = (part: string) => `blk.${layer}.${part}`;
  const matrix = (part: string, cols: number, rows: number, count = 0) =>
    create.matrix(name(`${part}.weight`), cols, rows, count);
  const norm = create.norm(name("attn_norm.weight"), width);
  const kind = NEMOTRON_KINDS[layer];
  if (kind === "mamba") return [norm, ...mambaTensors(create, dimensions, name)];
  if (kind === "attention") {
    return [
      norm,
      matrix("attn_q", width, heads * headDim),
      matrix("attn_k", width, kvHeads * headDim),
      matrix("attn_v", width, kvHeads * headDim),
      matrix("attn_output", heads * headDim, width),
    ];
  }
  if (experts.count === 0) return [norm, matrix("ffn_up", width, ff), matrix("ffn_down", ff, width)];
  return [
    norm,
    create.router(name("ffn_gate_inp.weight"), width, experts.count),
    create.bias(name("exp_probs_b.bias"), experts.count),
    matrix("ffn_up_exps", width, ff, experts.count),
    matrix("ffn_down_exps", ff, width, experts.count),
    matrix("ffn_up_shexp", width, 2 * ff),
    matrix("ffn_down_shexp", 2 * ff, width),
  ];
}

export function recurrentTensors(
  create: TensorFactory,
  { architecture, width }: Dimensions,
  name: (part: string) => string,
): readonly WritableTensor[] {
  const { keyHeads, heads, keyDim, valueDim, taps } = DELTA;
  const mixed = 2 * keyHeads * keyDim + heads * valueDim;
  const gates =
    architecture === "qwen3next"
      ? [create.matrix(name("ssm_ba.weight"), width, 2 * heads)]
      : ["ssm_beta", "ssm_alpha"].map((part) => create.matrix(name(`${part}.weight`), width, heads));
  return [
    create.matrix(name("attn_qkv.weight"), width, mixed),
    create.matrix(name("attn_gate.weight"), width, heads * valueDim),
    ...gates,
    create.taps(name("ssm_conv1d.weight"), taps, mixed),
    create.decay(name("ssm_a"), heads),
    create.bias(name("ssm_dt.bias"), heads),
    create.norm(name("ssm_norm.weight"), valueDim),
    create.matrix(name("ssm_out.weight"), heads * valueDim, width),
  ];
}
