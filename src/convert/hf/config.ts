/** Writes a model's config.json in the form of transformers' configuration class for its architecture. */
import type { TensorSource } from "../../backend/tensor-source.js";
import { MillraceError } from "../../core/errors.js";
import type { PlainType } from "../../formats/files/plain-values.js";
import {
  type Architecture,
  type DecoderArchitecture,
  factsOf,
  isEncoder,
} from "../../model/description/architectures.js";
import { NO_ROPE } from "../../model/description/model-description.js";
import {
  attentionMixers,
  firstMixer,
  isAttention,
  localLayers,
  type ServableModel,
  unservedVariant,
} from "../../model/description/servable.js";
import { expertsOf } from "../../model/description/sizes.js";
import { architectureOf, epsKeyOf, type ModelType, traitsOfClass } from "../../model/hf/model-types.js";
import { ACTIVATION_NAMES } from "../../model/hf/servable.js";
import { tensorsOf } from "../weights/model-tensors.js";
import { denseWidthOf } from "../weights/tensors.js";
import {
  chosenExpertsJson,
  type ExpertsJson,
  ernieExpertsJson,
  hunyuanExpertsJson,
  lfm2ExpertsJson,
  localExpertsJson,
  minimaxExpertsJson,
  sharingExpertsJson,
} from "./experts-json.js";
import { ownLayersJson } from "./own-layers.js";
import { ropeOf, ropesByKind } from "./rope.js";
import { shortest } from "./shortest.js";

type Json = Record<string, unknown>;

const TORCH_DTYPES: Readonly<Record<PlainType, string>> = { F32: "float32", F16: "float16", BF16: "bfloat16" };

/** A configuration class of transformers. */
interface HfClass {
  readonly modelType: ModelType;
  readonly className: string;
  /**
   * Form of windows in the configuration. none: absent; all: one window for all layers; listed: the layers with a
   * window; switched: the same, with a switch.
   */
  readonly windows: "none" | "all" | "listed" | "switched";
  /** Keys that switch biases on, each with its parts of the model. */
  readonly biases: Readonly<Record<string, readonly string[]>>;
  /** Parts that have biases whatever a config.json says. */
  readonly alwaysBiased?: readonly string[];
  /** Norms that have biases whatever a config.json says. */
  readonly alsoBiased?: readonly string[];
  /** Writes the experts' keys; undefined: the class has no experts. */
  readonly experts: ExpertsJson | undefined;
  /** The class for models with features that this class lacks. */
  readonly variant?: readonly [isOf: (model: ServableModel) => boolean, hfClass: HfClass];
}

const QKV = ["attn_q", "attn_k", "attn_v"] as const;
const NORMS = ["attn_norm", "ffn_norm", "output_norm"] as const;
const NO_BIAS = {};
const ATTENTION_BIAS = { attention_bias: [...QKV, "attn_output"] };
const BIAS = { ...ATTENTION_BIAS, mlp_bias: ["ffn_gate", "ffn_up", "ffn_down"] };
const GATELESS_BIAS = { ...ATTENTION_BIAS, mlp_bias: ["ffn_up", "ffn_down"] };
const SEED_BIAS = { ...BIAS, attention_bias: QKV, attention_out_bias: ["attn_output"] };

/** @param name of the class, before ForCausalLM */
const hfClass = (
  modelType: ModelType,
  name: string,
  windows: HfClass["windows"],
  biases: HfClass["biases"] = NO_BIAS,
  experts?: ExpertsJson,
): HfClass => ({ modelType, className: `${name}ForCausalLM`, windows, biases, experts });

/** Classes whose default padding token exceeds small vocabularies, which transformers refuses. */
const WITH_PAD_TOKEN: readonly ModelType[] = ["smollm3", "glm", "glm4", "lfm2", "lfm2_moe", "lfm3", "gemma4_text"];

/** Architectures without a folder writer; models that see are written as the architecture of their language part. */
const UNWRITTEN = [
  "qwen2vl",
  "qwen3vl",
  "qwen3vlmoe",
  "phimoe",
  "deepseek2",
  "mistral4",
  "bailingmoe",
  "bailingmoe2",
  "granitehybrid",
  "nemotron_h",
  "nemotron_h_moe",
  "gpt2",
  "gptneox",
  "phi2",
  "opt",
  "starcoder",
  "exaone",
] as const satisfies readonly DecoderArchitecture[];
type Unwritten = (typeof UNWRITTEN)[number];
const isUnwritten = (architecture: Architecture): architecture is Unwritten =>
  (UNWRITTEN as readonly string[]).includes(architecture);

const hasExperts = (model: ServableModel): boolean => expertsOf(model) !== undefined;
const hasSharedPart = (model: ServableModel): boolean => (expertsOf(model)?.sharedWidth ?? 0) > 0;
const hasLocalRope = (model: ServableModel): boolean => attentionMixers(model).some(({ rope }) => rope === 1);

const hasTwoWindows = (model: ServableModel): boolean =>
  new Set(attentionMixers(model).map(({ window }) => window)).size > 1;

const MINISTRAL = hfClass("ministral", "Ministral", "listed");
const MIXTRAL = hfClass("mixtral", "Mixtral", "none", NO_BIAS, localExpertsJson);
const GRANITE_SHARED = hfClass("granitemoeshared", "GraniteMoeShared", "none", ATTENTION_BIAS, localExpertsJson);
const OLMO3 = hfClass("olmo3", "Olmo3", "listed", ATTENTION_BIAS);

/** transformers has separate classes for llamas with experts, and for olmo2 models with a rope for windows. */
const CLASSES: Readonly<Record<Exclude<DecoderArchitecture, Unwritten>, HfClass>> = {
  llama: { ...hfClass("llama", "Llama", "none", BIAS), variant: [hasExperts, MIXTRAL] },
  mistral: { ...hfClass("mistral", "Mistral", "all"), variant: [hasTwoWindows, MINISTRAL] },
  mistral3: hfClass("ministral3", "Ministral3", "all"),
  qwen2: { ...hfClass("qwen2", "Qwen2", "switched"), alwaysBiased: QKV },
  qwen3: hfClass("qwen3", "Qwen3", "switched", ATTENTION_BIAS),
  qwen2moe: hfClass("qwen2_moe", "Qwen2Moe", "none", { qkv_bias: QKV }, chosenExpertsJson),
  qwen3moe: hfClass("qwen3_moe", "Qwen3Moe", "switched", ATTENTION_BIAS, chosenExpertsJson),
  qwen3next: hfClass("qwen3_next", "Qwen3Next", "none", ATTENTION_BIAS, chosenExpertsJson),
  qwen35: hfClass("qwen3_5_text", "Qwen3_5", "none", ATTENTION_BIAS),
  qwen35moe: hfClass("qwen3_5_moe_text", "Qwen3_5Moe", "none", ATTENTION_BIAS, chosenExpertsJson),
  gemma: hfClass("gemma", "Gemma", "none", ATTENTION_BIAS),
  gemma2: hfClass("gemma2", "Gemma2", "listed", ATTENTION_BIAS),
  gemma3: hfClass("gemma3_text", "Gemma3", "listed", ATTENTION_BIAS),
  gemma4: hfClass("gemma4_text", "Gemma4", "listed", ATTENTION_BIAS),
  phi3: hfClass("phi3", "Phi3", "all"),
  smollm3: hfClass("smollm3", "SmolLM3", "none", BIAS),
  granite: hfClass("granite", "Granite", "none", BIAS),
  granitemoe: {
    ...hfClass("granitemoe", "GraniteMoe", "none", ATTENTION_BIAS, localExpertsJson),
    variant: [hasSharedPart, GRANITE_SHARED],
  },
  olmo2: {
    ...hfClass("olmo2", "Olmo2", "none", ATTENTION_BIAS),
    variant: [hasLocalRope, OLMO3],
  },
  olmoe: hfClass("olmoe", "Olmoe", "none", ATTENTION_BIAS, chosenExpertsJson),
  seed_oss: hfClass("seed_oss", "SeedOss", "none", SEED_BIAS),
  exaone4: hfClass("exaone4", "Exaone4", "listed"),
  "gpt-oss": hfClass("gpt_oss", "GptOss", "listed", ATTENTION_BIAS, localExpertsJson),
  glm4moe: hfClass("glm4_moe", "Glm4Moe", "none", { attention_bias: QKV }, sharingExpertsJson),
  deepseek: hfClass("deepseek", "Deepseek", "none", NO_BIAS, sharingExpertsJson),
  dots1: hfClass("dots1", "Dots1", "listed", ATTENTION_BIAS, sharingExpertsJson),
  // A llama under other names, for which transformers has no class.
  internlm2: hfClass("llama", "Llama", "none"),
  "command-r": hfClass("cohere", "Cohere", "none", ATTENTION_BIAS),
  cohere2: hfClass("cohere2", "Cohere2", "listed", ATTENTION_BIAS),
  stablelm: { ...hfClass("stablelm", "StableLm", "none", { use_qkv_bias: QKV }), alsoBiased: NORMS },
  starcoder2: {
    ...hfClass("starcoder2", "Starcoder2", "all", { use_bias: [...QKV, "attn_output", "ffn_up", "ffn_down"] }),
    alsoBiased: NORMS,
  },
  lfm2: hfClass("lfm2", "Lfm2", "none"),
  lfm3: hfClass("lfm3", "Lfm3", "listed"),
  lfm2moe: hfClass("lfm2_moe", "Lfm2Moe", "none", NO_BIAS, lfm2ExpertsJson),
  ernie4_5: hfClass("ernie4_5", "Ernie4_5", "none", {
    use_bias: [...QKV, "attn_output", "ffn_gate", "ffn_up", "ffn_down"],
  }),
  "ernie4_5-moe": hfClass("ernie4_5_moe", "Ernie4_5_Moe", "none", NO_BIAS, ernieExpertsJson),
  "hunyuan-dense": hfClass("hunyuan_v1_dense", "HunYuanDenseV1", "none", ATTENTION_BIAS),
  "hunyuan-moe": hfClass("hunyuan_v1_moe", "HunYuanMoEV1", "none", ATTENTION_BIAS, hunyuanExpertsJson),
  "minimax-m2": hfClass("minimax_m2", "MiniMaxM2", "none", NO_BIAS, minimaxExpertsJson),
  chatglm: hfClass("glm", "Glm", "none", { attention_bias: QKV }),
  glm4: hfClass("glm4", "Glm4", "none", { attention_bias: QKV }),
  arcee: hfClass("arcee", "Arcee", "none", GATELESS_BIAS),
  nemotron: {
    ...hfClass("nemotron", "Nemotron", "none", GATELESS_BIAS),
    alsoBiased: NORMS,
  },
};

/** The architecture under which the written folder is read. */
export const writtenArchitecture = (model: ServableModel): Architecture => architectureOf(classOf(model).modelType);

/** @throws architecture_unsupported for an encoder */
function classOf(model: ServableModel): HfClass {
  const { architecture } = model;
  if (isUnwritten(architecture)) {
    throw new MillraceError(
      "architecture_unsupported",
      `expected an architecture of which folders are written, got ${architecture}`,
      {
        hint: "Convert or quantise the model to a .gguf file.",
      },
    );
  }
  if (isEncoder(architecture)) {
    throw unservedVariant(`expected a model that generates text, got an encoder (${architecture})`);
  }
  const usual = CLASSES[architecture];
  const [isOf, variant] = usual.variant ?? [];
  return isOf?.(model) ? variant! : usual;
}

interface TextIds {
  readonly bosId: number | undefined;
  readonly stopIds: ReadonlySet<number>;
}

/** @throws architecture_unsupported if transformers has no configuration with the model's values */
export function hfConfigOf(
  model: ServableModel,
  source: TensorSource,
  type: PlainType,
  ids: TextIds | undefined,
): Json {
  const ofModel = classOf(model);
  const mixer = attentionMixers(model)[0]!;
  if (model.pooling !== undefined) {
    const message = `expected a model without a pooling of its own, got the pooling ${model.pooling}`;
    throw new MillraceError("architecture_unsupported", message, {
      hint: "A folder's config.json cannot say it: convert the model to a .gguf file.",
    });
  }
  const config: Json = {
    architectures: [ofModel.className],
    model_type: ofModel.modelType,
    torch_dtype: TORCH_DTYPES[type],
    vocab_size: model.vocabSize,
    hidden_size: model.width,
    num_hidden_layers: model.layers.length,
    num_attention_heads: mixer.numHeads,
    num_key_value_heads: mixer.numKvHeads,
    head_dim: mixer.headDim,
    max_position_embeddings: model.contextLength,
    [epsKeyOf(ofModel.modelType)]: shortest(model.rmsEps),
    tie_word_embeddings: !source.has("output.weight"),
    ...windowsOf(model, ofModel),
    ...(factsOf(model.architecture).windows?.hasOwnHeads
      ? ownLayersJson(model, source)
      : likeLayersJson(model, source, ofModel)),
    ...biasesOf(ofModel, model, source),
    ...(WITH_PAD_TOKEN.includes(ofModel.modelType) && { pad_token_id: null }),
  };
  if (ids?.bosId !== undefined) config.bos_token_id = ids.bosId;
  if (ids !== undefined && ids.stopIds.size > 0) {
    const stops = [...ids.stopIds].sort((a, b) => a - b);
    config.eos_token_id = stops.length === 1 ? stops[0] : stops;
  }
  return config;
}

/** Keys of config.json for sizes that most layers share. */
function likeLayersJson(
  model: ServableModel,
  source: TensorSource,
  { modelType, experts: expertsJson }: HfClass,
): Json {
  const experts = expertsOf(model);
  return {
    intermediate_size: denseWidthOf(model) ?? experts?.width,
    ...(factsOf(model.architecture).hasPartialRope
      ? { rope_parameters: ropesByKind(model, source) }
      : ropeOf(model, source, traitsOfClass(modelType).defaults.rotatedShare ?? 1)),
    ...(experts && expertsJson?.(model, experts, source, modelType)),
    ...partsOf(model),
    ...recurrentJson(model),
  };
}

/** Number of drafting layers, in the keys of the classes that have them. */
export function draftingJson({ architecture }: ServableModel, numDrafts: number): Json {
  if (numDrafts === 0) return {};
  const isQwen = factsOf(architecture).delta !== undefined;
  return { [isQwen ? "mtp_num_hidden_layers" : "num_nextn_predict_layers"]: numDrafts };
}

/** Activation, scale of attention, and an architecture's other options. */
function partsOf(model: ServableModel): Json {
  const { architecture, attentionScale } = model;
  const { activation, hasOffsetNorms, scalesEmbeddings, caps, hasFactors, hasLogitScale, noRopePeriod } =
    factsOf(architecture);
  const name = ACTIVATION_NAMES[activation];
  const cap = (value: number) => (value === 0 ? null : shortest(value));
  if (hasOffsetNorms && scalesEmbeddings) {
    return {
      hidden_activation: name,
      query_pre_attn_scalar: Math.round(1 / attentionScale ** 2),
      ...(caps && { attn_logit_softcapping: cap(model.attentionCap), final_logit_softcapping: cap(model.logitCap) }),
    };
  }
  const parts: Json = { hidden_act: name };
  const expected = 1 / Math.sqrt(attentionMixers(model)[0]!.headDim);
  if (hasFactors) {
    parts.attention_multiplier = shortest(attentionScale);
    parts.embedding_multiplier = shortest(model.embeddingScale);
    parts.residual_multiplier = shortest(model.residualScale);
    parts.logits_scaling = shortest(1 / model.logitScale);
  } else if (attentionScale !== expected) {
    throw unservedVariant(`expected attention scaled by ${expected}, got ${attentionScale}`);
  }
  if (hasLogitScale) parts.logit_scale = shortest(model.logitScale);
  if (noRopePeriod !== undefined) {
    parts.no_rope_layers = attentionMixers(model).map(({ rope }) => (rope === NO_ROPE ? 0 : 1));
    parts.use_sliding_window = false;
  }
  return parts;
}

function recurrentJson(model: ServableModel): Json {
  const { architecture, layers } = model;
  const convolution = firstMixer(model, "convolution");
  if (convolution !== undefined) {
    return {
      conv_L_cache: convolution.numTaps,
      conv_bias: false,
      ...(factsOf(architecture).windows === undefined && {
        layer_types: layers.map((layer) => (isAttention(layer) ? "full_attention" : "conv")),
        block_auto_adjust_ff_dim: false,
      }),
    };
  }
  const mixer = firstMixer(model, "delta");
  if (mixer === undefined) return {};
  return {
    layer_types: layers.map((layer) => (isAttention(layer) ? "full_attention" : "linear_attention")),
    linear_num_value_heads: mixer.numHeads,
    linear_num_key_heads: mixer.numKeyHeads,
    linear_key_head_dim: mixer.headDim,
    linear_value_head_dim: mixer.valueDim,
    linear_conv_kernel_dim: mixer.numTaps,
  };
}

/** Biases that only some architectures have: of experts, and of recurrent layers' steps. */
const OWN_BIASES = ["exp_probs_b", "ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps", "ssm_dt"];

/** @throws architecture_unsupported for biases that transformers would omit or invent */
function biasesOf(
  { className, biases, alwaysBiased = [], alsoBiased = [] }: HfClass,
  model: ServableModel,
  source: TensorSource,
): Json {
  const numBiased = new Map<string, number>();
  for (const { name } of tensorsOf(model, source)) {
    const part = /^(?:blk\.\d+\.)?(\w+)\.bias$/.exec(name)?.[1];
    if (part !== undefined) numBiased.set(part, (numBiased.get(part) ?? 0) + 1);
  }
  const known = [...Object.values(biases).flat(), ...alwaysBiased, ...alsoBiased, ...OWN_BIASES];
  const unknown = [...numBiased.keys()].find((part) => !known.includes(part));
  if (unknown !== undefined) throw unservedVariant(`expected no biases that ${className} has not, got ${unknown}.bias`);
  const isOn = (parts: readonly string[]): boolean => {
    const isOfAttention = parts.every((part) => part.startsWith("attn_"));
    const all = parts.length * (isOfAttention ? attentionMixers(model) : model.layers).length;
    const some = parts.reduce((sum, part) => sum + (numBiased.get(part) ?? 0), 0);
    if (some === 0 || some === all) return some > 0;
    throw unservedVariant(`expected biases of all of ${parts.join(", ")} or of none, got ${some} of ${all}`);
  };
  if (alwaysBiased.length > 0) isOn(alwaysBiased);
  return Object.fromEntries(Object.entries(biases).map(([key, parts]) => [key, isOn(parts)]));
}

function windowsOf(model: ServableModel, { windows }: HfClass): Json {
  const { architecture, contextLength } = model;
  const mixers = attentionMixers(model);
  const widths = mixers.map(({ window }) => window);
  const width = Math.max(...widths);
  const attending = localLayers(model).map((isLocal) => (isLocal ? "sliding_attention" : "full_attention"));
  const types = model.layers.map(({ mixer }, index) => (mixer.kind === "convolution" ? "conv" : attending[index]!));
  if (windows === "all") return { sliding_window: width === 0 ? null : width };
  if (windows === "listed") {
    // Layers of this kind may have their own rope but no window: the window then equals the context.
    return {
      sliding_window: types.includes("sliding_attention") ? width || contextLength : null,
      layer_types: types,
    };
  }
  if (width === 0) return {};
  if (windows === "none") {
    throw unservedVariant(`expected a ${architecture} without a sliding window, got one with it`);
  }
  return {
    use_sliding_window: true,
    sliding_window: width,
    max_window_layers: widths.findIndex((size) => size > 0),
    layer_types: types,
  };
}
