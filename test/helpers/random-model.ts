/**
 * Writes tiny models of every architecture with random weights and a byte-level vocabulary, under llama.cpp's names.
 *
 * size: one list of tensors and keys for each architecture, which share the stream of random numbers.
 */

import {
  arr,
  bool,
  f32,
  str,
  u32,
  type WritableTensor,
  type WritableValue,
  writeGguf,
} from "../../src/formats/gguf/write.js";
import { epsKeyOf } from "../../src/model/gguf/names.js";
import type { Dimensions, RandomArchitecture, RandomModelOptions } from "./random-dimensions.js";
import {
  CONVOLUTION_TAPS,
  convolutionTensors,
  DELTA,
  gemma4Globals,
  gemma4Metadata,
  gemma4Tensors,
  halfRope,
  LATENT,
  latentTensors,
  mambaMetadata,
  mambaTensors,
  nemotronTensors,
  recurrentTensors,
} from "./random-mixers.js";
import { TensorFactory } from "./random-tensors.js";
import { createVocabulary, END_OF_TEXT, tokenizerMetadata } from "./random-vocabulary.js";

export type { RandomArchitecture, RandomModelOptions } from "./random-dimensions.js";

/** Sizes a caller may compare with. */
export interface RandomModel {
  readonly path: string;
  readonly numTokens: number;
  readonly eosTokenId: number;
  readonly dimensions: Dimensions;
}

const TIED_ARCHITECTURES: readonly RandomArchitecture[] = [
  "qwen3",
  "qwen3vl",
  "gemma",
  "gemma2",
  "gemma3",
  "gemma4",
  "smollm3",
  "command-r",
  "cohere2",
  "starcoder2",
  "lfm2",
  "lfm2moe",
  "lfm3",
  "ernie4_5",
  "hunyuan-dense",
];
const LAYERS: Partial<Record<RandomArchitecture, number>> = {
  gemma3: 6,
  gemma4: 4,
  smollm3: 4,
  cohere2: 4,
  olmo2: 4,
  exaone4: 4,
  qwen3next: 4,
  qwen35: 4,
  qwen35moe: 4,
  lfm2: 4,
  lfm2moe: 4,
  lfm3: 4,
  "ernie4_5-moe": 4,
  granitehybrid: 4,
  nemotron_h: 5,
  nemotron_h_moe: 5,
};
const SLIDING_WINDOW = 24;
/** With a norm for each head of queries and keys, as also all qwen3 have. */
const HEAD_NORMED: readonly RandomArchitecture[] = [
  "gemma3",
  "dots1",
  "exaone4",
  "hunyuan-dense",
  "hunyuan-moe",
  "bailingmoe2",
];
/** With experts in every layer. */
const EXPERT_ARCHITECTURES: readonly RandomArchitecture[] = [
  "qwen2moe",
  "qwen3moe",
  "qwen3vlmoe",
  "olmoe",
  "granitemoe",
  "dots1",
  "deepseek",
  "gpt-oss",
  "glm4moe",
  "deepseek2",
  "mistral4",
  "qwen3next",
  "qwen35moe",
  "lfm2moe",
  "ernie4_5-moe",
  "hunyuan-moe",
  "minimax-m2",
  "phimoe",
  "bailingmoe",
  "bailingmoe2",
  "granitehybrid",
  "nemotron_h_moe",
];
/** Their first layer has no experts; of ERNIE every second one. */
const DENSE_FIRST: readonly RandomArchitecture[] = [
  "glm4moe",
  "deepseek",
  "deepseek2",
  "mistral4",
  "dots1",
  "lfm2",
  "lfm2moe",
  "ernie4_5-moe",
  "bailingmoe2",
];
/** Their routers' scores have biases. */
const SCORE_BIASED: readonly RandomArchitecture[] = [
  "glm4moe",
  "deepseek2",
  "dots1",
  "lfm2moe",
  "ernie4_5-moe",
  "minimax-m2",
  "bailingmoe2",
];
/** Widths of the parts that every token passes beside its experts, in experts. */
const SHARED_PARTS: Partial<Record<RandomArchitecture, number>> = {
  glm4moe: 2,
  deepseek: 2,
  deepseek2: 2,
  mistral4: 2,
  dots1: 2,
  granitemoe: 2,
  "ernie4_5-moe": 2,
  "hunyuan-moe": 1,
  bailingmoe: 2,
  bailingmoe2: 1,
};
/** Their norms take away the mean, and have biases but those of Cohere. */
const LAYER_NORMED: readonly RandomArchitecture[] = [
  "command-r",
  "cohere2",
  "stablelm",
  "starcoder2",
  "nemotron",
  "phimoe",
];
const GATELESS: readonly RandomArchitecture[] = ["starcoder2", "nemotron", "arcee"];
const PARALLEL: readonly RandomArchitecture[] = ["command-r", "cohere2"];
/** Every second layer of theirs has attention, the others have a recurrent state. */
const DELTA_ARCHITECTURES: readonly RandomArchitecture[] = ["qwen3next", "qwen35", "qwen35moe"];
/** Every second layer of theirs has attention, the others a short convolution. */
const CONVOLUTION_ARCHITECTURES: readonly RandomArchitecture[] = ["lfm2", "lfm2moe", "lfm3"];
/** Layers of theirs have a Mamba-2: every second one of Granite's. Nemotron's are one part each. */
const MAMBA_ARCHITECTURES: readonly RandomArchitecture[] = ["granitehybrid", "nemotron_h", "nemotron_h_moe"];

/** @example writeRandomModel(join(folder, "tiny.gguf"), { architecture: "llama", seed: 1 }) */
export function writeRandomModel(path: string, options: RandomModelOptions): RandomModel {
  const dimensions = completed(options);
  const vocabulary = createVocabulary(dimensions);
  writeGguf(path, {
    metadata: { ...modelMetadata(dimensions), ...tokenizerMetadata(vocabulary), ...dimensions.metadata },
    tensors: withScales(laidOut(tensorsOf(dimensions), dimensions), dimensions),
  });
  return { path, numTokens: dimensions.vocab, eosTokenId: vocabulary.tokens.indexOf(END_OF_TEXT), dimensions };
}

type RandomHeads = "medusa" | "eagle" | "narrow eagle";

/**
 * Trained heads that were not trained, for a model that `writeRandomModel` wrote. A narrow layer has half of its width.
 */
export function writeRandomHeads(path: string, kind: RandomHeads, model: RandomModelOptions): void {
  const { width: modelWidth, heads, headDim, vocab, seed, type } = completed(model);
  const { width, ff } = layerSizes(kind, model);
  const create = new TensorFactory(completed({ architecture: "llama", seed: seed + 1, type }));
  const matrix = (name: string, rows: number, cols: number) => create.matrix(`${name}.weight`, cols, rows);
  const tensors =
    kind === "medusa"
      ? Array.from({ length: RANDOM_HEADS_DEPTH }, (_, depth) => matrix(`heads.${depth}`, width, width))
      : [
          ...["eagle.join_hidden", "eagle.join_embed"].map((name) => matrix(name, width, modelWidth)),
          create.norm("eagle.embed_norm.weight", modelWidth),
          ...["attn_norm", "ffn_norm", "norm"].map((name) => create.norm(`eagle.${name}.weight`, width)),
          matrix("eagle.attn_q", heads * headDim, width),
          matrix("eagle.attn_output", width, heads * headDim),
          ...["eagle.ffn_gate", "eagle.ffn_up"].map((name) => matrix(name, ff, width)),
          matrix("eagle.ffn_down", width, ff),
          ...(kind === "eagle" ? [] : [matrix("eagle.join_state", width, width), matrix("eagle.output", vocab, width)]),
        ];
  writeGguf(path, { metadata: headsMetadata(kind, model), tensors });
}

/** Of a layer that attends to what the model's first layer stored that attends; SmolLM3's fourth, which has no rope. */
export function headsMetadata(kind: RandomHeads, model: RandomModelOptions): Record<string, WritableValue> {
  const { width: modelWidth, vocab } = completed(model);
  const { width, ff } = layerSizes(kind, model);
  const key = (name: string) => `mill-heads.${name}`;
  return {
    "general.architecture": str("mill-heads"),
    [key("kind")]: str(kind === "medusa" ? kind : "eagle"),
    [key("base")]: str("random"),
    [key("depth")]: u32(RANDOM_HEADS_DEPTH),
    [key("embedding_length")]: u32(modelWidth),
    ...(kind === "narrow eagle" ? { [key("layer_length")]: u32(width) } : {}),
    [key("vocab_size")]: u32(vocab),
    [key("past_layer")]: u32(model.architecture === "smollm3" ? 4 : isHybrid(model.architecture) ? 2 : 1),
    [key("feed_forward_length")]: u32(ff),
  };
}

/** Its first layer has no attention. */
const isHybrid = (architecture: RandomArchitecture): boolean =>
  DELTA_ARCHITECTURES.includes(architecture) ||
  CONVOLUTION_ARCHITECTURES.includes(architecture) ||
  MAMBA_ARCHITECTURES.includes(architecture);

function layerSizes(kind: RandomHeads, model: RandomModelOptions) {
  const { width, ff } = completed(model);
  return kind === "narrow eagle" ? { width: width / 2, ff: ff / 2 } : { width, ff };
}

const RANDOM_HEADS_DEPTH = 3;

function completed(options: RandomModelOptions): Dimensions {
  const { width = 128, heads = 4 } = options;
  return {
    layers: LAYERS[options.architecture] ?? 2,
    draftLayers: 0,
    kvHeads: 2,
    headDim: options.architecture.startsWith("qwen3") ? 48 : width / heads,
    ff: EXPERT_ARCHITECTURES.includes(options.architecture) ? 64 : 256,
    experts: EXPERT_ARCHITECTURES.includes(options.architecture)
      ? { count: 8, active: options.architecture === "phimoe" ? 2 : 3 }
      : { count: 0, active: 0 },
    expertLayout: "stacked",
    vocab: 384,
    contextLength: 512,
    type: "F32",
    isDequantised: false,
    hasMatrixScales: false,
    sharesKeys: false,
    joinsLatents: false,
    poolingType: 0,
    markers: { texts: [], areSpecial: false },
    metadata: {},
    ...options,
    width,
    heads,
  };
}

function modelMetadata(dimensions: Dimensions): Record<string, WritableValue> {
  const { architecture, layers, draftLayers, width, heads, kvHeads, headDim, ff, vocab, contextLength } = dimensions;
  const { poolingType, experts } = dimensions;
  const key = (name: string) => `${architecture}.${name}`;
  const hasOwnHeadDim = headDim * heads !== width || architecture.startsWith("qwen3") || architecture === "gemma3";
  return {
    "general.architecture": str(architecture),
    "general.name": str("random"),
    [key("context_length")]: u32(contextLength),
    [key("embedding_length")]: u32(width),
    [key("block_count")]: u32(layers + draftLayers),
    ...(draftLayers === 0 ? {} : { [key("nextn_predict_layers")]: u32(draftLayers) }),
    [key("feed_forward_length")]: u32(ff),
    [key("attention.head_count")]: u32(heads),
    [key("attention.head_count_kv")]: u32(kvHeads),
    [key(epsKeyOf(architecture))]: f32(1e-5),
    [key("rope.freq_base")]: f32(architecture.startsWith("qwen") ? 1e6 : 1e4),
    [key("rope.dimension_count")]: u32(headDim),
    [key("vocab_size")]: u32(vocab),
    ...(experts.count === 0
      ? {}
      : { [key("expert_count")]: u32(experts.count), [key("expert_used_count")]: u32(experts.active) }),
    ...(EXPERT_ARCHITECTURES.includes(architecture) || architecture === "gemma4"
      ? { [key("expert_feed_forward_length")]: u32(ff) }
      : {}),
    ...(poolingType === 0 ? {} : { [key("pooling_type")]: u32(poolingType) }),
    ...(hasOwnHeadDim
      ? { [key("attention.key_length")]: u32(headDim), [key("attention.value_length")]: u32(headDim) }
      : {}),
    ...Object.fromEntries(Object.entries(ownMetadata(dimensions)).map(([name, value]) => [key(name), value])),
  };
}

/** What sets the architecture apart, so that it shows within some dozens of tokens. */
function ownMetadata(dimensions: Dimensions): Record<string, WritableValue> {
  const { architecture, layers, kvHeads, headDim, ff, joinsLatents } = dimensions;
  const window = { "attention.sliding_window": u32(SLIDING_WINDOW) };
  const yarn = {
    "rope.scaling.type": str("yarn"),
    "rope.scaling.factor": f32(16),
    "rope.scaling.original_context_length": u32(32),
  };
  const sharingMetadata = {
    leading_dense_block_count: u32(1),
    expert_shared_count: u32(2),
    expert_gating_func: u32(2),
    expert_weights_norm: bool(true),
    expert_weights_scale: f32(1.7),
    expert_group_count: u32(4),
    expert_group_used_count: u32(2),
  };
  switch (architecture) {
    case "gemma2":
      return { ...window, attn_logit_softcapping: f32(3), final_logit_softcapping: f32(6) };
    case "gemma3":
      return { ...window, "rope.freq_base_swa": f32(1e4) };
    case "gemma4":
      return { ...window, ...gemma4Metadata(dimensions) };
    case "gpt-oss":
    case "olmo2":
      return { ...window, ...yarn };
    case "exaone4":
      return window;
    case "ernie4_5-moe":
      return {
        leading_dense_block_count: u32(1),
        interleave_moe_layer_step: u32(2),
        expert_shared_feed_forward_length: u32(2 * ff),
      };
    case "hunyuan-moe":
      return { expert_shared_feed_forward_length: u32(ff) };
    case "minimax-m2":
      return { "rope.dimension_count": u32(headDim / 2), expert_gating_func: u32(2) };
    case "glm4":
    case "nemotron":
      return { "rope.dimension_count": u32(headDim / 2) };
    case "command-r":
      return { logit_scale: f32(0.3) };
    case "cohere2":
      return { ...window, logit_scale: f32(0.3) };
    case "stablelm":
      return { "rope.dimension_count": u32(headDim / 4) };
    case "starcoder2":
      return window;
    case "deepseek":
      return { leading_dense_block_count: u32(1), expert_shared_count: u32(2) };
    case "qwen2moe":
      return { expert_shared_feed_forward_length: u32(ff) };
    case "deepseek2":
    case "mistral4":
      return {
        ...sharingMetadata,
        ...yarn,
        "rope.scaling.yarn_log_multiplier": f32(0.0707),
        "rope.dimension_count": u32(LATENT.ropeDim),
        "attention.head_count_kv": u32(1),
        "attention.q_lora_rank": u32(LATENT.queryRank),
        "attention.kv_lora_rank": u32(LATENT.kvRank),
        [`attention.key_length${joinsLatents ? "" : "_mla"}`]: u32(LATENT.headDim + LATENT.ropeDim),
        [`attention.value_length${joinsLatents ? "" : "_mla"}`]: u32(LATENT.valueDim),
        ...(joinsLatents
          ? {}
          : {
              "attention.key_length": u32(LATENT.kvRank + LATENT.ropeDim),
              "attention.value_length": u32(LATENT.kvRank),
            }),
        ...(architecture === "mistral4" && {
          expert_gating_func: u32(1),
          "attention.temperature_scale": f32(0.1),
          "attention.temperature_length": u32(16),
        }),
      };
    case "dots1":
      return sharingMetadata;
    case "bailingmoe":
      return { expert_shared_count: u32(2), expert_weights_norm: bool(true) };
    case "bailingmoe2":
      return { ...sharingMetadata, expert_shared_count: u32(1), "rope.dimension_count": u32(headDim / 2) };
    case "glm4moe":
      return { ...sharingMetadata, "rope.dimension_count": u32(headDim / 2) };
    case "qwen3next":
    case "qwen35":
    case "qwen35moe":
      return {
        "rope.dimension_count": u32(16),
        full_attention_interval: u32(2),
        "ssm.group_count": u32(DELTA.keyHeads),
        "ssm.time_step_rank": u32(DELTA.heads),
        "ssm.state_size": u32(DELTA.keyDim),
        "ssm.inner_size": u32(DELTA.heads * DELTA.valueDim),
        "ssm.conv_kernel": u32(DELTA.taps),
        ...(architecture === "qwen35" ? {} : { expert_shared_feed_forward_length: u32(ff) }),
      };
    case "lfm2":
    case "lfm2moe":
    case "lfm3":
      return {
        "attention.head_count_kv": arr(
          "i32",
          Array.from({ length: layers }, (_, layer) => (layer % 2 === 0 ? 0 : kvHeads)),
        ),
        "shortconv.l_cache": u32(CONVOLUTION_TAPS),
        ...(architecture === "lfm2moe" && { leading_dense_block_count: u32(1), expert_gating_func: u32(2) }),
        // Every second layer with attention has a window.
        ...(architecture === "lfm3" && {
          ...window,
          "attention.sliding_window_pattern": arr(
            "bool",
            Array.from({ length: layers }, (_, layer) => layer % 4 === 1),
          ),
        }),
      };
    case "granitehybrid":
    case "nemotron_h":
    case "nemotron_h_moe":
      return mambaMetadata(dimensions);
    case "granite":
    case "granitemoe":
      return {
        ...(architecture === "granite" ? {} : { expert_shared_feed_forward_length: u32(2 * ff) }),
        "attention.scale": f32(0.1),
        embedding_scale: f32(3),
        residual_scale: f32(0.4),
        logit_scale: f32(0.7),
      };
    case "qwen2vl":
    case "qwen3vl":
    case "qwen3vlmoe":
      return { "rope.dimension_sections": arr("i32", [headDim / 4, headDim / 8, headDim / 8, 0]) };
    case "mistral3":
      return { ...yarn, "rope.scaling.yarn_log_multiplier": f32(1), "attention.temperature_scale": f32(0.4) };
    default:
      return {};
  }
}

function tensorsOf(dimensions: Dimensions): readonly WritableTensor[] {
  const { architecture, width, vocab } = dimensions;
  const create = new TensorFactory(dimensions);
  const isTied = TIED_ARCHITECTURES.includes(architecture);
  const finalNorm = CONVOLUTION_ARCHITECTURES.includes(architecture) ? "token_embd_norm.weight" : "output_norm.weight";
  const tensors = [create.matrix("token_embd.weight", width, vocab), create.norm(finalNorm, width)];
  if (!isTied) tensors.push(create.matrix("output.weight", width, vocab));
  if (LAYER_NORMED.includes(architecture) && !PARALLEL.includes(architecture)) {
    tensors.push(create.bias("output_norm.bias", width));
  }
  if (architecture === "phimoe") tensors.push(create.bias("output.bias", vocab));
  if (architecture === "gemma4") tensors.push(...gemma4Globals(create, dimensions));
  if (architecture === "lfm3") tensors.push(halfRope(dimensions.headDim / 2));
  for (let layer = 0; layer < dimensions.layers; layer += 1) tensors.push(...layerTensors(create, dimensions, layer));
  for (let draft = 0; draft < dimensions.draftLayers; draft += 1) {
    const layer = dimensions.layers + draft;
    tensors.push(...layerTensors(create, dimensions, layer), ...nextnTensors(create, dimensions, layer));
  }
  return tensors;
}

/** What stands around a layer that drafts; GLM's has an embedding table and an output matrix of its own. */
function nextnTensors(
  create: TensorFactory,
  { architecture, width, vocab }: Dimensions,
  layer: number,
): readonly WritableTensor[] {
  const name = (part: string) => `blk.${layer}.nextn.${part}.weight`;
  const tables = architecture === "glm4moe" ? ["embed_tokens", "shared_head_head"] : [];
  return [
    create.matrix(name("eh_proj"), 2 * width, width),
    ...["enorm", "hnorm", "shared_head_norm"].map((part) => create.norm(name(part), width)),
    ...tables.map((part) => create.matrix(name(part), width, vocab)),
  ];
}

function layerTensors(create: TensorFactory, dimensions: Dimensions, layer: number): readonly WritableTensor[] {
  const { architecture, width, heads, kvHeads, headDim, ff, experts } = dimensions;
  if (architecture === "gemma4") return gemma4Tensors(create, dimensions, layer);
  if (architecture.startsWith("nemotron_h")) return nemotronTensors(create, dimensions, layer);
  const name = (part: string) => `blk.${layer}.${part}`;
  const queryRows = heads * headDim;
  const kvRows = kvHeads * headDim;
  const isGlm = architecture === "glm4moe";
  const isLatent = architecture === "deepseek2" || architecture === "mistral4";
  const isDelta = DELTA_ARCHITECTURES.includes(architecture);
  const isConvolution = CONVOLUTION_ARCHITECTURES.includes(architecture);
  const isMamba = MAMBA_ARCHITECTURES.includes(architecture);
  const isRecurrent = (isDelta || isConvolution || isMamba) && layer % 2 === 0 && layer < dimensions.layers;
  const hasDenseFirst = DENSE_FIRST.includes(architecture);
  const isDense = (hasDenseFirst && layer === 0) || (architecture === "ernie4_5-moe" && layer % 2 === 0);
  const hasExperts = experts.count > 0 && !isDense;
  const numExperts = hasExperts ? experts.count : 0;
  const exps = hasExperts ? "_exps" : "";
  const isPostNormed = architecture === "olmo2" || architecture === "exaone4";
  const isGptOss = architecture === "gpt-oss";
  // Some values are beyond the bounds of gpt-oss's activation.
  const gain = isGptOss ? 4 : 1;
  const normBeforeFf = architecture === "seed_oss" || isGptOss || isGlm || isDelta ? "post_attention_norm" : "ffn_norm";
  const tensors = isPostNormed
    ? []
    : ["attn_norm", ...(PARALLEL.includes(architecture) ? [] : [normBeforeFf])].map((part) =>
        create.norm(name(`${part}.weight`), width),
      );
  const isGateFused = architecture === "phi3" || architecture === "glm4";
  if (architecture === "phi3" || architecture === "bailingmoe2") {
    tensors.push(create.matrix(name("attn_qkv.weight"), width, queryRows + 2 * kvRows));
  } else {
    if (isLatent) tensors.push(...latentTensors(create, dimensions, name));
    else if (isRecurrent) {
      const ofState = isDelta ? recurrentTensors : isMamba ? mambaTensors : convolutionTensors;
      tensors.push(...ofState(create, dimensions, name));
    } else {
      tensors.push(create.matrix(name("attn_q.weight"), width, isDelta ? 2 * queryRows : queryRows));
      if (architecture === "lfm3") tensors.push(create.matrix(name("attn_gate.weight"), width, heads));
      tensors.push(create.matrix(name("attn_k.weight"), width, kvRows));
      tensors.push(create.matrix(name("attn_v.weight"), width, kvRows));
    }
  }
  if (isGateFused) {
    tensors.push(create.matrix(name("ffn_up.weight"), width, 2 * ff));
  } else {
    tensors.push(...(hasExperts ? [create.router(name("ffn_gate_inp.weight"), width, experts.count)] : []));
    if (!GATELESS.includes(architecture)) {
      tensors.push(create.matrix(name(`ffn_gate${exps}.weight`), width, ff, numExperts, gain));
    }
    tensors.push(create.matrix(name(`ffn_up${exps}.weight`), width, ff, numExperts, gain));
  }
  if (SCORE_BIASED.includes(architecture) && hasExperts) {
    tensors.push(create.bias(name("exp_probs_b.bias"), experts.count));
  }
  const sharedWidth = (SHARED_PARTS[architecture] ?? 0) * ff;
  if (sharedWidth > 0 && hasExperts) {
    tensors.push(create.matrix(name("ffn_gate_shexp.weight"), width, sharedWidth));
    tensors.push(create.matrix(name("ffn_up_shexp.weight"), width, sharedWidth));
    tensors.push(create.matrix(name("ffn_down_shexp.weight"), sharedWidth, width));
  }
  if ((isDelta || isMamba || architecture === "qwen2moe") && hasExperts) {
    if (!isMamba) tensors.push(create.gate(name("ffn_gate_inp_shexp.weight"), width));
    tensors.push(create.matrix(name("ffn_gate_shexp.weight"), width, ff));
    tensors.push(create.matrix(name("ffn_up_shexp.weight"), width, ff));
    tensors.push(create.matrix(name("ffn_down_shexp.weight"), ff, width));
  }
  if (isGptOss) {
    tensors.push(create.bias(name("attn_sinks.weight"), heads), create.bias(name("attn_output.bias"), width));
    tensors.push(create.bias(name("ffn_gate_inp.bias"), experts.count));
    const widths = { ffn_gate: ff, ffn_up: ff, ffn_down: width };
    for (const [part, size] of Object.entries(widths)) {
      tensors.push(create.bias(name(`${part}_exps.bias`), size, experts.count));
    }
  }
  const hasAllBiases = architecture === "starcoder2";
  if (LAYER_NORMED.includes(architecture) && !PARALLEL.includes(architecture)) {
    tensors.push(create.bias(name("attn_norm.bias"), width), create.bias(name("ffn_norm.bias"), width));
  }
  if (hasAllBiases) {
    tensors.push(create.bias(name("attn_output.bias"), width), create.bias(name("ffn_up.bias"), ff));
    tensors.push(create.bias(name("ffn_down.bias"), width));
  }
  if (architecture === "phimoe") tensors.push(create.bias(name("attn_output.bias"), width));
  const isQueryBiased = architecture.startsWith("qwen2") || architecture === "seed_oss" || architecture === "glm4";
  if (hasAllBiases || isQueryBiased || isGptOss || isGlm || architecture === "phimoe") {
    tensors.push(create.bias(name("attn_q.bias"), queryRows));
    tensors.push(create.bias(name("attn_k.bias"), kvRows));
    tensors.push(create.bias(name("attn_v.bias"), kvRows));
  }
  const hasHeadNorms = architecture.startsWith("qwen3") || isConvolution || HEAD_NORMED.includes(architecture);
  if (hasHeadNorms && !isRecurrent) {
    tensors.push(create.norm(name("attn_q_norm.weight"), headDim), create.norm(name("attn_k_norm.weight"), headDim));
  }
  if (architecture === "olmo2" || architecture === "olmoe" || architecture === "minimax-m2") {
    tensors.push(create.norm(name("attn_q_norm.weight"), queryRows), create.norm(name("attn_k_norm.weight"), kvRows));
  }
  if (isPostNormed || ["gemma2", "gemma3", "glm4", "lfm3"].includes(architecture)) {
    tensors.push(create.norm(name("post_attention_norm.weight"), width));
    tensors.push(create.norm(name("post_ffw_norm.weight"), width));
  }
  if (!isRecurrent && !isLatent) tensors.push(create.matrix(name("attn_output.weight"), queryRows, width));
  tensors.push(create.matrix(name(`ffn_down${exps}.weight`), ff, width, numExperts));
  return tensors;
}

/** The experts' tensors in another layout, with the same values. */
function laidOut(tensors: readonly WritableTensor[], { expertLayout, experts }: Dimensions): readonly WritableTensor[] {
  const slicesOf = (tensor: WritableTensor): Buffer[] => {
    const bytes = Buffer.concat([...(tensor.data as () => Iterable<Uint8Array>)()]);
    const size = bytes.length / experts.count;
    return Array.from({ length: experts.count }, (_, e) => bytes.subarray(e * size, (e + 1) * size));
  };
  if (expertLayout === "stacked") return tensors;
  return tensors.flatMap((tensor): WritableTensor[] => {
    const { name, type, shape } = tensor;
    const [cols, rows, count] = shape;
    if (count === undefined) return [tensor];
    if (expertLayout === "apart") {
      const nameOf = (e: number) => name.replace("_exps", `.${e}`);
      return slicesOf(tensor).map((data, e) => ({ name: nameOf(e), type, shape: [cols!, rows!], data: () => [data] }));
    }
    if (name.includes("ffn_up_exps")) return [];
    if (!name.includes("ffn_gate_exps")) return [tensor];
    const up = tensors.find((other) => other.name === name.replace("gate", "up"))!;
    const ups = slicesOf(up);
    const data = slicesOf(tensor).flatMap((gate, e) => [gate, ups[e]!]);
    return [{ name: name.replace("gate", "gate_up"), type, shape: [cols!, 2 * rows!, count], data: () => data }];
  });
}

/** Of one matrix after the other; the mean is about one. */
const MATRIX_SCALES = [1.125, 0.7, -1.3, 0.9];

function withScales(
  tensors: readonly WritableTensor[],
  { type, isDequantised, hasMatrixScales }: Dimensions,
): readonly WritableTensor[] {
  if (!hasMatrixScales) return tensors;
  return tensors.flatMap((tensor, index): WritableTensor[] => {
    const { name, shape, data } = tensor;
    const isMatrix = /^blk\..*\.weight$/.test(name) && shape.length > 1 && !name.includes("ffn_gate_inp");
    if (!isMatrix || tensor.type !== (isDequantised ? "F32" : type)) return [tensor];
    const scales = Float32Array.from({ length: shape[2] ?? 1 }, (_, i) => MATRIX_SCALES[(index + i) % 4]!);
    if (!isDequantised) {
      const bytes = new Uint8Array(scales.buffer);
      return [
        tensor,
        { name: name.replace(".weight", ".scale"), type: "F32", shape: [scales.length], data: () => [bytes] },
      ];
    }
    const scaled = () => {
      const bytes = Buffer.concat([...(data as () => Iterable<Uint8Array>)()]);
      const values = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
      return [
        new Uint8Array(
          values.map((value, i) => value * scales[Math.floor((i * scales.length) / values.length)]!).buffer,
        ),
      ];
    };
    return [{ ...tensor, data: scaled }];
  });
}
