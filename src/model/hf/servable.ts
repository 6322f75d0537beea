/** Narrows a config.json's model to the layers that the embedded engine computes. */
import type { Activation } from "../../backend/ops.js";
import type { JsonObject } from "../../formats/files/json.js";
import { type Architecture, factsOf } from "../description/architectures.js";
import { fixedBy, type ServableModel, servableLayers, unservedVariant } from "../description/servable.js";
import { ConfigReader } from "./config-reader.js";
import { describeConfig, maxPositionsOf, type WeightFacts } from "./describe.js";
import { architectureOf, periodicWindows, servedTypeOf, type TypeTraits, textConfig, traitsOf } from "./model-types.js";
import { queryScalingOf, type RopeFactors, refuseQueryScaling, ropesFromHf } from "./rope.js";

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
  const layers = servableLayers(description);
  const traits = traitsOf(config);
  if (traits.experts === undefined && layers.some(({ feedForward }) => feedForward.kind === "experts")) {
    throw unservedVariant(`expected a ${architecture} without experts, got one with them`);
  }
  const text = textConfig(config);
  const read = new ConfigReader(text);
  const { headDim } = layers[0]!.mixer;
  const { ropes, factors } = ropesFromHf(text, {
    headDim,
    maxPositions: maxPositionsOf(text, traits),
    defaultBase: traits.defaults.ropeBase,
    localRope: periodicWindows(traits)?.localRope,
  });
  const { attentionScalar } = traits.defaults;
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
    normalisesExperts: traits.experts?.hasChoice !== true || text.boolean("norm_topk_prob") === true,
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

/** An activation's name in transformers. */
export const ACTIVATION_NAMES: Readonly<Record<Activation, string>> = { silu: "silu", geluTanh: "gelu_pytorch_tanh" };

function readActivation(text: JsonObject, ofArchitecture: Activation): Activation {
  const key = text.has("hidden_activation") ? "hidden_activation" : "hidden_act";
  const known = ACTIVATION_NAMES[ofArchitecture];
  const name = text.string(key) ?? known;
  if (name === known) return ofArchitecture;
  throw unservedVariant(`expected ${text.nameOf(key)} to be ${known}, got ${name}`);
}
