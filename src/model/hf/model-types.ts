/** Which kind of model a config.json names, with the traits of its class, and its keys under the readers' names. */
import { type JsonObject, shownValue } from "../../formats/files/json.js";
import type { WindowFacts } from "../description/architecture-facts.js";
import { type Architecture, factsOf, isEncoder, knownFacts } from "../description/architectures.js";
import { unservedArchitecture, unservedVariant } from "../description/servable.js";
import { GEMMA_EMBEDDING, NOMIC_MOE, TRAITS } from "./class-traits.js";
import { partKinds } from "./mamba.js";
import { NEMOTRON_H_MOE } from "./more-class-traits.js";
import { ANY, type ServedTraits, type TypeTraits } from "./trait-types.js";

export type { ServedTraits, TypeTraits } from "./trait-types.js";

export type ModelType = keyof typeof TRAITS;

/** @param hasExperts whether the model has some, which for one kind decides */
export const architectureOf = (type: ModelType, hasExperts = false): Architecture =>
  (type === "nemotron_h" && hasExperts ? NEMOTRON_H_MOE : TRAITS[type]).architecture;

/** What the class takes where a config.json does not say. */
export const traitsOfClass = (type: ModelType): ServedTraits => TRAITS[type];

/** Windows of models in which layers with a window repeat. */
export const periodicWindows = ({ architecture, windows }: TypeTraits): WindowFacts | undefined =>
  windows === "period" ? knownFacts(architecture).windows : undefined;

const isModelType = (type: string | undefined): type is ModelType => type !== undefined && Object.hasOwn(TRAITS, type);

const GPT2_KEYS = {
  hidden_size: "n_embd",
  num_hidden_layers: "n_layer",
  num_attention_heads: "n_head",
  intermediate_size: "n_inner",
  hidden_act: "activation_function",
  max_position_embeddings: "n_positions",
  rms_norm_eps: "layer_norm_epsilon",
};

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
  lfm3: { rms_norm_eps: "norm_eps" },
  lfm2_moe: {
    rms_norm_eps: "norm_eps",
    tie_word_embeddings: "tie_embedding",
    first_k_dense_replace: "num_dense_layers",
  },
  ernie4_5_moe: {
    num_experts: "moe_num_experts",
    num_experts_per_tok: "moe_k",
    n_shared_experts: "moe_num_shared_experts",
    first_k_dense_replace: "moe_layer_start_index",
    decoder_sparse_step: "moe_layer_interval",
  },
  hunyuan_v1_moe: { num_experts_per_tok: "moe_topk", n_shared_experts: "num_shared_expert" },
  bailing_moe: { n_shared_experts: "num_shared_experts" },
  bailing_moe_v2: { n_shared_experts: "num_shared_experts" },
  nemotron: { rms_norm_eps: "norm_eps" },
  gpt2: GPT2_KEYS,
  gpt_bigcode: GPT2_KEYS,
  exaone: { num_hidden_layers: "num_layers", rms_norm_eps: "layer_norm_epsilon", hidden_act: "activation_function" },
  gpt_neox: {
    rms_norm_eps: "layer_norm_eps",
    rope_theta: "rotary_emb_base",
    partial_rotary_factor: "rotary_pct",
  },
  phi: { rms_norm_eps: "layer_norm_eps" },
  opt: { intermediate_size: "ffn_dim", hidden_act: "activation_function" },
  nemotron_h: { rms_norm_eps: "layer_norm_epsilon", hidden_act: "mlp_hidden_act" },
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
  const stated = config.object("text_config") ?? config;
  const text =
    stated.string("model_type") === "nemotron_h"
      ? stated.withDefaults({ num_hidden_layers: partKinds(stated)?.length })
      : stated;
  const older = OLDER_KEYS[text.string("model_type") ?? ""];
  if (older === undefined) return text;
  const entries = Object.entries(older).map(([key, stored]) => [key, uniform(text.value(stored))] as const);
  return text.withDefaults(Object.fromEntries(entries.filter(([, value]) => value !== undefined)), older);
}

/** The value that a list has for every layer; all else as it is. */
const uniform = (value: unknown): unknown =>
  Array.isArray(value) && value.length > 0 && value.every((each) => each === value[0]) ? value[0] : value;

/** Around language models of several kinds, a mistral3 around its own kind or an older one. */
const WRAPPERS = ["mistral3", "internvl", "llava", "llava_next", "llava_onevision", "idefics3", "smolvlm"];

/** The other wrappers' kinds are those of their language models. */
function kindOf(config: JsonObject): JsonObject {
  return WRAPPERS.includes(config.string("model_type") ?? "") ? textConfig(config) : config;
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
  if (type === "nemotron_h" && partKinds(textConfig(config))?.includes("moe")) return NEMOTRON_H_MOE;
  // Both kinds have one name.
  if (config.strings("architectures")?.includes("BailingMoeV2ForCausalLM")) return TRAITS.bailing_moe_v2;
  return hasExperts(config) ? NOMIC_MOE : TRAITS[type];
}

/** Features that would silently change the answers if they were ignored. */
function unservedKeys({ architecture, unservedKeys: ofClass = [] }: ServedTraits): readonly string[] {
  const { caps, noRopePeriod, mayCapLogits, mayShareKeys } = factsOf(architecture);
  return [
    ...(isEncoder(architecture) ? [] : [WHOLE_TEXTS_KEY]),
    // Keys in which similar models state the scaling that Ministral 3 has in its rope settings.
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
      throw unservedVariant(`expected no ${text.nameOf(key)}, got ${shownValue(value)}`);
    }
  }
  for (const [key, served] of Object.entries(traits.servedValues ?? {})) {
    const value = text.value(key);
    if (value === undefined || served.some((each) => each === value)) continue;
    throw unservedVariant(`expected ${text.nameOf(key)} to be ${served.join(" or ")}, got ${shownValue(value)}`);
  }
  return traits;
}
