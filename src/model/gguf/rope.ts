/** The rope that a GGUF file states. */
import { MillraceError } from "../../core/errors.js";
import type { GgufMetadata } from "../../formats/gguf/types.js";
import { type Architecture, factsOf } from "../description/architectures.js";
import type { AttentionMixer } from "../description/model-description.js";
import { ROPE_SCALINGS, type RopeConfig } from "../description/rope.js";
import { MetadataReader } from "./metadata-reader.js";

/** Values of a head that are rotated. */
function dimensionsOf(metadata: GgufMetadata, architecture: Architecture, key: string, headDim: number): number {
  const dim = metadata.number(`${architecture}.rope.${key}`) ?? headDim;
  if (Number.isInteger(dim) && dim >= 2 && dim % 2 === 0 && dim <= headDim) return dim;
  throw new MillraceError(
    "gguf_metadata",
    `expected ${architecture}.rope.${key} even and in [2, ${headDim}], got ${dim}`,
  );
}

function ropeFromMetadata(metadata: GgufMetadata, architecture: Architecture, headDim: number): RopeConfig {
  const number = (key: string) => metadata.number(`${architecture}.rope.${key}`);
  const dim = dimensionsOf(metadata, architecture, "dimension_count", headDim);
  const base = number("freq_base") ?? factsOf(architecture).ropeBaseInFiles ?? 10_000;
  const factor = number("scaling.factor") ?? number("scale_linear") ?? 1;
  if (!(base > 0 && Number.isFinite(base) && factor > 0 && Number.isFinite(factor))) {
    throw new MillraceError("gguf_metadata", `expected positive rope base and factor, got ${base} and ${factor}`);
  }
  const stated = metadata.string(`${architecture}.rope.scaling.type`) ?? (factor === 1 ? "none" : "linear");
  const scaling = ROPE_SCALINGS.find((candidate) => candidate === stated);
  if (scaling === undefined) {
    throw new MillraceError(
      "architecture_unsupported",
      `expected rope scaling ${ROPE_SCALINGS.join(", ")}, got ${stated}`,
    );
  }
  // The share of YaRN's magnitude that the model does without: all of it where attention is latent; its scores have it.
  const share = factsOf(architecture).isLatent ? 1 : (number(YARN_LOG_MULTIPLIER) ?? 0);
  const withheld = scaling === "yarn" ? 1 + 0.1 * share * Math.log(factor) : 1;
  if (!(withheld > 0 && Number.isFinite(withheld))) {
    const message = `expected a magnitude above 0 of ${architecture}.rope.scaling.yarn_log_multiplier, got ${withheld}`;
    throw new MillraceError("gguf_metadata", message);
  }
  return {
    dim,
    base,
    scaling,
    factor,
    originalContextLength:
      number("scaling.original_context_length") ?? metadata.number(`${architecture}.context_length`) ?? 0,
    betaFast: number("scaling.yarn_beta_fast") ?? 32,
    betaSlow: number("scaling.yarn_beta_slow") ?? 1,
    roundsYarnRange: factsOf(architecture).roundsYarnRange ?? true,
    attentionFactor: (number("scaling.attn_factor") ?? 1) / withheld,
  };
}

const YARN_LOG_MULTIPLIER = "scaling.yarn_log_multiplier";

/**
 * Factor of scores of latent attention, by the width of its heads. Here files have a tenth of the multiplier of other
 * architectures (`add_rope_scaling_yarn_log_mul` in llama.cpp's conversion/deepseek.py).
 */
export function latentScaleOf(metadata: GgufMetadata, architecture: Architecture, headDim: number): number {
  const number = (key: string) => metadata.number(`${architecture}.rope.${key}`);
  const isYarn = metadata.string(`${architecture}.rope.scaling.type`) === "yarn";
  const multiplier = isYarn ? (number(YARN_LOG_MULTIPLIER) ?? 0) : 0;
  const magnitude = 1 + multiplier * Math.log(number("scaling.factor") ?? 1);
  if (magnitude > 0 && Number.isFinite(Math.fround(magnitude ** 2))) return magnitude ** 2 / Math.sqrt(headDim);
  throw new MillraceError(
    "gguf_metadata",
    `expected a magnitude above 0 of ${architecture}.rope.${YARN_LOG_MULTIPLIER}, got ${magnitude}`,
  );
}

/** The model's rope, then that of windowed layers where they have their own. */
export function ropesFromMetadata(
  metadata: GgufMetadata,
  architecture: Architecture,
  mixers: readonly Pick<AttentionMixer, "rope" | "headDim">[],
): readonly RopeConfig[] {
  const headDimAt = (index: number) => mixers.find(({ rope }) => rope === index)?.headDim;
  const rope = ropeFromMetadata(metadata, architecture, headDimAt(0) ?? mixers[0]!.headDim);
  const localDim = headDimAt(1);
  if (localDim === undefined) return [rope];
  const { localRope, hasOwnHeads } = factsOf(architecture).windows ?? {};
  const read = new MetadataReader(metadata, architecture);
  const base = read.positive("rope.freq_base_swa", localRope?.base ?? rope.base);
  const dim = hasOwnHeads ? dimensionsOf(metadata, architecture, "dimension_count_swa", localDim) : rope.dim;
  return [rope, { ...rope, dim, base, scaling: "none" as const }];
}
