/**
 * The kinds of models that config.json files name, and what transformers' configuration class of each takes where a
 * file is silent. size: one table, a row for each kind
 */
import type { JsonObject } from "../../formats/files/json.js";
import { type Architecture, factsOf, isEncoder, type WindowFacts } from "../description/architectures.js";
import { unservedArchitecture, unservedVariant } from "../description/servable.js";
import { ANY, LLAMA, MORE_TRAITS } from "./more-types.js";
import type { EncoderTraits, ServedTraits, TypeTraits } from "./type-traits.js";

const GEMMA3: ServedTraits = {
  architecture: "gemma3",
  windows: "period",
  isTied: true,
  defaults: {
    rmsEps: 1e-6,
    ropeBase: 1_000_000,
    headDim: 256,
    numHeads: 8,
    numKvHeads: 4,
    maxPositions: 131_072,
    window: 4096,
    vocabSize: 262_208,
    attentionScalar: 256,
  },
};
const GEMMA4: ServedTraits = {
  architecture: "gemma4",
  windows: "period",
  isTied: true,
  experts: { count: 0, active: 0, width: 0, widthKey: "moe_intermediate_size", hasChoice: false },
  defaults: {
    rmsEps: 1e-6,
    ropeBase: 1_000_000,
    ffWidth: 9216,
    headDim: 256,
    globalHeadDim: 512,
    numHeads: 8,
    numKvHeads: 4,
    maxPositions: 131_072,
    window: 512,
    vocabSize: 262_144,
    layerInputWidth: 256,
  },
};
/** The 12B model, whose images and sounds have no tower. */
const GEMMA4_UNIFIED: ServedTraits = {
  ...GEMMA4,
  defaults: { ...GEMMA4.defaults, maxPositions: 262_144, window: 1024, layerInputWidth: 0 },
};
const OLMO2: ServedTraits = {
  ...LLAMA,
  architecture: "olmo2",
  defaults: { ...LLAMA.defaults, rmsEps: 1e-5, maxPositions: 2048 },
};
/** EmbeddingGemma. */
const GEMMA_EMBEDDING: ServedTraits = { ...GEMMA3, architecture: "gemma-embedding" };

const BERT_ENCODER: EncoderTraits = { epsKey: "layer_norm_eps", numTokenTypes: 2 };
const BERT: ServedTraits = {
  architecture: "bert",
  windows: "none",
  isTied: true,
  activations: { gelu: "gelu", gelu_new: "geluTanh", gelu_pytorch_tanh: "geluTanh", silu: "silu" },
  encoder: BERT_ENCODER,
  unservedKeys: ["is_decoder", "add_cross_attention", "embedding_size", "chunk_size_feed_forward"],
  defaults: { rmsEps: 1e-12, ropeBase: 10_000, maxPositions: 512, numHeads: 12, vocabSize: 30_522 },
};
const ROBERTA: ServedTraits = {
  ...BERT,
  encoder: { ...BERT_ENCODER, isTablePadded: true },
  defaults: { ...BERT.defaults, vocabSize: 50_265 },
};

const NOMIC_UNSERVED = [
  "prenorm",
  "parallel_block",
  "use_rms_norm",
  "rotary_emb_interleaved",
  "rotary_emb_scale_base",
  "rotary_scaling_factor",
  "causal",
] as const;
const NOMIC: ServedTraits = {
  ...BERT,
  architecture: "nomic-bert",
  activations: { silu: "silu", swiglu: "silu" },
  unservedKeys: [...NOMIC_UNSERVED, "num_experts", "moe_every_n_layers"],
  defaults: { ...BERT.defaults, ropeBase: 1000, maxPositions: 2048, vocabSize: 30_528 },
};
/**
 * A nomic_bert with experts (nomic-embed-text v2). transformers has no class for it: defaults are those of Nomic's own
 * code, and its experts must be stated.
 */
const NOMIC_MOE: ServedTraits = {
  ...NOMIC,
  architecture: "nomic-bert-moe",
  activations: { gelu: "gelu" },
  experts: { count: 0, active: 0, width: 0, widthKey: "intermediate_size", hasChoice: true },
  unservedKeys: [...NOMIC_UNSERVED, "expert_choice_router", "moe_normalize_expert_weights", "num_shared_experts"],
  defaults: { ...NOMIC.defaults, rmsEps: 1e-5, ropeBase: 10_000 },
};

const QWEN = { ...LLAMA.defaults, window: 4096 };
const QWEN35: ServedTraits = {
  ...LLAMA,
  architecture: "qwen35",
  defaults: {
    ...LLAMA.defaults,
    ffWidth: 12_288,
    headDim: 256,
    numHeads: 16,
    numKvHeads: 4,
    maxPositions: 32_768,
    vocabSize: 248_320,
    rotatedShare: 0.25,
  },
};
const QWEN35_MOE: ServedTraits = {
  ...QWEN35,
  architecture: "qwen35moe",
  experts: { count: 256, active: 8, width: 512, widthKey: "moe_intermediate_size", hasChoice: false, numShared: 1 },
  defaults: { ...QWEN35.defaults, numKvHeads: 2 },
};

const LFM2: ServedTraits = {
  ...LLAMA,
  architecture: "lfm2",
  isTied: true,
  defaults: {
    rmsEps: 1e-5,
    ropeBase: 1_000_000,
    ffWidth: 12_288,
    numHeads: 32,
    numKvHeads: 8,
    maxPositions: 128_000,
    vocabSize: 65_536,
  },
};

/** By `model_type`. */
const TRAITS = {
  llama: LLAMA,
  mistral: { ...LLAMA, architecture: "mistral", windows: "all", defaults: { ...LLAMA.defaults, window: 4096 } },
  ministral3: {
    ...LLAMA,
    architecture: "mistral3",
    windows: "all",
    defaults: { rmsEps: 1e-5, ropeBase: 1_000_000, headDim: 128, numHeads: 32, numKvHeads: 8, maxPositions: 262_144 },
  },
  qwen2: { ...LLAMA, architecture: "qwen2", windows: "whenUsed", defaults: QWEN },
  qwen3: { ...LLAMA, architecture: "qwen3", windows: "whenUsed", defaults: { ...QWEN, headDim: 128 } },
  qwen3_moe: {
    ...LLAMA,
    architecture: "qwen3moe",
    windows: "allWhenUsed",
    experts: { count: 128, active: 8, width: 768, widthKey: "moe_intermediate_size", hasChoice: true },
    defaults: { ...QWEN, numHeads: 32, numKvHeads: 4, ffWidth: 6144, maxPositions: 32_768, vocabSize: 151_936 },
  },
  qwen3_5: QWEN35,
  qwen3_5_text: QWEN35,
  qwen3_5_moe: QWEN35_MOE,
  qwen3_5_moe_text: QWEN35_MOE,
  qwen3_next: {
    ...QWEN35,
    architecture: "qwen3next",
    experts: {
      count: 512,
      active: 10,
      width: 512,
      widthKey: "moe_intermediate_size",
      hasChoice: true,
      normalises: true,
      numShared: 1,
    },
    defaults: { ...QWEN35.defaults, numKvHeads: 2, ffWidth: 5632, vocabSize: 151_936 },
  },
  mixtral: {
    ...LLAMA,
    windows: "all",
    experts: { count: 8, active: 2, width: 14_336, widthKey: "intermediate_size", hasChoice: false },
    defaults: {
      rmsEps: 1e-5,
      ropeBase: 1_000_000,
      numHeads: 32,
      numKvHeads: 8,
      maxPositions: 131_072,
      vocabSize: 32_000,
    },
  },
  gemma2: {
    ...GEMMA3,
    architecture: "gemma2",
    defaults: { ...GEMMA3.defaults, ropeBase: 10_000, maxPositions: 8192, vocabSize: 256_000 },
  },
  gemma3: GEMMA3,
  gemma3_text: GEMMA3,
  gemma4: GEMMA4,
  gemma4_text: GEMMA4,
  gemma4_unified: GEMMA4_UNIFIED,
  gemma4_unified_text: GEMMA4_UNIFIED,
  phi3: { ...LLAMA, architecture: "phi3", windows: "all", defaults: { ...LLAMA.defaults, rmsEps: 1e-5 } },
  smollm3: {
    ...LLAMA,
    architecture: "smollm3",
    isTied: true,
    defaults: { rmsEps: 1e-6, ropeBase: 2_000_000, numHeads: 16, numKvHeads: 4, maxPositions: 32_768 },
  },
  granite: { ...LLAMA, architecture: "granite", defaults: { ...LLAMA.defaults, maxPositions: 2048 } },
  olmo2: OLMO2,
  olmo3: { ...OLMO2, windows: "period", defaults: { ...OLMO2.defaults, ropeBase: 500_000, window: 4096 } },
  seed_oss: {
    ...LLAMA,
    architecture: "seed_oss",
    defaults: { ...LLAMA.defaults, headDim: 128, numHeads: 80, numKvHeads: 8, maxPositions: 524_288 },
  },
  gpt_oss: {
    ...LLAMA,
    architecture: "gpt-oss",
    windows: "period",
    hasOwnRope: true,
    experts: { count: 128, active: 4, width: 2880, widthKey: "intermediate_size", hasChoice: false },
    defaults: {
      rmsEps: 1e-5,
      ropeBase: 150_000,
      headDim: 64,
      numHeads: 64,
      numKvHeads: 8,
      maxPositions: 131_072,
      window: 128,
      vocabSize: 201_088,
    },
  },
  glm4_moe: {
    ...LLAMA,
    architecture: "glm4moe",
    experts: {
      count: 128,
      active: 8,
      width: 1408,
      widthKey: "moe_intermediate_size",
      hasChoice: true,
      numDenseLayers: 1,
      numShared: 1,
    },
    defaults: {
      rmsEps: 1e-5,
      ropeBase: 10_000,
      ffWidth: 10_944,
      numHeads: 96,
      numKvHeads: 8,
      maxPositions: 131_072,
      vocabSize: 151_552,
      rotatedShare: 0.5,
    },
  },
  ...MORE_TRAITS,
  lfm2: LFM2,
  lfm2_vl: LFM2,
  lfm2_moe: {
    ...LFM2,
    architecture: "lfm2moe",
    experts: {
      count: 32,
      active: 4,
      width: 1792,
      widthKey: "moe_intermediate_size",
      hasChoice: true,
      numDenseLayers: 2,
    },
    defaults: { ...LFM2.defaults, ffWidth: 7168 },
  },
  bert: BERT,
  roberta: ROBERTA,
  "xlm-roberta": ROBERTA,
  camembert: ROBERTA,
  nomic_bert: NOMIC,
  modernbert: {
    architecture: "modern-bert",
    windows: "period",
    isTied: true,
    activations: { gelu: "gelu", gelu_pytorch_tanh: "geluTanh", silu: "silu" },
    encoder: { epsKey: "norm_eps", numTokenTypes: 0 },
    defaults: { rmsEps: 1e-5, ropeBase: 160_000, maxPositions: 8192, numHeads: 12, vocabSize: 50_368, window: 128 },
  },
} as const satisfies Readonly<Record<string, ServedTraits>>;

export type { ServedTraits, TypeTraits };
export type ModelType = keyof typeof TRAITS;

export const architectureOf = (type: ModelType): Architecture => TRAITS[type].architecture;

/** Share of a head that the class rotates where a config.json does not say. */
export const rotatedShareOf = (type: ModelType): number => (TRAITS[type] as ServedTraits).defaults.rotatedShare ?? 1;

/** Windows of models in which layers with a window repeat. */
export const periodicWindows = ({ architecture, windows }: TypeTraits): WindowFacts | undefined =>
  architecture !== undefined && windows === "period" ? factsOf(architecture).windows : undefined;

const isModelType = (type: string | undefined): type is ModelType => type !== undefined && Object.hasOwn(TRAITS, type);

/** For kinds whose files changed their keys, or have their own: that key, by the one that the readers know. */
const OLDER_KEYS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  modernbert: {
    rope_theta: "global_rope_theta",
    rope_local_base_freq: "local_rope_theta",
    sliding_window: "local_attention",
    sliding_window_pattern: "global_attn_every_n_layers",
  },
  cohere: { rms_norm_eps: "layer_norm_eps" },
  cohere2: { rms_norm_eps: "layer_norm_eps" },
  stablelm: { rms_norm_eps: "layer_norm_eps" },
  starcoder2: { rms_norm_eps: "norm_epsilon" },
  lfm2: { rms_norm_eps: "norm_eps", tie_word_embeddings: "tie_embedding" },
  lfm2_moe: {
    rms_norm_eps: "norm_eps",
    tie_word_embeddings: "tie_embedding",
    first_k_dense_replace: "num_dense_layers",
  },
  nomic_bert: {
    hidden_size: "n_embd",
    num_hidden_layers: "n_layer",
    num_attention_heads: "n_head",
    intermediate_size: "n_inner",
    hidden_act: "activation_function",
    // Positions beyond those of the training would need a rope that stretches with the text.
    max_position_embeddings: "max_trained_positions",
    rope_theta: "rotary_emb_base",
    partial_rotary_factor: "rotary_emb_fraction",
    num_experts_per_tok: "moe_top_k",
    layer_norm_eps: "layer_norm_epsilon",
  },
};

/** The key of a norm's epsilon in files of the kind. */
export const epsKeyOf = (type: ModelType): string => OLDER_KEYS[type]?.rms_norm_eps ?? "rms_norm_eps";

/** The language model's part of a config: multimodal wrappers keep it in an object of its own. */
export function textConfig(config: JsonObject): JsonObject {
  const text = config.object("text_config") ?? config;
  const older = OLDER_KEYS[text.string("model_type") ?? ""];
  if (older === undefined) return text;
  const entries = Object.entries(older).map(([key, stored]) => [key, text.value(stored)] as const);
  return text.withDefaults(Object.fromEntries(entries.filter(([, value]) => value !== undefined)));
}

/**
 * A mistral3 wraps a language model of its own kind or of an older one; the others' kinds are those of their language
 * models.
 */
function kindOf(config: JsonObject): JsonObject {
  return config.string("model_type") === "mistral3" ? textConfig(config) : config;
}

/** A Gemma 3 whose tokens see the whole text. */
const seesWholeTexts = (config: JsonObject): boolean =>
  config.string("model_type") === "gemma3_text" && config.boolean(WHOLE_TEXTS_KEY) === true;

const WHOLE_TEXTS_KEY = "use_bidirectional_attention";

const hasExperts = (config: JsonObject): boolean =>
  config.string("model_type") === "nomic_bert" && (config.number("num_experts") ?? 0) > 0;

/** Traits of the wrapper's kind or of the language model's; for others, with nothing to assume. */
export function traitsOf(config: JsonObject): TypeTraits {
  const type = [kindOf(config), textConfig(config)].map((part) => part.string("model_type")).find(isModelType);
  return type === undefined ? ANY : traitsOfType(type, config);
}

function traitsOfType(type: ModelType, config: JsonObject): ServedTraits {
  if (seesWholeTexts(config)) return GEMMA_EMBEDDING;
  return hasExperts(config) ? NOMIC_MOE : TRAITS[type];
}

/** Features that would silently change the answers if they were ignored. */
function unservedKeys({ architecture, unservedKeys: ofClass = [] }: ServedTraits): readonly string[] {
  const { caps, noRopePeriod, mayCapLogits, mayShareKeys } = factsOf(architecture);
  return [
    ...(isEncoder(architecture) ? [] : [WHOLE_TEXTS_KEY]),
    // Where other models of the kind have what Ministral 3's rope settings say.
    "llama_4_scaling",
    "llama_4_scaling_beta",
    "attn_temperature_tuning",
    ...(caps === undefined ? ["attn_logit_softcapping"] : []),
    ...(caps === undefined && !mayCapLogits ? ["final_logit_softcapping"] : []),
    ...(mayShareKeys ? [] : ["num_kv_shared_layers", "hidden_size_per_layer_input"]),
    ...(noRopePeriod === undefined ? [] : ["use_sliding_window"]),
    ...ofClass,
  ];
}

/**
 * @param type `model_type`
 * @param name the key's name in errors
 * @throws architecture_unsupported, where the embedded engine computes no such models
 */
export function servedModelType(type: string | undefined, name = "model_type"): ModelType {
  if (isModelType(type)) return type;
  const known = Object.keys(TRAITS).join(", ");
  throw unservedArchitecture(`expected ${name} to be one of ${known}, got ${type ?? "nothing"}`);
}

/**
 * @param config config.json
 * @throws architecture_unsupported, where the embedded engine computes no model with it
 */
export function servedTraitsOf(config: JsonObject): ServedTraits {
  const stating = kindOf(config);
  const type = servedModelType(stating.string("model_type"), stating.nameOf("model_type"));
  const traits = traitsOfType(type, config);
  const text = textConfig(config);
  for (const key of unservedKeys(traits)) {
    const value = text.value(key);
    // Tokens of images alone see later ones.
    const isOfImages = key === WHOLE_TEXTS_KEY && value === "vision";
    if (value !== undefined && value !== false && value !== 0 && !isOfImages) {
      throw unservedVariant(`expected no ${text.nameOf(key)}, got ${String(value)}`);
    }
  }
  return traits;
}
