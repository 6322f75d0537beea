/**
 * Writes tiny models of every architecture with random weights and a byte-level vocabulary, under llama.cpp's names.
 */

import { str, u32, type WritableTensor, type WritableValue, writeGguf } from "../../src/formats/gguf/write.js";
import type { Dimensions, RandomArchitecture, RandomModelOptions } from "./random-dimensions.js";
import {
  CLASSIC,
  CONVOLUTION_ARCHITECTURES,
  DELTA_ARCHITECTURES,
  DENSE_FIRST,
  EXPERT_ARCHITECTURES,
  GATELESS,
  HEAD_NORMED,
  LAYERS,
  MAMBA_ARCHITECTURES,
  NORM_BIASED,
  ONE_NORMED,
  POSITION_TABLED,
  QKV_FUSED,
  SCORE_BIASED,
  SHARED_PARTS,
  TIED_ARCHITECTURES,
} from "./random-families.js";
import { laidOut, withScales } from "./random-layouts.js";
import { modelMetadata } from "./random-metadata.js";
import {
  convolutionTensors,
  gemma4Globals,
  gemma4Tensors,
  halfRope,
  latentTensors,
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

function tensorsOf(dimensions: Dimensions): readonly WritableTensor[] {
  const { architecture, width, vocab } = dimensions;
  const create = new TensorFactory(dimensions);
  const isTied = TIED_ARCHITECTURES.includes(architecture);
  const finalNorm = CONVOLUTION_ARCHITECTURES.includes(architecture) ? "token_embd_norm.weight" : "output_norm.weight";
  const tensors = [create.matrix("token_embd.weight", width, vocab), create.norm(finalNorm, width)];
  if (!isTied) tensors.push(create.matrix("output.weight", width, vocab));
  if (NORM_BIASED.includes(architecture)) tensors.push(create.bias("output_norm.bias", width));
  if (POSITION_TABLED.includes(architecture)) {
    tensors.push(create.matrix("position_embd.weight", width, dimensions.contextLength));
  }
  if (architecture === "phimoe" || architecture === "phi2") tensors.push(create.bias("output.bias", vocab));
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
    : ["attn_norm", ...(ONE_NORMED.includes(architecture) ? [] : [normBeforeFf])].map((part) =>
        create.norm(name(`${part}.weight`), width),
      );
  const isGateFused = ["phi3", "glm4", "chatglm"].includes(architecture);
  const isQkvFused = QKV_FUSED.includes(architecture);
  if (isQkvFused) {
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
  const hasAllBiases = architecture === "starcoder2" || CLASSIC.includes(architecture);
  if (NORM_BIASED.includes(architecture)) {
    tensors.push(create.bias(name("attn_norm.bias"), width));
    if (!ONE_NORMED.includes(architecture)) tensors.push(create.bias(name("ffn_norm.bias"), width));
  }
  if (hasAllBiases) {
    tensors.push(create.bias(name("attn_output.bias"), width), create.bias(name("ffn_up.bias"), ff));
    tensors.push(create.bias(name("ffn_down.bias"), width));
  }
  if (architecture === "phimoe") tensors.push(create.bias(name("attn_output.bias"), width));
  const isQueryBiased = architecture.startsWith("qwen2") || ["seed_oss", "glm4", "chatglm"].includes(architecture);
  if (hasAllBiases && isQkvFused) tensors.push(create.bias(name("attn_qkv.bias"), queryRows + 2 * kvRows));
  else if (hasAllBiases || isQueryBiased || isGptOss || isGlm || architecture === "phimoe") {
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
