/** The config.json of a model, as transformers' configuration class of its architecture has it. */
import type { TensorSource } from "../../backend/tensor-source.js";
import { MillraceError } from "../../core/errors.js";
import { JsonObject } from "../../formats/files/json.js";
import type { PlainType } from "../../formats/files/plain-values.js";
import { type ExpertsFeedForward, NO_ROPE } from "../../model/description/model-description.js";
import type { Architecture, ServableModel } from "../../model/description/servable.js";
import { unservedVariant } from "../../model/description/servable.js";
import { hasOffsetNorms } from "../../model/hf/names.js";
import { ropesFromHf } from "../../model/hf/rope.js";
import { denseWidthOf, expertsOf, ROPE_FACTORS } from "../weights/tensors.js";

type Json = Record<string, unknown>;

const TORCH_DTYPES: Readonly<Record<PlainType, string>> = { F32: "float32", F16: "float16", BF16: "bfloat16" };

const CLASSES: Readonly<Record<Architecture, readonly [modelType: string, className: string]>> = {
  llama: ["llama", "LlamaForCausalLM"],
  mistral: ["mistral", "MistralForCausalLM"],
  mistral3: ["ministral3", "Ministral3ForCausalLM"],
  qwen2: ["qwen2", "Qwen2ForCausalLM"],
  qwen3: ["qwen3", "Qwen3ForCausalLM"],
  gemma2: ["gemma2", "Gemma2ForCausalLM"],
  qwen3moe: ["qwen3_moe", "Qwen3MoeForCausalLM"],
  gemma3: ["gemma3_text", "Gemma3ForCausalLM"],
  phi3: ["phi3", "Phi3ForCausalLM"],
  smollm3: ["smollm3", "SmolLM3ForCausalLM"],
  granite: ["granite", "GraniteForCausalLM"],
  olmo2: ["olmo2", "Olmo2ForCausalLM"],
  seed_oss: ["seed_oss", "SeedOssForCausalLM"],
  "gpt-oss": ["gpt_oss", "GptOssForCausalLM"],
  glm4moe: ["glm4_moe", "Glm4MoeForCausalLM"],
};
/** One architecture of GGUF files; transformers has another class for its models with windows. */
const OLMO3 = ["olmo3", "Olmo3ForCausalLM"] as const;
const hasLocalRope = ({ architecture, layers }: ServableModel): boolean =>
  architecture === "olmo2" && layers.some(({ mixer }) => mixer.rope === 1);

const HAS_MLP_BIAS: readonly Architecture[] = ["llama", "granite", "smollm3", "seed_oss"];
const HAS_ATTENTION_BIAS: readonly Architecture[] = ["llama", "qwen3", "granite", "smollm3", "olmo2", "gpt-oss"];

const MIXTRAL = ["mixtral", "MixtralForCausalLM"] as const;

function glmJson({ routing, layers }: ServableModel, source: TensorSource, experts: ExpertsFeedForward): Json {
  const numDense = layers.findIndex(({ feedForward }) => feedForward.kind === "experts");
  if (layers.slice(numDense).some(({ feedForward }) => feedForward.kind === "dense")) {
    throw unservedVariant("expected layers without experts at the beginning only");
  }
  return {
    n_routed_experts: experts.count,
    num_experts_per_tok: experts.active,
    moe_intermediate_size: experts.width,
    n_shared_experts: experts.sharedWidth / experts.width,
    first_k_dense_replace: numDense,
    norm_topk_prob: routing.normalises,
    routed_scaling_factor: shortest(routing.scale),
    n_group: routing.numGroups,
    topk_group: routing.numUsedGroups,
    use_qk_norm: source.has("blk.0.attn_q_norm.weight"),
    num_nextn_predict_layers: 0,
  };
}

function expertsJson(model: ServableModel, source: TensorSource, experts: ExpertsFeedForward): Json {
  if (model.architecture === "glm4moe") return glmJson(model, source, experts);
  const { count, active, width } = experts;
  const config: Json = { num_local_experts: count, num_experts_per_tok: active };
  const denseLayers = model.layers.flatMap(({ feedForward }, index) => (feedForward.kind === "dense" ? [index] : []));
  if (model.architecture === "qwen3moe") {
    return {
      ...config,
      moe_intermediate_size: width,
      norm_topk_prob: model.routing.normalises,
      mlp_only_layers: denseLayers,
    };
  }
  if (denseLayers.length > 0 || !model.routing.normalises) {
    throw unservedVariant("expected experts in every layer, whose weights are relative to one another");
  }
  return config;
}

interface TextIds {
  readonly bosId: number | undefined;
  readonly stopIds: ReadonlySet<number>;
}

/** @throws architecture_unsupported, where transformers has no configuration with the model's values */
export function hfConfigOf(
  model: ServableModel,
  source: TensorSource,
  type: PlainType,
  ids: TextIds | undefined,
): Json {
  const experts = expertsOf(model);
  const isMixtral = experts !== undefined && model.architecture === "llama";
  const [modelType, className] = isMixtral ? MIXTRAL : hasLocalRope(model) ? OLMO3 : CLASSES[model.architecture];
  const { mixer } = model.layers[0]!;
  if (model.pooling !== undefined) {
    const message = `expected a model without a pooling of its own, got the pooling ${model.pooling}`;
    throw new MillraceError("architecture_unsupported", message, {
      hint: "A folder's config.json cannot say it: convert the model to a .gguf file.",
    });
  }
  const config: Json = {
    architectures: [className],
    model_type: modelType,
    torch_dtype: TORCH_DTYPES[type],
    vocab_size: model.vocabSize,
    hidden_size: model.width,
    intermediate_size: denseWidthOf(model) ?? experts?.width,
    num_hidden_layers: model.layers.length,
    num_attention_heads: mixer.numHeads,
    num_key_value_heads: mixer.numKvHeads,
    head_dim: mixer.headDim,
    max_position_embeddings: model.contextLength,
    rms_norm_eps: shortest(model.rmsEps),
    tie_word_embeddings: !source.has("output.weight"),
    ...ropeOf(model, source),
    ...windowsOf(model),
    ...(experts === undefined ? {} : expertsJson(model, source, experts)),
    ...partsOf(model, source),
  };
  if (ids?.bosId !== undefined) config.bos_token_id = ids.bosId;
  if (ids !== undefined && ids.stopIds.size > 0) {
    const stops = [...ids.stopIds].sort((a, b) => a - b);
    config.eos_token_id = stops.length === 1 ? stops[0] : stops;
  }
  return config;
}

/** Biases, activation and scale of attention, where the architecture lets a model choose them. */
function partsOf(model: ServableModel, source: TensorSource): Json {
  const hasBias = (part: string) => source.has(`blk.0.${part}.bias`);
  const { architecture, layers, attentionScale } = model;
  if (hasOffsetNorms(architecture)) {
    const scalar = Math.round(1 / attentionScale ** 2);
    const caps = {
      attn_logit_softcapping: model.attentionCap === 0 ? null : shortest(model.attentionCap),
      final_logit_softcapping: model.logitCap === 0 ? null : shortest(model.logitCap),
    };
    const own = architecture === "gemma2" ? caps : {};
    return { hidden_activation: "gelu_pytorch_tanh", query_pre_attn_scalar: scalar, ...own };
  }
  const expected = 1 / Math.sqrt(layers[0]!.mixer.headDim);
  if (architecture !== "granite" && attentionScale !== expected) {
    throw unservedVariant(`expected attention scaled by ${expected}, got ${attentionScale}`);
  }
  const all = (parts: readonly string[]): boolean => {
    const numBiased = parts.filter(hasBias).length;
    if (numBiased === 0 || numBiased === parts.length) return numBiased > 0;
    throw unservedVariant(`expected biases of all of ${parts.join(", ")} or of none, got ${numBiased}`);
  };
  const parts: Json = { hidden_act: "silu" };
  const isMixtral = architecture === "llama" && expertsOf(model) !== undefined;
  const ofInputs = ["attn_q", "attn_k", "attn_v"];
  if (architecture === "seed_oss" || architecture === "glm4moe") parts.attention_bias = all(ofInputs);
  if (architecture === "seed_oss") {
    parts.attention_out_bias = all(["attn_output"]);
  } else if (HAS_ATTENTION_BIAS.includes(architecture) && !isMixtral)
    parts.attention_bias = all([...ofInputs, "attn_output"]);
  if (HAS_MLP_BIAS.includes(architecture) && !isMixtral) parts.mlp_bias = all(["ffn_gate", "ffn_up", "ffn_down"]);
  if (architecture === "granite") {
    parts.attention_multiplier = shortest(attentionScale);
    parts.embedding_multiplier = shortest(model.embeddingScale);
    parts.residual_multiplier = shortest(model.residualScale);
    parts.logits_scaling = shortest(1 / model.logitScale);
  }
  if (architecture === "smollm3") {
    parts.no_rope_layers = layers.map(({ mixer }) => (mixer.rope === NO_ROPE ? 0 : 1));
    parts.use_sliding_window = false;
    // The class's own is beyond smaller vocabularies, which transformers refuses.
    parts.pad_token_id = null;
  }
  return parts;
}

function windowsOf(model: ServableModel): Json {
  const { architecture, layers } = model;
  const windows = layers.map(({ mixer }) => mixer.window);
  const window = Math.max(...windows);
  const types = layers.map(({ mixer }) =>
    mixer.window === 0 && mixer.rope !== 1 ? "full_attention" : "sliding_attention",
  );
  if (hasOffsetNorms(architecture) || hasLocalRope(model) || architecture === "gpt-oss") {
    // A rope of its own without a window: the window is as long as the context.
    const stated = types.includes("sliding_attention") ? window || model.contextLength : null;
    return { sliding_window: stated, layer_types: types };
  }
  if (architecture === "mistral" || architecture === "mistral3" || architecture === "phi3")
    return { sliding_window: window === 0 ? null : window };
  if (window === 0) return {};
  if (!architecture.startsWith("qwen")) {
    throw unservedVariant(`expected a ${architecture} without a sliding window, got one with it`);
  }
  return {
    use_sliding_window: true,
    sliding_window: window,
    max_window_layers: windows.findIndex((size) => size > 0),
    layer_types: types,
  };
}

function ropeOf(model: ServableModel, source: TensorSource): Json {
  const [rope, local] = model.ropes;
  const { headDim } = model.layers[0]!.mixer;
  const { dim, base, scaling, factor, originalContextLength, attentionFactor } = rope!;
  const json: Json = { rope_theta: base };
  // transformers' Olmo3 takes the model's base there too, and has no key for another.
  if (local !== undefined && model.architecture === "gemma3") json.rope_local_base_freq = local.base;
  if (dim !== headDim || model.architecture === "glm4moe") json.partial_rotary_factor = dim / headDim;
  const factors = (name: string) => (source.has(name) ? source.values(name, dim / 2) : undefined);
  const [all, short, long] = ROPE_FACTORS.map(factors);
  if (all !== undefined) json.rope_scaling = llama3Scaling(all, model);
  else if (scaling === "linear") json.rope_scaling = { rope_type: "linear", factor };
  else if (scaling === "yarn") {
    json.rope_scaling = {
      rope_type: "yarn",
      factor,
      original_max_position_embeddings: originalContextLength,
      beta_fast: rope!.betaFast,
      beta_slow: rope!.betaSlow,
      ...(rope!.roundsYarnRange ? {} : { truncate: false }),
      // The whole magnitude: ropeFrequencies multiplies with YaRN's own part of it.
      attention_factor: attentionFactor * (1 + 0.1 * Math.log(factor)),
    };
  } else if (short !== undefined && long !== undefined) {
    json.original_max_position_embeddings = originalContextLength;
    // transformers 4 takes these three keys alone; the magnitude follows from the lengths.
    const stretch = model.contextLength / originalContextLength;
    const inferred = stretch <= 1 ? 1 : Math.sqrt(1 + Math.log(stretch) / Math.log(originalContextLength));
    json.rope_scaling = {
      type: "longrope",
      short_factor: Array.from(short, shortest),
      long_factor: Array.from(long, shortest),
      ...(Math.abs(inferred - attentionFactor) < 1e-5 ? {} : { attention_factor: attentionFactor }),
    };
  }
  if (model.queryScaling !== undefined) {
    const { beta, length } = model.queryScaling;
    json.rope_parameters = {
      rope_type: "default",
      original_max_position_embeddings: length,
      ...(json.rope_scaling ?? {}),
      rope_theta: base,
      llama_4_scaling_beta: shortest(beta),
    };
    delete json.rope_scaling;
  }
  return json;
}

/** Llama 3's settings beside the factor and the original length, the same in all published models. */
const LOW_FREQ_FACTOR = 1;
const HIGH_FREQ_FACTOR = 4;

/** Llama 3's settings, solved from the factors that they lead to: a GGUF file holds only these. */
function llama3Scaling(factors: Float32Array, model: ServableModel): Json {
  const { base, dim } = model.ropes[0]!;
  const factor = shortest(factors.at(-1)!);
  const between = factors.findIndex((value) => value > 1 && value < factor);
  const waveLength = 2 * Math.PI * base ** ((2 * between) / dim);
  const smooth = (1 / factors[between]! - 1 / factor) / (1 - 1 / factor);
  const original = waveLength * (LOW_FREQ_FACTOR + smooth * (HIGH_FREQ_FACTOR - LOW_FREQ_FACTOR));
  const scaling = {
    rope_type: "llama3",
    factor,
    low_freq_factor: LOW_FREQ_FACTOR,
    high_freq_factor: HIGH_FREQ_FACTOR,
    original_max_position_embeddings: Math.round(original),
  };
  const isSolved = between >= 0 && original >= 1;
  const made = isSolved ? factorsOf({ rope_theta: base, rope_scaling: scaling }, model) : undefined;
  if (made?.every((value, i) => Math.abs(value - factors[i]!) <= 1e-4 * value)) return scaling;
  throw unservedVariant("expected rope_freqs.weight to hold factors of Llama 3's kind, got others");
}

function factorsOf(config: Json, { ropes, contextLength }: ServableModel): Float32Array | undefined {
  const context = { headDim: ropes[0]!.dim, maxPositions: contextLength, defaultBase: 10_000, localRope: undefined };
  return ropesFromHf(new JsonObject(config, "config.json", ""), context).factors.all;
}

/** The shortest decimal that is this number as an f32: GGUF stores f32, and 1e-5 should not become 0.000009999999747378752. */
function shortest(value: number): number {
  const rounded = Math.fround(value);
  for (let digits = 1; digits < 9; digits++) {
    const candidate = Number(value.toPrecision(digits));
    if (Math.fround(candidate) === rounded) return candidate;
  }
  return value;
}
