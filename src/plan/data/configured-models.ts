/**
 * Well-known models with layers of different kinds, as the numbers of their `config.json` files; that file's reader
 * makes the layers. Omitted numbers have the defaults of transformers' configuration classes.
 */
import { JsonObject } from "../../formats/files/json.js";
import { describeConfig } from "../../model/hf/describe.js";
import type { KnownModel } from "./model-row.js";

type Traits = Omit<KnownModel, "layers" | "width" | "vocabSize" | "contextLength" | "isTied" | "modelType">;

type Config = Readonly<Record<string, unknown>> & { readonly model_type: string };

function configured(traits: Traits, config: Config): KnownModel {
  const description = describeConfig(new JsonObject(config, `config.json of ${traits.repo}`, ""), traits.name);
  return { ...description, ...traits, modelType: config.model_type };
}

const QWEN36 = { family: "qwen3.6", toolCalls: "qwen3-coder", thoughts: "qwen3" } as const;
const QWEN36_CONFIG = { vocab_size: 248_320, max_position_embeddings: 262_144, tie_word_embeddings: false } as const;
const QWEN3_NEXT = { family: "qwen3-next", publishedParameters: 80e9 } as const;
const QWEN3_NEXT_CONFIG = {
  model_type: "qwen3_next",
  hidden_size: 2048,
  num_hidden_layers: 48,
  num_attention_heads: 16,
  num_key_value_heads: 2,
  max_position_embeddings: 262_144,
} as const;

const GEMMA4 = { family: "gemma4", toolCalls: "gemma4", thoughts: "gemma4" } as const;
/** Every `period`-th layer (sixth; fifth in the E2B) and the last one attend to the whole context. */
const gemma4Layers = (count: number, period: number): readonly string[] =>
  Array.from({ length: count }, (_, index) =>
    (index + 1) % period === 0 || index === count - 1 ? "full_attention" : "sliding_attention",
  );
/**
 * Approximate parameters of the small models' vision and audio towers: the card counts them, text does not use them.
 */
const TOWERS = 0.5e9;
/** The larger models: layers with full attention use keys as values too, and no layer has its own inputs. */
const WIDE_GEMMA4_CONFIG = {
  model_type: "gemma4",
  attention_k_eq_v: true,
  hidden_size_per_layer_input: 0,
  max_position_embeddings: 262_144,
  sliding_window: 1024,
} as const;

/** Both have the numbers of their classes. */
const ERNIE = { family: "ernie4.5" } as const;

const LFM2 = { family: "lfm2", toolCalls: "lfm2" } as const;
const lfm2Config = (count: number, attending: readonly number[]) => ({
  hidden_size: 2048,
  num_hidden_layers: count,
  layer_types: Array.from({ length: count }, (_, i) => (attending.includes(i) ? "full_attention" : "conv")),
});

const GRANITE4 = { family: "granite4", toolCalls: "hermes" } as const;
/** Four layers in forty are attention layers, without position encoding. */
const GRANITE4_CONFIG = {
  model_type: "granitemoehybrid",
  num_hidden_layers: 40,
  layer_types: Array.from({ length: 40 }, (_, i) => (i % 10 === 5 ? "attention" : "mamba")),
  max_position_embeddings: 131_072,
  mamba_d_head: 64,
  mamba_d_state: 128,
  tie_word_embeddings: true,
  vocab_size: 100_352,
} as const;

export const CONFIGURED_MODELS: readonly KnownModel[] = [
  configured(
    { ...ERNIE, name: "ernie-4.5-0.3b", repo: "baidu/ERNIE-4.5-0.3B-PT", publishedParameters: 0.36e9 },
    { model_type: "ernie4_5", hidden_size: 1024, num_hidden_layers: 18 },
  ),
  configured(
    {
      ...ERNIE,
      name: "ernie-4.5-21b-a3b",
      repo: "baidu/ERNIE-4.5-21B-A3B-PT",
      publishedParameters: 21.8e9,
      publishedActiveParameters: 3e9,
    },
    { model_type: "ernie4_5_moe", hidden_size: 2560, num_hidden_layers: 28 },
  ),
  configured(
    {
      ...QWEN36,
      name: "qwen3.6-27b",
      repo: "Qwen/Qwen3.6-27B",
      gguf: "unsloth/Qwen3.6-27B-GGUF",
      checkpoints: { fp8: "Qwen/Qwen3.6-27B-FP8" },
      publishedParameters: 27e9,
    },
    {
      ...QWEN36_CONFIG,
      model_type: "qwen3_5",
      hidden_size: 5120,
      intermediate_size: 17_408,
      num_hidden_layers: 64,
      num_attention_heads: 24,
      num_key_value_heads: 4,
      linear_num_value_heads: 48,
    },
  ),
  configured(
    {
      ...QWEN36,
      name: "qwen3.6-35b-a3b",
      repo: "Qwen/Qwen3.6-35B-A3B",
      gguf: "unsloth/Qwen3.6-35B-A3B-GGUF",
      checkpoints: { fp8: "Qwen/Qwen3.6-35B-A3B-FP8" },
      publishedParameters: 35e9,
      publishedActiveParameters: 3e9,
    },
    {
      ...QWEN36_CONFIG,
      model_type: "qwen3_5_moe",
      hidden_size: 2048,
      num_hidden_layers: 40,
      num_attention_heads: 16,
      num_key_value_heads: 2,
      num_experts: 256,
      num_experts_per_tok: 8,
      moe_intermediate_size: 512,
      shared_expert_intermediate_size: 512,
      linear_num_value_heads: 32,
    },
  ),
  configured(
    {
      ...QWEN3_NEXT,
      name: "qwen3-next-80b-a3b",
      repo: "Qwen/Qwen3-Next-80B-A3B-Instruct",
      gguf: "unsloth/Qwen3-Next-80B-A3B-Instruct-GGUF",
      checkpoints: { fp8: "Qwen/Qwen3-Next-80B-A3B-Instruct-FP8" },
      toolCalls: "hermes",
    },
    QWEN3_NEXT_CONFIG,
  ),
  configured(
    {
      ...QWEN3_NEXT,
      name: "qwen3-coder-next",
      repo: "Qwen/Qwen3-Coder-Next",
      gguf: "unsloth/Qwen3-Coder-Next-GGUF",
      checkpoints: { fp8: "Qwen/Qwen3-Coder-Next-FP8" },
      toolCalls: "qwen3-coder",
    },
    QWEN3_NEXT_CONFIG,
  ),
  configured(
    {
      ...GEMMA4,
      name: "gemma4-e2b",
      repo: "google/gemma-4-E2B-it",
      gguf: "unsloth/gemma-4-E2B-it-GGUF",
      publishedParameters: 5.1e9 - TOWERS,
    },
    {
      model_type: "gemma4",
      hidden_size: 1536,
      intermediate_size: 6144,
      num_hidden_layers: 35,
      num_attention_heads: 8,
      num_key_value_heads: 1,
      num_kv_shared_layers: 20,
      use_double_wide_mlp: true,
      layer_types: gemma4Layers(35, 5),
    },
  ),
  configured(
    {
      ...GEMMA4,
      name: "gemma4-e4b",
      repo: "google/gemma-4-E4B-it",
      gguf: "unsloth/gemma-4-E4B-it-GGUF",
      publishedParameters: 8e9 - TOWERS,
    },
    {
      model_type: "gemma4",
      hidden_size: 2560,
      intermediate_size: 10_240,
      num_hidden_layers: 42,
      num_attention_heads: 8,
      num_key_value_heads: 2,
      num_kv_shared_layers: 18,
      layer_types: gemma4Layers(42, 6),
    },
  ),
  configured(
    {
      ...GEMMA4,
      name: "gemma4-12b",
      repo: "google/gemma-4-12B-it",
      gguf: "unsloth/gemma-4-12b-it-GGUF",
      publishedParameters: 11.96e9,
    },
    {
      ...WIDE_GEMMA4_CONFIG,
      model_type: "gemma4_unified",
      hidden_size: 3840,
      intermediate_size: 15_360,
      num_hidden_layers: 48,
      num_attention_heads: 16,
      num_key_value_heads: 8,
      num_global_key_value_heads: 1,
      layer_types: gemma4Layers(48, 6),
    },
  ),
  configured(
    {
      ...GEMMA4,
      name: "gemma4-26b-a4b",
      repo: "google/gemma-4-26B-A4B-it",
      gguf: "unsloth/gemma-4-26B-A4B-it-GGUF",
      publishedParameters: 25.2e9,
      publishedActiveParameters: 3.8e9,
    },
    {
      ...WIDE_GEMMA4_CONFIG,
      hidden_size: 2816,
      intermediate_size: 2112,
      num_hidden_layers: 30,
      num_attention_heads: 16,
      num_key_value_heads: 8,
      num_global_key_value_heads: 2,
      enable_moe_block: true,
      num_experts: 128,
      top_k_experts: 8,
      moe_intermediate_size: 704,
      layer_types: gemma4Layers(30, 6),
    },
  ),
  configured(
    {
      ...GEMMA4,
      name: "gemma4-31b",
      repo: "google/gemma-4-31B-it",
      gguf: "unsloth/gemma-4-31B-it-GGUF",
      publishedParameters: 30.7e9,
    },
    {
      ...WIDE_GEMMA4_CONFIG,
      hidden_size: 5376,
      intermediate_size: 21_504,
      num_hidden_layers: 60,
      num_attention_heads: 32,
      num_key_value_heads: 16,
      num_global_key_value_heads: 4,
      layer_types: gemma4Layers(60, 6),
    },
  ),
  // These numbers give the parameter counts that the cards state.
  configured(
    {
      ...LFM2,
      name: "lfm2.5-1.2b",
      repo: "LiquidAI/LFM2.5-1.2B-Instruct",
      gguf: "LiquidAI/LFM2.5-1.2B-Instruct-GGUF",
      publishedParameters: 1.17e9,
    },
    { ...lfm2Config(16, [2, 5, 8, 10, 12, 14]), model_type: "lfm2", block_ff_dim: 12_288 },
  ),
  configured(
    {
      ...LFM2,
      name: "lfm2-8b-a1b",
      repo: "LiquidAI/LFM2-8B-A1B",
      gguf: "LiquidAI/LFM2-8B-A1B-GGUF",
      publishedParameters: 8.3e9,
    },
    { ...lfm2Config(24, [2, 6, 10, 14, 18, 21]), model_type: "lfm2_moe" },
  ),
  configured(
    {
      ...GRANITE4,
      name: "granite-4.0-h-tiny",
      repo: "ibm-granite/granite-4.0-h-tiny",
      gguf: "ibm-granite/granite-4.0-h-tiny-GGUF",
      publishedParameters: 6.94e9,
    },
    {
      ...GRANITE4_CONFIG,
      hidden_size: 1536,
      intermediate_size: 512,
      shared_intermediate_size: 1024,
      num_attention_heads: 12,
      num_key_value_heads: 4,
      num_local_experts: 64,
      num_experts_per_tok: 6,
      mamba_n_heads: 48,
    },
  ),
  configured(
    {
      ...GRANITE4,
      name: "granite-4.0-h-small",
      repo: "ibm-granite/granite-4.0-h-small",
      gguf: "ibm-granite/granite-4.0-h-small-GGUF",
      publishedParameters: 32.2e9,
    },
    {
      ...GRANITE4_CONFIG,
      hidden_size: 4096,
      intermediate_size: 768,
      shared_intermediate_size: 1536,
      num_attention_heads: 32,
      num_key_value_heads: 8,
      num_local_experts: 72,
      num_experts_per_tok: 10,
      mamba_n_heads: 128,
    },
  ),
  configured(
    {
      family: "nemotron3",
      name: "nemotron-3-nano-30b-a3b",
      repo: "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
      gguf: "unsloth/Nemotron-3-Nano-30B-A3B-GGUF",
      publishedParameters: 31.6e9,
      toolCalls: "qwen3-coder",
    },
    {
      model_type: "nemotron_h",
      hybrid_override_pattern: "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
      hidden_size: 2688,
      num_attention_heads: 32,
      num_key_value_heads: 2,
      max_position_embeddings: 262_144,
      mamba_num_heads: 64,
      moe_intermediate_size: 1856,
      moe_shared_expert_intermediate_size: 3712,
      n_routed_experts: 128,
      num_experts_per_tok: 6,
    },
  ),
];
