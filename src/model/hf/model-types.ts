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
  gpt_oss: "gpt-oss",
  glm4_moe: "glm4moe",
} as const satisfies Readonly<Record<string, Architecture>>;
type ModelType = keyof typeof ARCHITECTURE_BY_TYPE;

export const architectureOf = (type: ModelType): Architecture => ARCHITECTURE_BY_TYPE[type];

export interface TypeTraits {
  readonly activations: Readonly<Record<string, Activation>>;
  /** Which layers have the sliding window where `layer_types` does not say; whenUsed: from max_window_layers on, if use_sliding_window; allWhenUsed: all, if so. */
  readonly windows: "none" | "all" | "period" | "whenUsed" | "allWhenUsed";
  /** Of "period": every so-many-th layer sees everything. */
  readonly period?: number;
  /** Layers with a window have a rope of their own; base: where the file does not say (absent: that of the other layers). */
  readonly localRope?: { readonly base?: number };
  readonly isTied: boolean;
  readonly hasExperts?: true;
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
    /** Share of a head that is rotated. */
    readonly rotatedShare?: number;
  };
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
  seed_oss: {
    ...LLAMA,
    defaults: { ...LLAMA.defaults, headDim: 128, numHeads: 80, numKvHeads: 8, maxPositions: 524_288 },
  },
  glm4_moe: {
    ...LLAMA,
    hasExperts: true,
    defaults: { rmsEps: 1e-5, ropeBase: 10_000, numHeads: 96, numKvHeads: 8, maxPositions: 131_072, rotatedShare: 0.5 },
  },
  gpt_oss: {
    activations: { silu: "clampedSwiglu" },
    windows: "period",
    period: 2,
    isTied: false,
    hasExperts: true,
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
};

const isModelType = (type: string | undefined): type is ModelType =>
  type !== undefined && Object.hasOwn(ARCHITECTURE_BY_TYPE, type);

/** The language model's part of a config: multimodal wrappers keep it in an object of its own. */
export const textConfig = (config: JsonObject): JsonObject => config.object("text_config") ?? config;

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
const UNSERVED_BY_TYPE: Partial<Record<ModelType, readonly string[]>> = {
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
