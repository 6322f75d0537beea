/** Narrows a config.json's model to the layers that the embedded engine computes. */
import type { Activation } from "../../backend/ops.js";
import type { JsonObject } from "../../formats/files/json.js";
import { MODEL_LIMITS } from "../description/model-description.js";
import {
  type Architecture,
  assertGroups,
  type ExpertRouting,
  PLAIN,
  PLAIN_ROUTING,
  type ServableModel,
  servableLayers,
  unservedVariant,
} from "../description/servable.js";
import { ConfigReader } from "./config-reader.js";
import { describeConfig, maxPositionsOf, type WeightFacts } from "./describe.js";
import { architectureOf, servedTypeOf, type TypeTraits, textConfig, traitsOf } from "./model-types.js";
import { hasOffsetNorms } from "./names.js";
import { assertRopeStated, queryScalingOf, type RopeFactors, ropesFromHf } from "./rope.js";

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
  const layers = servableLayers(description, architecture === "glm4moe");
  const traits = traitsOf(config);
  if (traits.hasExperts === undefined && layers.some(({ feedForward }) => feedForward.kind === "experts")) {
    throw unservedVariant(`expected a ${architecture} without experts, got one with them`);
  }
  const text = textConfig(config);
  const read = new ConfigReader(text);
  const { headDim } = layers[0]!.mixer;
  const { ropes, factors } = ropesFromHf(text, {
    headDim,
    maxPositions: maxPositionsOf(text, traits),
    defaultBase: traits.defaults.ropeBase,
    defaultShare: traits.defaults.rotatedShare,
    localRope: traits.localRope,
  });
  const { attentionScalar } = traits.defaults;
  const routing = routingOf(text, architecture);
  assertGroups(description, routing);
  const model: ServableModel = {
    ...description,
    layers,
    architecture,
    rmsEps: read.positive("rms_norm_eps", traits.defaults.rmsEps),
    embeddingScale: hasOffsetNorms(architecture) ? Math.fround(Math.sqrt(description.width)) : 1,
    // Only classes with a default of their own read the key.
    attentionScale:
      1 / Math.sqrt(attentionScalar === undefined ? headDim : read.positive("query_pre_attn_scalar", attentionScalar)),
    ...PLAIN,
    ...scalesOf(text, architecture, traits),
    isPostNormed: architecture === "olmo2",
    activation: readActivation(text, traits.activations),
    routing,
    isNeoxRope: true,
    ropes,
    pooling: undefined,
  };
  return { model: Object.freeze(model), ropeFactors: factors };
}

/** The activation's numbers, by their keys; files that leave them out have these. */
const CLAMPED_SWIGLU = { swiglu_alpha: 1.702, swiglu_limit: 7 } as const;

/** The factors and bounds that an architecture has beside llama's. */
function scalesOf(text: JsonObject, architecture: Architecture, traits: TypeTraits): Partial<ServableModel> {
  const read = new ConfigReader(text);
  if (architecture === "gemma2") {
    // A null is no bound.
    const cap = (key: string, fallback: number) =>
      Object.hasOwn(text.raw, key) && !text.has(key) ? 0 : read.positive(key, fallback);
    const { attentionCap = 0, logitCap = 0 } = traits.defaults;
    return {
      attentionCap: cap("attn_logit_softcapping", attentionCap),
      logitCap: cap("final_logit_softcapping", logitCap),
    };
  }
  if (architecture === "granite") {
    return {
      embeddingScale: read.positive("embedding_multiplier", 1),
      attentionScale: read.positive("attention_multiplier", 1),
      residualScale: read.positive("residual_multiplier", 1),
      logitScale: 1 / read.positive("logits_scaling", 1),
    };
  }
  if (architecture === "gpt-oss") {
    assertRopeStated(text);
    for (const [key, served] of Object.entries(CLAMPED_SWIGLU)) {
      const value = text.number(key) ?? served;
      if (value !== served) throw unservedVariant(`expected ${text.nameOf(key)} to be ${served}, got ${value}`);
    }
    return { hasSinks: true, hasExpertBiases: true };
  }
  if (architecture !== "mistral3") return {};
  return { queryScaling: queryScalingOf(text, maxPositionsOf(text, traits)) };
}

function routingOf(text: JsonObject, architecture: Architecture): ExpertRouting {
  const read = new ConfigReader(text);
  if (architecture === "qwen3moe") return { ...PLAIN_ROUTING, normalises: text.boolean("norm_topk_prob") === true };
  if (architecture !== "glm4moe") return PLAIN_ROUTING;
  const numGroups = read.size("n_group", MODEL_LIMITS.experts, 1);
  return {
    scoring: "sigmoid",
    normalises: text.boolean("norm_topk_prob") ?? true,
    scale: read.positive("routed_scaling_factor", 1),
    numGroups,
    numUsedGroups: read.size("topk_group", numGroups, 1),
    hasBias: true,
  };
}

function readActivation(text: JsonObject, known: TypeTraits["activations"]): Activation {
  const key = text.has("hidden_activation") ? "hidden_activation" : "hidden_act";
  const name = text.string(key);
  const activation =
    name === undefined ? Object.values(known)[0] : Object.hasOwn(known, name) ? known[name] : undefined;
  if (activation !== undefined) return activation;
  throw unservedVariant(`expected ${text.nameOf(key)} to be ${Object.keys(known).join(", ")}, got ${name}`);
}
