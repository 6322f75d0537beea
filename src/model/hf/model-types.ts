/** The kinds of models that config.json files name, and what transformers' configuration class of each takes where a file is silent. */
import type { Activation } from "../../backend/ops.js";
import type { JsonObject } from "../../formats/files/json.js";
import { type Architecture, unservedArchitecture, unservedVariant } from "../description/servable.js";

/** `model_type` → architecture. */
const ARCHITECTURE_BY_TYPE = {
  llama: "llama",
  mistral: "mistral",
  ministral3: "mistral3",
  qwen2: "qwen2",
  qwen3: "qwen3",
  qwen3_moe: "qwen3moe",
  mixtral: "llama",
  gemma2: "gemma2",
  gemma3: "gemma3",
  gemma3_text: "gemma3",
  phi3: "phi3",
  smollm3: "smollm3",
  granite: "granite",
  olmo2: "olmo2",
  olmo3: "olmo2",
  seed_oss: "seed_oss",
  bert: "bert",
  roberta: "bert",
  "xlm-roberta": "bert",
  camembert: "bert",
  nomic_bert: "nomic-bert",
  modernbert: "modern-bert",
} as const satisfies Readonly<Record<string, Architecture>>;
type ModelType = keyof typeof ARCHITECTURE_BY_TYPE;

/** @param text the language model's part of the config */
export function architectureOf(type: ModelType, text: JsonObject): Architecture {
  return seesWholeTexts(text) ? "gemma-embedding" : ARCHITECTURE_BY_TYPE[type];
}

/** EmbeddingGemma is a Gemma 3 whose tokens see the whole text. */
export const seesWholeTexts = (text: JsonObject): boolean =>
  text.string("model_type") === "gemma3_text" && text.boolean("use_bidirectional_attention") === true;

export interface TypeTraits {
  readonly activations: Readonly<Record<string, Activation>>;
  /** Which layers have the sliding window where `layer_types` does not say; whenUsed: from max_window_layers on, if use_sliding_window; allWhenUsed: all, if so. */
  readonly windows: "none" | "all" | "period" | "periodFromFirst" | "whenUsed" | "allWhenUsed";
  /** Of "period": every so-many-th layer sees everything; of "periodFromFirst": the first one and each so many after it. */
  readonly period?: number;
  /** Layers with a window have a rope of their own; base: where the file does not say (absent: that of the other layers). */
  readonly localRope?: { readonly base?: number };
  readonly isTied: boolean;
  readonly hasExperts?: true;
  /** Of models that see whole texts. */
  readonly encoder?: EncoderTraits;
  readonly defaults: {
    readonly rmsEps: number;
    readonly ropeBase: number;
    readonly headDim?: number;
    readonly numHeads?: number;
    readonly numKvHeads?: number;
    readonly maxPositions?: number;
    readonly window?: number;
    readonly vocabSize?: number;
    readonly attentionScalar?: number;
    readonly attentionCap?: number;
    readonly logitCap?: number;
  };
}

interface EncoderTraits {
  readonly epsKey: "layer_norm_eps" | "norm_eps";
  /** Norms stand after the sums of sub-layers with their inputs. */
  readonly normsSums: boolean;
  readonly isGated: boolean;
  readonly hasEmbeddingNorm: boolean;
  /** Positions are rows of a table; paddedTable: of which the rows up to the padding token's number stand for no position. */
  readonly positions: "rope" | "table" | "paddedTable";
  readonly numTokenTypes: number;
}

const LLAMA: TypeTraits = {
  activations: { silu: "silu" },
  windows: "none",
  isTied: false,
  defaults: { rmsEps: 1e-6, ropeBase: 10_000 },
};
const GEMMA3: TypeTraits = {
  activations: { gelu_pytorch_tanh: "geluTanh" },
  windows: "period",
  period: 6,
  localRope: { base: 10_000 },
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
const { localRope: _, ...ONE_ROPE } = GEMMA3;
const GEMMA2: TypeTraits = {
  ...ONE_ROPE,
  period: 2,
  defaults: {
    ...GEMMA3.defaults,
    ropeBase: 10_000,
    maxPositions: 8192,
    vocabSize: 256_000,
    attentionCap: 50,
    logitCap: 30,
  },
};
const OLMO2: TypeTraits = { ...LLAMA, defaults: { ...LLAMA.defaults, rmsEps: 1e-5, maxPositions: 2048 } };
const BERT: TypeTraits = {
  activations: { gelu: "gelu", gelu_new: "geluTanh", gelu_pytorch_tanh: "geluTanh", silu: "silu" },
  windows: "none",
  isTied: true,
  encoder: {
    epsKey: "layer_norm_eps",
    normsSums: true,
    isGated: false,
    hasEmbeddingNorm: true,
    positions: "table",
    numTokenTypes: 2,
  },
  defaults: { rmsEps: 1e-12, ropeBase: 10_000, maxPositions: 512, numHeads: 12, vocabSize: 30_522 },
};
const NOMIC_BERT: TypeTraits = {
  ...BERT,
  activations: { silu: "silu", swiglu: "silu" },
  encoder: { ...BERT.encoder!, isGated: true, positions: "rope" },
  defaults: { ...BERT.defaults, ropeBase: 1000, maxPositions: 2048, vocabSize: 30_528 },
};
const MODERN_BERT: TypeTraits = {
  activations: { gelu: "gelu", gelu_pytorch_tanh: "geluTanh", silu: "silu" },
  windows: "periodFromFirst",
  period: 3,
  localRope: { base: 10_000 },
  isTied: true,
  encoder: {
    epsKey: "norm_eps",
    normsSums: false,
    isGated: true,
    hasEmbeddingNorm: true,
    positions: "rope",
    numTokenTypes: 0,
  },
  defaults: {
    rmsEps: 1e-5,
    ropeBase: 160_000,
    maxPositions: 8192,
    numHeads: 12,
    vocabSize: 50_368,
    window: 128,
  },
};
const ROBERTA: TypeTraits = {
  ...BERT,
  encoder: { ...BERT.encoder!, positions: "paddedTable" },
  defaults: { ...BERT.defaults, vocabSize: 50_265 },
};
const TRAITS: Readonly<Record<ModelType, TypeTraits>> = {
  llama: LLAMA,
  mistral: { ...LLAMA, windows: "all", defaults: { ...LLAMA.defaults, window: 4096 } },
  ministral3: {
    ...LLAMA,
    windows: "all",
    defaults: { rmsEps: 1e-5, ropeBase: 1_000_000, headDim: 128, numHeads: 32, numKvHeads: 8, maxPositions: 262_144 },
  },
  qwen2: { ...LLAMA, windows: "whenUsed" },
  qwen3: { ...LLAMA, windows: "whenUsed", defaults: { ...LLAMA.defaults, headDim: 128 } },
  gemma2: GEMMA2,
  gemma3: GEMMA3,
  gemma3_text: GEMMA3,
  qwen3_moe: { ...LLAMA, windows: "allWhenUsed", hasExperts: true },
  mixtral: { ...LLAMA, windows: "all", hasExperts: true, defaults: { ...LLAMA.defaults, rmsEps: 1e-5, ropeBase: 1e6 } },
  phi3: { ...LLAMA, windows: "all", defaults: { ...LLAMA.defaults, rmsEps: 1e-5 } },
  smollm3: {
    ...LLAMA,
    isTied: true,
    defaults: { rmsEps: 1e-6, ropeBase: 2_000_000, numHeads: 16, numKvHeads: 4, maxPositions: 32_768 },
  },
  granite: { ...LLAMA, defaults: { ...LLAMA.defaults, maxPositions: 2048 } },
  olmo2: OLMO2,
  olmo3: {
    ...OLMO2,
    windows: "period",
    period: 4,
    localRope: {},
    defaults: { ...OLMO2.defaults, ropeBase: 500_000, window: 4096 },
  },
  bert: BERT,
  roberta: ROBERTA,
  "xlm-roberta": ROBERTA,
  camembert: ROBERTA,
  nomic_bert: NOMIC_BERT,
  modernbert: MODERN_BERT,
  seed_oss: {
    ...LLAMA,
    defaults: { ...LLAMA.defaults, headDim: 128, numHeads: 80, numKvHeads: 8, maxPositions: 524_288 },
  },
};

const isModelType = (type: string | undefined): type is ModelType =>
  type !== undefined && Object.hasOwn(ARCHITECTURE_BY_TYPE, type);

/** Keys of older files, by those that stand for them here. */
const OLDER_KEYS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  modernbert: {
    rope_theta: "global_rope_theta",
    rope_local_base_freq: "local_rope_theta",
    sliding_window: "local_attention",
    sliding_window_pattern: "global_attn_every_n_layers",
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
    layer_norm_eps: "layer_norm_epsilon",
  },
};

/** The language model's part of a config: multimodal wrappers keep it in an object of its own. */
export function textConfig(config: JsonObject): JsonObject {
  const text = config.object("text_config") ?? config;
  const older = OLDER_KEYS[text.string("model_type") ?? ""];
  if (older === undefined) return text;
  const entries = Object.entries(older).map(([key, stored]) => [key, text.value(stored)] as const);
  return text.withDefaults(Object.fromEntries(entries.filter(([, value]) => value !== undefined)));
}

/** A mistral3 wraps a language model of its own kind or of an older one; the others' kinds are those of their language models. */
function kindOf(config: JsonObject): JsonObject {
  return config.string("model_type") === "mistral3" ? textConfig(config) : config;
}

/** Traits of the wrapper's kind or of the language model's; those of llama, with nothing to assume, for others. */
export function traitsOf(config: JsonObject): TypeTraits {
  const type = [kindOf(config), textConfig(config)].map((part) => part.string("model_type")).find(isModelType);
  return type === undefined ? LLAMA : TRAITS[type];
}

/** Features that would silently change the answers if they were ignored. */
const UNSERVED_KEYS = ["use_bidirectional_attention", "final_logit_softcapping", "attn_logit_softcapping"] as const;
const OF_BERTS = ["is_decoder", "add_cross_attention", "embedding_size", "chunk_size_feed_forward"] as const;
const UNSERVED_BY_TYPE: Partial<Record<ModelType, readonly string[]>> = {
  bert: OF_BERTS,
  roberta: OF_BERTS,
  "xlm-roberta": OF_BERTS,
  camembert: OF_BERTS,
  gemma3_text: ["final_logit_softcapping", "attn_logit_softcapping"],
  nomic_bert: [
    "prenorm",
    "rotary_emb_interleaved",
    "rotary_scaling_factor",
    "num_experts",
    "moe_every_n_layers",
    "causal",
  ],
  gemma2: ["use_bidirectional_attention"],
  smollm3: [...UNSERVED_KEYS, "use_sliding_window"],
};

/**
 * @param type `model_type`
 * @param name the key's name in errors
 * @throws architecture_unsupported, where the embedded engine computes no such models
 */
export function servedModelType(type: string | undefined, name = "model_type"): ModelType {
  if (isModelType(type)) return type;
  const known = Object.keys(ARCHITECTURE_BY_TYPE).join(", ");
  throw unservedArchitecture(`expected ${name} to be one of ${known}, got ${type ?? "nothing"}`);
}

/**
 * @param config config.json
 * @throws architecture_unsupported, where the embedded engine computes no model with it
 */
export function servedTypeOf(config: JsonObject): ModelType {
  const stating = kindOf(config);
  const type = servedModelType(stating.string("model_type"), stating.nameOf("model_type"));
  const text = textConfig(config);
  for (const key of UNSERVED_BY_TYPE[type] ?? UNSERVED_KEYS) {
    const value = text.value(key);
    if (value !== undefined && value !== false && value !== 0) {
      throw unservedVariant(`expected no ${text.nameOf(key)}, got ${String(value)}`);
    }
  }
  return type;
}
