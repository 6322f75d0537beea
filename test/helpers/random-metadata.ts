/** The keys that a tiny random model's file has for its architecture. */
import { arr, bool, f32, str, u32, type WritableValue } from "../../src/formats/gguf/write.js";
import { epsKeyOf } from "../../src/model/gguf/names.js";
import type { Dimensions } from "./random-dimensions.js";
import { EXPERT_ARCHITECTURES, SLIDING_WINDOW } from "./random-families.js";
import { CONVOLUTION_TAPS, DELTA, gemma4Metadata, LATENT, mambaMetadata } from "./random-mixers.js";

/** Keys of a tiny random model's file, without its vocabulary. */
export function modelMetadata(dimensions: Dimensions): Record<string, WritableValue> {
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
    case "chatglm":
    case "nemotron":
      return { "rope.dimension_count": u32(headDim / 2) };
    case "command-r":
      return { logit_scale: f32(0.3) };
    case "cohere2":
      return { ...window, logit_scale: f32(0.3) };
    case "phi2":
    case "gptneox":
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
