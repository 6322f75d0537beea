/** Reads a Hugging Face config.json into the engine's one description. Defaults are those of transformers' configuration classes. */

import type { Activation } from "../../backend/ops.js";
import { MillraceError } from "../../core/errors.js";
import { architectureOf, configModelType, type ModelType } from "../../formats/architectures.js";
import { configError, type JsonObject } from "../../formats/files/json.js";
import { type LayerConfig, MODEL_LIMITS, type ModelConfig } from "../config.js";
import { type RopeFactors, ropesFromHf } from "./rope.js";

/** What a `model_type` means here, and what its configuration class takes where the file is silent. */
interface Traits {
  readonly activations: Readonly<Record<string, Activation>>;
  /** Which layers have the sliding window where `layer_types` does not say; whenUsed: from max_window_layers on, if use_sliding_window. */
  readonly windows: "none" | "all" | "period" | "whenUsed";
  readonly isTied: boolean;
  readonly defaults: {
    readonly rmsEps: number;
    readonly ropeBase: number;
    readonly headDim?: number;
    readonly numHeads?: number;
    readonly numKvHeads?: number;
    readonly maxPositions?: number;
    readonly window?: number;
    readonly attentionScalar?: number;
  };
}

const LLAMA: Traits = {
  activations: { silu: "silu" },
  windows: "none",
  isTied: false,
  defaults: { rmsEps: 1e-6, ropeBase: 10_000 },
};
const GEMMA3: Traits = {
  activations: { gelu_pytorch_tanh: "geluTanh" },
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
    attentionScalar: 256,
  },
};
const TRAITS: Readonly<Record<ModelType, Traits>> = {
  llama: LLAMA,
  mistral: { ...LLAMA, windows: "all", defaults: { ...LLAMA.defaults, window: 4096 } },
  qwen2: { ...LLAMA, windows: "whenUsed" },
  qwen3: { ...LLAMA, windows: "whenUsed", defaults: { ...LLAMA.defaults, headDim: 128 } },
  gemma3: GEMMA3,
  gemma3_text: GEMMA3,
  phi3: { ...LLAMA, windows: "all", defaults: { ...LLAMA.defaults, rmsEps: 1e-5 } },
};

/** What loading needs beside the engine's description. */
export interface HfModelConfig {
  readonly config: ModelConfig;
  /** The output matrix is the embedding. */
  readonly isTied: boolean;
  readonly ropeFactors: RopeFactors;
}

/**
 * @param json config.json
 * @param name what the model is called
 * @param vocabSize rows of the embedding
 */
export function modelConfigFromHf(json: JsonObject, name: string, vocabSize: number): HfModelConfig {
  const type = configModelType(json);
  const architecture = architectureOf(type);
  const { defaults, ...traits } = TRAITS[type];
  // Multimodal wrappers keep the language model's part in an object of its own.
  const text = json.object("text_config") ?? json;
  const read = new Reader(text);
  const width = read.size("hidden_size", MODEL_LIMITS.width);
  const numLayers = read.size("num_hidden_layers", MODEL_LIMITS.layers);
  const numHeads = read.size("num_attention_heads", MODEL_LIMITS.heads, defaults.numHeads);
  const numKvHeads = read.size("num_key_value_heads", MODEL_LIMITS.heads, defaults.numKvHeads ?? numHeads);
  const headDim = read.size("head_dim", MODEL_LIMITS.headDim, defaults.headDim ?? Math.floor(width / numHeads));
  const maxPositions = read.size("max_position_embeddings", MODEL_LIMITS.context, defaults.maxPositions);
  if (numHeads % numKvHeads !== 0) {
    throw configError(`expected ${numHeads} query heads in whole groups per key/value head, got ${numKvHeads}`);
  }
  const hasLocalRope = traits.windows === "period";
  const { ropes, contextLength, factors } = ropesFromHf(text, {
    headDim,
    maxPositions,
    defaultBase: defaults.ropeBase,
    hasLocalRope,
  });
  const window = read.window(defaults.window, contextLength);
  const hasWindow = layersWithWindow(text, traits.windows, numLayers);
  const layers = Array.from({ length: numLayers }, (_, layer): LayerConfig => {
    const isLocal = hasWindow(layer);
    return { window: isLocal ? window : 0, rope: isLocal && hasLocalRope ? 1 : 0 };
  });
  const config: ModelConfig = {
    architecture,
    name,
    numLayers,
    width,
    numHeads,
    numKvHeads,
    headDim,
    ffWidth: read.size("intermediate_size", MODEL_LIMITS.ff),
    vocabSize,
    contextLength,
    rmsEps: read.positive("rms_norm_eps", defaults.rmsEps),
    embeddingScale: architecture === "gemma3" ? Math.fround(Math.sqrt(width)) : 1,
    attentionScale: 1 / Math.sqrt(read.attentionScalar(defaults.attentionScalar, headDim)),
    activation: readActivation(text, traits.activations),
    isNeoxRope: true,
    ropes,
    layers,
    pooling: undefined,
  };
  return {
    config: Object.freeze(config),
    isTied: json.boolean("tie_word_embeddings") ?? text.boolean("tie_word_embeddings") ?? traits.isTied,
    ropeFactors: factors,
  };
}

function readActivation(text: JsonObject, known: Readonly<Record<string, Activation>>): Activation {
  const key = text.has("hidden_activation") ? "hidden_activation" : "hidden_act";
  const name = text.string(key);
  const activation =
    name === undefined ? Object.values(known)[0] : Object.hasOwn(known, name) ? known[name] : undefined;
  if (activation !== undefined) return activation;
  throw new MillraceError(
    "architecture_unsupported",
    `expected ${text.nameOf(key)} to be ${Object.keys(known).join(", ")}, got ${name}`,
    { hint: "This variant of the architecture is not served yet." },
  );
}

function layersWithWindow(text: JsonObject, windows: Traits["windows"], numLayers: number): (layer: number) => boolean {
  if (windows === "none") return () => false;
  if (windows === "whenUsed" && text.boolean("use_sliding_window") !== true) return () => false;
  const types = windows === "all" ? undefined : text.strings("layer_types");
  if (types !== undefined) {
    const unknown = types.find((type) => type !== "sliding_attention" && type !== "full_attention");
    if (types.length !== numLayers || unknown !== undefined) {
      throw configError(
        `expected ${text.nameOf("layer_types")} to name ${numLayers} layers sliding_attention or full_attention, got ${unknown ?? types.length}`,
      );
    }
    return (layer) => types[layer] === "sliding_attention";
  }
  if (windows === "all") return () => true;
  const first = text.number("max_window_layers") ?? 28;
  if (windows === "whenUsed") return (layer) => layer >= first;
  const period = new Reader(text).size("sliding_window_pattern", MODEL_LIMITS.layers, 6);
  return (layer) => (layer + 1) % period !== 0;
}

/** Numbers with bounds. */
class Reader {
  constructor(private readonly json: JsonObject) {}

  size(key: string, max: number, fallback?: number): number {
    const value = this.json.number(key) ?? fallback;
    if (value === undefined || !Number.isInteger(value) || value < 1 || value > max) {
      throw configError(`expected ${this.json.nameOf(key)} to be an integer in [1, ${max}], got ${value}`);
    }
    return value;
  }

  positive(key: string, fallback: number): number {
    const value = this.json.number(key) ?? fallback;
    if (value > 0) return value;
    throw configError(`expected ${this.json.nameOf(key)} to be a positive number, got ${value}`);
  }

  /** 0 = none, or as long as the context. An explicit null is none even where the class has a default. */
  window(fallback: number | undefined, contextLength: number): number {
    const isStated = Object.hasOwn(this.json.raw, "sliding_window");
    if (isStated ? !this.json.has("sliding_window") : fallback === undefined) return 0;
    const window = this.size("sliding_window", MODEL_LIMITS.context, fallback);
    return window >= contextLength ? 0 : window;
  }

  /** Attention divides by the root of this. Only classes with a default of their own read the key. */
  attentionScalar(fallback: number | undefined, headDim: number): number {
    return fallback === undefined ? headDim : this.positive("query_pre_attn_scalar", fallback);
  }
}
