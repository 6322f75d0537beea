/** Narrows a GGUF file's model to the layers that the embedded engine computes. */
import { MillraceError } from "../../core/errors.js";
import type { GgufFile, GgufMetadata } from "../../formats/gguf/types.js";
import { ARCHITECTURES, type Architecture, factsOf, isEncoder } from "../description/architectures.js";
import { MODEL_LIMITS } from "../description/model-description.js";
import {
  assertGroups,
  attentionMixers,
  firstMixer,
  fixedBy,
  type ServableLayer,
  type ServableModel,
  servableLayers,
  unservedArchitecture,
  unservedVariant,
  withServedDrafts,
} from "../description/servable.js";
import { DRAFT_BLOCKS, describeGguf, PARALLEL_KEY, ROPE_SWITCH } from "./describe.js";
import { servableEncoder } from "./encoder.js";
import { headDimOf } from "./head-dim.js";
import { MetadataReader } from "./metadata-reader.js";
import { epsKeyOf } from "./names.js";
import { decoderPooling } from "./pooling.js";
import { positionsOf } from "./position-table.js";
import { latentScaleOf, ropesFromMetadata } from "./rope.js";
import { readRouting } from "./routing.js";

/**
 * Features that would silently change the answers if they were ignored; refused before the rest of the header is read.
 */
const UNSERVED_KEYS = ["attention.clamp_kqv"] as const;
/** Bounds that only some architectures have. */
const LOGIT_CAP = "final_logit_softcapping";
const ATTENTION_CAP = "attn_logit_softcapping";
/** Parts that only some architectures have. */
const SHARING = ["attention.shared_kv_layers", "embedding_length_per_layer_input"] as const;
/** A factor of architectures whose queries may grow. */
const QUERY_SCALE = "attention.temperature_scale";
/** Of latent attention; elsewhere it is that of the rope. */
const QUERY_LENGTH = "attention.temperature_length";

/**
 * @throws architecture_unsupported, where the engine does not compute such a model; gguf_metadata and gguf_tensor,
 * where the file lacks something or contradicts itself
 */
export function servableGguf(gguf: GgufFile): ServableModel {
  const { metadata } = gguf;
  const architecture = servedArchitecture(metadata);
  if (!gguf.tensors.has("token_embd.weight")) {
    throw new MillraceError("gguf_tensor", "expected a tensor token_embd.weight, got none", {
      hint: "The file holds no model weights (perhaps only a vocabulary).",
    });
  }
  if (isEncoder(architecture)) return servableEncoder(gguf, architecture);
  const description = describeGguf(gguf);
  const { width } = description;
  const layers = servableLayers(description, architecture);
  const mixers = attentionMixers({ layers });
  const latent = firstMixer({ layers }, "latent");
  const headDim = latent === undefined ? headDimOf(mixers) : latent.headDim + latent.ropeDim;
  const { activation, isNeoxInFiles = false, isNeoxWithAxes, hasPartialRope = false } = factsOf(architecture);
  const { hasPositionTable, mayBeSequential } = factsOf(architecture);
  if (factsOf(architecture).experts?.areBesideDense) refuseScaledExperts(gguf);
  if (hasPartialRope && !gguf.tensors.has("rope_freqs.weight")) {
    throw new MillraceError("gguf_tensor", "expected a tensor rope_freqs.weight, got none", {
      hint: "The file is incomplete: without it, positions would turn more of each head than the model was trained for.",
    });
  }
  const read = new MetadataReader(metadata, architecture);
  const routing = readRouting(read, gguf, architecture);
  assertGroups(description, routing);
  return Object.freeze({
    ...withServedDrafts(description),
    layers,
    ...fixedBy(architecture, width),
    ...positionsOf(gguf, architecture, description.contextLength),
    ...(mayBeSequential && read.boolean(PARALLEL_KEY) === false ? { parallel: undefined } : {}),
    rmsEps: read.positive(epsKeyOf(architecture), read.positive("attention.layer_norm_epsilon", 1e-5)),
    attentionScale: attentionScaleOf(architecture, layers, headDim, width),
    ...scalesOf(read, architecture, description.contextLength),
    ...(latent === undefined ? {} : { attentionScale: latentScaleOf(metadata, architecture, headDim) }),
    activation,
    routing,
    isNeoxRope: isNeoxInFiles || (isNeoxWithAxes === true && hasAxes(metadata, architecture)),
    ropes: hasPositionTable
      ? []
      : ropesFromMetadata(metadata, architecture, latent ? [{ rope: 0, headDim: latent.ropeDim }] : mixers),
    ...decoderPooling(gguf, architecture, width),
  });
}

/** Whether pairs turn by height or width of a picture: zeros stand for none. */
function hasAxes(metadata: GgufMetadata, architecture: Architecture): boolean {
  const [time = 0, height = 0] = Array.from(metadata.numbers(`${architecture}.rope.dimension_sections`) ?? []);
  return time > 0 && height > 0;
}

/** Beside matrices of NVFP4, a tensor of that name holds their own scales, and files differ in which it is. */
function refuseScaledExperts({ tensors }: GgufFile): void {
  for (const { name, type } of tensors.values()) {
    if (type !== "NVFP4" || !name.endsWith(".ffn_down_exps.weight")) continue;
    throw unservedVariant(`expected ${name} in another type than NVFP4, whose scale is the experts' factor here`);
  }
}

function attentionScaleOf(
  architecture: Architecture,
  layers: readonly ServableLayer[],
  headDim: number,
  width: number,
): number {
  const { numLayersOf27b, attentionScale } = factsOf(architecture);
  if (attentionScale !== undefined) return attentionScale;
  const is27b = layers.length === numLayersOf27b;
  return 1 / Math.sqrt(is27b ? width / attentionMixers({ layers })[0]!.numHeads : headDim);
}

/** The factors and bounds that an architecture has beside llama's. */
function scalesOf(read: MetadataReader, architecture: Architecture, contextLength: number): Partial<ServableModel> {
  const { caps, hasFactors, hasLogitScale, scalesQueries, mayCapLogits } = factsOf(architecture);
  if (hasLogitScale) return { logitScale: read.optionalPositive("logit_scale", 1) };
  if (mayCapLogits) return { logitCap: read.has(LOGIT_CAP) ? read.positive(LOGIT_CAP, 0) : 0 };
  if (caps !== undefined) {
    return {
      attentionCap: read.positive(ATTENTION_CAP, caps.attention),
      logitCap: read.positive(LOGIT_CAP, caps.logits),
    };
  }
  if (hasFactors) {
    const attentionScale = read.optionalPositive("attention.scale", 0);
    return {
      ...(attentionScale === 0 ? {} : { attentionScale }),
      embeddingScale: read.optionalPositive("embedding_scale", 1),
      residualScale: read.optionalPositive("residual_scale", 1),
      logitScale: 1 / read.optionalPositive("logit_scale", 1),
    };
  }
  if (!scalesQueries) return {};
  const beta = read.optionalPositive(QUERY_SCALE, 0);
  if (beta === 0) return {};
  const key = read.has(QUERY_LENGTH) ? QUERY_LENGTH : "rope.scaling.original_context_length";
  const length = read.size(key, MODEL_LIMITS.context, contextLength);
  return { queryScaling: { beta, length } };
}

function servedArchitecture(metadata: GgufMetadata): Architecture {
  const name = metadata.string("general.architecture");
  const known = ARCHITECTURES.find((candidate) => candidate === name);
  const expected = `expected one of ${ARCHITECTURES.join(", ")}, got ${name}`;
  // A file of draft heads, not a model.
  if (name === "mill-heads") {
    throw new MillraceError("architecture_unsupported", expected, {
      hint: `the file has trained heads: serve the model that they were trained on with --speculative-config '{"method":"heads","model":"FILE"}'`,
    });
  }
  if (known === undefined) throw unservedArchitecture(expected);
  const facts = factsOf(known);
  const { experts, caps, ropeSwitch, scalesQueries, draftBlocks, mayCapLogits, mayShareKeys } = facts;
  const unserved = [
    ...UNSERVED_KEYS,
    ...(experts === undefined ? ["expert_count"] : []),
    ...(caps === undefined ? [ATTENTION_CAP] : []),
    ...(caps === undefined && !mayCapLogits ? [LOGIT_CAP] : []),
    ...(mayShareKeys ? [] : SHARING),
    ...(scalesQueries ? [] : [QUERY_SCALE]),
    ...(draftBlocks === undefined ? [DRAFT_BLOCKS] : []),
    // Experts that compute on fewer values than hidden states have.
    ...(facts.isOnePart ? ["moe_latent_size"] : []),
    // Of LFM2's models of sounds.
    ...(facts.hasConvolutions && facts.windows === undefined ? ["attention.sliding_window"] : []),
  ];
  for (const key of unserved) {
    const value = metadata.number(`${known}.${key}`);
    if (value !== undefined && value !== 0) throw unservedVariant(`expected no ${known}.${key}, got ${value}`);
  }
  if (facts.hasConvolutions && metadata.boolean(`${known}.attention.causal`) === false) {
    throw unservedVariant(`expected ${known}.attention.causal, got false: tokens that see the whole text`);
  }
  if (ropeSwitch === "refused" && metadata.boolean(`${known}.${ROPE_SWITCH}`) === false) {
    throw unservedVariant(`expected ${known}.${ROPE_SWITCH}, got false: attention without positions`);
  }
  return known;
}
