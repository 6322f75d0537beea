/** Narrows a config.json's model to the layers that the embedded engine computes. */
import type { Activation } from "../../backend/ops.js";
import type { JsonObject } from "../../formats/files/json.js";
import { type Architecture, factsOf } from "../description/architectures.js";
import { MODEL_LIMITS } from "../description/model-description.js";
import {
  assertGroups,
  type ExpertRouting,
  fixedBy,
  PLAIN_ROUTING,
  type ServableModel,
  servableLayers,
  unservedVariant,
} from "../description/servable.js";
import { ConfigReader } from "./config-reader.js";
import { describeConfig, maxPositionsOf, type WeightFacts } from "./describe.js";
import { architectureOf, periodicWindows, servedTypeOf, type TypeTraits, textConfig, traitsOf } from "./model-types.js";
import { assertRopeStated, queryScalingOf, type RopeFactors, refuseQueryScaling, ropesFromHf } from "./rope.js";

export interface ServableFolder {
  readonly model: ServableModel;
  /** What GGUF files store as tensors. */
  readonly ropeFactors: RopeFactors;
}

/**
 * @param config config.json
 * @param name the model's name
 * @throws architecture_unsupported, where the engine does not compute such a model; model_config, where the file lacks something or contradicts
 * itself
 */
export function servableConfig(config: JsonObject, name: string, weights?: WeightFacts): ServableFolder {
  const architecture = architectureOf(servedTypeOf(config));
  const description = describeConfig(config, name, weights);
  const layers = servableLayers(description, architecture);
  const traits = traitsOf(config);
  if (traits.experts === undefined && layers.some(({ feedForward }) => feedForward.kind === "experts")) {
    throw unservedVariant(`expected a ${architecture} without experts, got one with them`);
  }
  const text = textConfig(config);
  if (traits.hasOwnRope) assertRopeStated(text);
  const read = new ConfigReader(text);
  const { headDim } = layers[0]!.mixer;
  const { ropes, factors } = ropesFromHf(text, {
    headDim,
    maxPositions: maxPositionsOf(text, traits),
    defaultBase: traits.defaults.ropeBase,
    defaultShare: traits.defaults.rotatedShare,
    localRope: periodicWindows(traits)?.localRope,
  });
  const { attentionScalar } = traits.defaults;
  const routing = routingOf(text, architecture, traits);
  assertGroups(description, routing);
  const model: ServableModel = {
    ...description,
    layers,
    ...fixedBy(architecture, description.width),
    rmsEps: read.positive("rms_norm_eps", traits.defaults.rmsEps),
    // Only classes with a default of their own read the key.
    attentionScale:
      1 / Math.sqrt(attentionScalar === undefined ? headDim : read.positive("query_pre_attn_scalar", attentionScalar)),
    ...scalesOf(text, architecture, traits),
    activation: readActivation(text, factsOf(architecture).activation),
    routing,
    isNeoxRope: true,
    ropes,
    pooling: undefined,
  };
  return { model: Object.freeze(model), ropeFactors: factors };
}

/** The factors and bounds that an architecture has beside llama's. */
function scalesOf(text: JsonObject, architecture: Architecture, traits: TypeTraits): Partial<ServableModel> {
  const read = new ConfigReader(text);
  const { caps, hasFactors, scalesQueries } = factsOf(architecture);
  if (scalesQueries) return { queryScaling: queryScalingOf(text, maxPositionsOf(text, traits)) };
  refuseQueryScaling(text);
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
  if (factsOf(architecture).experts?.weighedBy !== "sigmoid") {
    return { ...PLAIN_ROUTING, normalises: experts?.hasChoice !== true || stated === true };
  }
  const read = new ConfigReader(text);
  const numGroups = read.size("n_group", MODEL_LIMITS.experts, 1);
  return {
    scoring: "sigmoid",
    normalises: stated ?? true,
    scale: read.positive("routed_scaling_factor", 1),
    numGroups,
    numUsedGroups: read.size("topk_group", numGroups, 1),
    hasBias: true,
  };
}

/** An activation's name in transformers, which has none of its own for gpt-oss's. */
export const ACTIVATION_NAMES: Readonly<Record<Activation, string>> = {
  silu: "silu",
  geluTanh: "gelu_pytorch_tanh",
  clampedSwiglu: "silu",
};

function readActivation(text: JsonObject, ofArchitecture: Activation): Activation {
  if (ofArchitecture === "clampedSwiglu") assertClamped(text);
  const key = text.has("hidden_activation") ? "hidden_activation" : "hidden_act";
  const known = ACTIVATION_NAMES[ofArchitecture];
  const name = text.string(key) ?? known;
  if (name === known) return ofArchitecture;
  throw unservedVariant(`expected ${text.nameOf(key)} to be ${known}, got ${name}`);
}

/** Numbers of gpt-oss's activation, by their keys; files that leave them out have these. */
const CLAMPED_SWIGLU = { swiglu_alpha: 1.702, swiglu_limit: 7 } as const;

function assertClamped(text: JsonObject): void {
  for (const [key, served] of Object.entries(CLAMPED_SWIGLU)) {
    const value = text.number(key) ?? served;
    if (value !== served) throw unservedVariant(`expected ${text.nameOf(key)} to be ${served}, got ${value}`);
  }
}
