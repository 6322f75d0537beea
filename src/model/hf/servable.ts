/** Narrows a config.json's model to the layers that the embedded engine computes. */
import type { Activation } from "../../backend/ops.js";
import { configError, type JsonObject } from "../../formats/files/json.js";
import { type Architecture, factsOf, isEncoder } from "../description/architectures.js";
import { MODEL_LIMITS, type ModelDescription } from "../description/model-description.js";
import { linearLayer } from "../description/pooling.js";
import {
  assertGroups,
  attentionMixers,
  type ExpertRouting,
  firstMixer,
  fixedBy,
  PLAIN_ROUTING,
  type PositionTable,
  type ServableModel,
  SPARSE_MIXER,
  servableLayers,
  unservedVariant,
  withServedDrafts,
} from "../description/servable.js";
import { classifierOf } from "./classifier.js";
import { ConfigReader } from "./config-reader.js";
import { describeConfig, firstPositionRow, maxPositionsOf, mayHaveWindow, type WeightFacts } from "./describe.js";
import { assertMamba } from "./mamba.js";
import { periodicWindows, type ServedTraits, servedTraitsOf, type TypeTraits, textConfig } from "./model-types.js";
import { type FolderModules, NO_MODULES } from "./modules.js";
import {
  assertRopeStated,
  latentMagnitudeOf,
  queryScalingOf,
  type RopeFactors,
  refuseQueryScaling,
  ropesFromHf,
} from "./rope.js";

export interface ServableFolder {
  readonly model: ServableModel;
  /** Factors that GGUF files store as tensors. */
  readonly ropeFactors: RopeFactors;
}

/**
 * @param config config.json
 * @param name the model's name
 * @param modules of the files that sentence-transformers keeps beside the model
 * @throws architecture_unsupported, where the engine does not compute such a model; model_config, where the file lacks
 * something or contradicts itself
 */
export function servableConfig(
  config: JsonObject,
  name: string,
  weights?: WeightFacts,
  modules: FolderModules = NO_MODULES,
): ServableFolder {
  const traits = servedTraitsOf(config);
  const { architecture } = traits;
  const facts = factsOf(architecture);
  const description = describeConfig(config, name, weights);
  const layers = servableLayers(description, architecture);
  if (traits.experts === undefined && layers.some(({ feedForward }) => feedForward.kind === "experts")) {
    throw unservedVariant(`expected a ${architecture} without experts, got one with them`);
  }
  const text = textConfig(config);
  if (facts.hasMamba) assertMamba(text);
  if (traits.hasOwnRope) assertRopeStated(text);
  assertWindows(text, traits);
  const read = new ConfigReader(text);
  const mixers = attentionMixers({ layers });
  const latent = firstMixer({ layers }, "latent");
  const headDimAt = (index: number) => mixers.find(({ rope }) => rope === index)?.headDim;
  const headDim = latent?.ropeDim ?? headDimAt(0) ?? mixers[0]!.headDim;
  const positionTable = positionTableOf(text, traits);
  const { ropes, factors } = positionTable
    ? { ropes: [], factors: {} }
    : ropesFromHf(text, {
        headDim,
        localHeadDim: headDimAt(1) ?? headDim,
        maxPositions: maxPositionsOf(text, traits),
        defaultBase: traits.defaults.ropeBase,
        defaultShare: traits.defaults.rotatedShare,
        localRope: periodicWindows(traits)?.localRope,
        isPartial: facts.hasPartialRope,
        hasAlpha: facts.hasAlphaRope,
        statesDim: traits.statesRotatedDim,
        isWhole: latent !== undefined,
      });
  const { attentionScalar } = traits.defaults;
  const routing = routingOf(text, architecture, traits);
  assertGroups(description, routing);
  const model: ServableModel = {
    ...withServedDrafts(description),
    layers,
    ...fixedBy(architecture, description.width),
    ...(facts.mayBeSequential && text.boolean("use_parallel_residual") === false ? { parallel: undefined } : {}),
    positionTable,
    rmsEps: read.positive(traits.encoder?.epsKey ?? "rms_norm_eps", traits.defaults.rmsEps),
    // Only classes with a default of their own read the key.
    attentionScale:
      facts.attentionScale ??
      1 / Math.sqrt(attentionScalar === undefined ? headDim : read.positive("query_pre_attn_scalar", attentionScalar)),
    ...scalesOf(text, architecture, traits),
    ...(latent === undefined
      ? {}
      : { attentionScale: latentMagnitudeOf(text) ** 2 / Math.sqrt(latent.headDim + latent.ropeDim) }),
    activation: readActivation(text, facts.activation, traits.activations),
    routing,
    // Latent attention's pairs lie side by side where a file does not say otherwise.
    isNeoxRope:
      facts.isInterleavedInFolders !== true && (latent === undefined || text.boolean("rope_interleave") === false),
    ropes,
    ...pooledParts(text, traits, description, modules),
    ...(isEncoder(architecture) ? encoderParts(text, traits, description, modules) : {}),
  };
  return { model: Object.freeze(model), ropeFactors: factors };
}

/** Where layers with the window alone have the rope, none has it without a window. */
function assertWindows(text: JsonObject, traits: ServedTraits): void {
  if (periodicWindows(traits)?.areAloneRotated !== "always" || mayHaveWindow(text, traits)) return;
  throw unservedVariant(`expected ${text.nameOf("sliding_window")}, without which no layer has a rope, got null`);
}

function positionTableOf(text: JsonObject, traits: ServedTraits): PositionTable | undefined {
  if (!factsOf(traits.architecture).hasPositionTable) return undefined;
  const firstRow = traits.rowsBeforePositions ?? firstPositionRow(text, traits);
  return { numRows: maxPositionsOf(text, traits) + firstRow, firstRow };
}

/** The parts of an encoder that a model for generation lacks. */
function encoderParts(
  text: JsonObject,
  traits: ServedTraits,
  description: ModelDescription,
  modules: FolderModules,
): Partial<ServableModel> {
  const contextLength = Math.min(description.contextLength, modules.maxLength ?? Number.POSITIVE_INFINITY);
  if (traits.encoder === undefined) return { contextLength };
  const { numTokenTypes } = traits.encoder;
  const read = new ConfigReader(text);
  const embedding = text.string("position_embedding_type") ?? "absolute";
  if (embedding !== "absolute" && embedding !== "rotary") {
    throw unservedVariant(`expected ${text.nameOf("position_embedding_type")} to be absolute, got ${embedding}`);
  }
  return {
    numTokenTypes: numTokenTypes === 0 ? 0 : read.optionalSize("type_vocab_size", MOST_TOKEN_TYPES, numTokenTypes),
    contextLength,
  };
}

/** How hidden states become a vector or a score. */
function pooledParts(
  text: JsonObject,
  traits: ServedTraits,
  { width, vocabSize, isTied }: ModelDescription,
  modules: FolderModules,
): Pick<ServableModel, "pooling" | "head"> {
  const { answers } = modules;
  if (answers !== undefined) {
    const { yesId, noId } = answers;
    if (Math.max(yesId, noId) >= vocabSize) {
      throw unservedVariant(`expected answers below ${vocabSize}, got ${yesId} and ${noId}`);
    }
    const layer = linearLayer(isTied ? "token_embd" : "output", width, 2);
    const rows = { rows: [noId, yesId], totalRows: vocabSize };
    return { pooling: "last", head: { layers: [{ ...layer, ...rows }], scoring: "softmax" } };
  }
  const classifier = classifierOf(text, traits, width);
  let inputs = width;
  for (const layer of modules.head?.layers ?? []) {
    if (layer.kind !== "linear") continue;
    if (layer.inputs !== inputs) {
      throw configError(`expected in_features of ${inputs} in the layer ${layer.name}, got ${layer.inputs}`);
    }
    inputs = layer.outputs;
  }
  const unstated = isEncoder(traits.architecture) ? "mean" : undefined;
  return { pooling: classifier?.pooling ?? modules.pooling ?? unstated, head: classifier?.head ?? modules.head };
}

const MOST_TOKEN_TYPES = 1024;

/** The factors and bounds that an architecture has beside llama's. */
function scalesOf(text: JsonObject, architecture: Architecture, traits: ServedTraits): Partial<ServableModel> {
  const read = new ConfigReader(text);
  const { caps, hasFactors, hasLogitScale, scalesQueries, mayCapLogits } = factsOf(architecture);
  if (scalesQueries) return { queryScaling: queryScalingOf(text, maxPositionsOf(text, traits)) };
  refuseQueryScaling(text);
  if (hasLogitScale) return { logitScale: read.positive("logit_scale", 0.0625) };
  if (mayCapLogits) {
    const key = "final_logit_softcapping";
    return { logitCap: text.has(key) ? read.positive(key, 0) : 0 };
  }
  if (caps !== undefined) {
    // A null is no bound.
    const cap = (key: string, fallback: number) =>
      Object.hasOwn(text.raw, key) && !text.has(key) ? 0 : read.positive(key, fallback);
    return {
      attentionCap: cap("attn_logit_softcapping", caps.attention),
      logitCap: cap("final_logit_softcapping", caps.logits),
    };
  }
  if (hasFactors) {
    return {
      embeddingScale: read.positive("embedding_multiplier", 1),
      attentionScale: read.positive("attention_multiplier", 1),
      residualScale: read.positive("residual_multiplier", 1),
      logitScale: 1 / read.positive("logits_scaling", 1),
    };
  }
  return {};
}

function routingOf(text: JsonObject, architecture: Architecture, { experts }: TypeTraits): ExpertRouting {
  const stated = text.boolean("norm_topk_prob");
  const weighedBy = factsOf(architecture).experts?.weighedBy;
  if (weighedBy === "sparseMixer") return SPARSE_MIXER;
  if (weighedBy === "softmaxOfAll") return { ...PLAIN_ROUTING, normalises: false };
  if (weighedBy === "either" && experts?.scoring === "softmax") return softmaxRoutingOf(text, experts);
  if (weighedBy !== "sigmoid" && weighedBy !== "either") {
    const normalises = experts?.hasChoice !== true || (stated ?? experts.normalises === true);
    return { ...PLAIN_ROUTING, normalises, hasBias: factsOf(architecture).experts?.hasScoreBiases === true };
  }
  const read = new ConfigReader(text);
  const ofClass = { normalises: true, scale: 1, numGroups: 1, numUsedGroups: 1, ...experts };
  const numGroups = read.size("n_group", MODEL_LIMITS.experts, ofClass.numGroups);
  return {
    scoring: "sigmoid",
    normalises: stated ?? ofClass.normalises,
    scale: read.positive("routed_scaling_factor", ofClass.scale),
    numGroups,
    numUsedGroups: read.size("topk_group", numGroups, Math.min(ofClass.numUsedGroups, numGroups)),
    hasBias: true,
  };
}

/**
 * DeepSeek-V2's, or Mistral 4's: softmax over all experts, of which a token uses those of the groups with the largest
 * scores.
 */
function softmaxRoutingOf(text: JsonObject, ofClass: NonNullable<TypeTraits["experts"]>): ExpertRouting {
  const read = new ConfigReader(text);
  const isGrouped = text.string("topk_method") === "group_limited_greedy";
  const numGroups = isGrouped ? read.size("n_group", MODEL_LIMITS.experts) : 1;
  const numUsedGroups = isGrouped ? read.size("topk_group", numGroups) : 1;
  const scale = read.positive("routed_scaling_factor", 1);
  const normalises = ofClass.normalises === true && text.boolean("norm_topk_prob") !== false;
  return { ...PLAIN_ROUTING, normalises, scale, numGroups, numUsedGroups };
}

/** An activation's name in transformers, which has none of its own for gpt-oss's. */
export const ACTIVATION_NAMES: Readonly<Record<Activation, string>> = {
  silu: "silu",
  geluTanh: "gelu_pytorch_tanh",
  gelu: "gelu",
  relu: "relu",
  reluSquared: "relu2",
  clampedSwiglu: "silu",
};

/** @param known by names that a file may have; absent: the architecture's alone */
function readActivation(
  text: JsonObject,
  ofArchitecture: Activation,
  known: ServedTraits["activations"] = { [ACTIVATION_NAMES[ofArchitecture]]: ofArchitecture },
): Activation {
  const key = text.has("hidden_activation") ? "hidden_activation" : "hidden_act";
  const name = text.string(key);
  if (name === undefined) return ofArchitecture;
  const activation = Object.hasOwn(known, name) ? known[name] : undefined;
  if (activation !== undefined) return activation;
  throw unservedVariant(`expected ${text.nameOf(key)} to be ${Object.keys(known).join(", ")}, got ${name}`);
}
