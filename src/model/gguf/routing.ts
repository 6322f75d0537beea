/** How a GGUF file's routers choose experts and weigh them. */
import type { GgufFile, GgufMetadata } from "../../formats/gguf/types.js";
import { type Architecture, factsOf, normalisesInFiles } from "../description/architectures.js";
import { MODEL_LIMITS } from "../description/model-description.js";
import { type ExpertRouting, PLAIN_ROUTING, SPARSE_MIXER, unservedVariant } from "../description/servable.js";
import type { MetadataReader } from "./metadata-reader.js";

/** Codes of `<architecture>.expert_gating_func`. */
const SOFTMAX = 1;
const SIGMOID = 2;
const SOFTMAX_OF_CHOSEN = 3;

/** Values of keys about experts that leave out nothing; undefined for all: the key is not there. */
const SERVED_EXPERTS: Readonly<Record<string, readonly number[]>> = {
  // Not stated, softmax, and softmax of the chosen ones.
  expert_gating_func: [0, 1, SOFTMAX_OF_CHOSEN],
  expert_weights_scale: [0, 1],
  expert_group_count: [0, 1],
};

/** @throws architecture_unsupported for a routing that the architecture's models do not have, or the engine does not */
export function readRouting(read: MetadataReader, gguf: GgufFile, architecture: Architecture): ExpertRouting {
  const { metadata } = gguf;
  const { experts } = factsOf(architecture);
  const { weighedBy, hasScoreBiases: hasBias = false } = experts ?? {};
  const stated = metadata.boolean(`${architecture}.expert_weights_norm`) ?? normalisesInFiles(experts);
  if (weighedBy === "either") return { ...readEitherRouting(read, gguf, architecture), normalises: stated };
  if (weighedBy === "sigmoid") return { ...readSigmoidRouting(read, metadata, architecture), normalises: stated };
  for (const [key, served] of Object.entries(SERVED_EXPERTS)) {
    const value = metadata.number(`${architecture}.${key}`);
    if (value === undefined || served.includes(value)) continue;
    throw unservedVariant(`expected ${architecture}.${key} to be one of ${served.join(", ")}, got ${value}`);
  }
  if (weighedBy === "sparseMixer") return SPARSE_MIXER;
  const isOfChosen =
    weighedBy === "softmaxOfChosen" || metadata.number(`${architecture}.expert_gating_func`) === SOFTMAX_OF_CHOSEN;
  const isOfAll = weighedBy === "softmaxOfAll";
  const normalises = isOfChosen || stated;
  if (!isOfAll || !normalises) return { ...PLAIN_ROUTING, normalises, hasBias };
  throw unservedVariant(
    `expected ${architecture} to weigh a token's experts among all experts, got weights relative to the chosen ones`,
  );
}

type Weighing = Omit<ExpertRouting, "normalises">;

function readScale(read: MetadataReader): Pick<ExpertRouting, "scale" | "numGroups" | "numUsedGroups"> {
  const numGroups = read.optionalSize("expert_group_count", MODEL_LIMITS.experts) || 1;
  const numUsedGroups = read.optionalSize("expert_group_used_count", numGroups) || numGroups;
  return { scale: read.optionalPositive("expert_weights_scale", 1), numGroups, numUsedGroups };
}

/** Softmax over all experts, as DeepSeek-V2 has it, or sigmoid with biases. */
function readEitherRouting(read: MetadataReader, gguf: GgufFile, architecture: Architecture): Weighing {
  const { metadata, tensors } = gguf;
  const stated = metadata.number(`${architecture}.expert_gating_func`) ?? 0;
  if (![0, SOFTMAX, SIGMOID].includes(stated)) {
    throw unservedVariant(`expected ${architecture}.expert_gating_func to be ${SOFTMAX} or ${SIGMOID}, got ${stated}`);
  }
  // Files that do not say are older: DeepSeek-V2's, or the first ones of GLM-4.7-Flash, which llama.cpp knows by these.
  const isFlash =
    metadata.number(`${architecture}.block_count`) === 47 && tensors.get("token_embd.weight")?.shape[1] === 154_880;
  const scoring = stated === SIGMOID || (stated === 0 && isFlash) ? "sigmoid" : "softmax";
  const hasBias = [...tensors.keys()].some((name) => name.endsWith(".exp_probs_b.bias"));
  if (hasBias && scoring === "softmax") {
    throw unservedVariant(
      `expected no exp_probs_b.bias beside a softmax (${architecture}.expert_gating_func), got some`,
    );
  }
  return { scoring, hasBias, ...readScale(read) };
}

function readSigmoidRouting(read: MetadataReader, metadata: GgufMetadata, architecture: Architecture): Weighing {
  const gating = metadata.number(`${architecture}.expert_gating_func`) ?? 0;
  if (gating !== 0 && gating !== SIGMOID) {
    throw unservedVariant(`expected ${architecture}.expert_gating_func to be 0 or ${SIGMOID}, got ${gating}`);
  }
  return { scoring: "sigmoid", hasBias: true, ...readScale(read) };
}
