/** Writes the rope settings of a config.json in keys that both transformers 4 and 5 know. */
import type { TensorSource } from "../../backend/tensor-source.js";
import { JsonObject } from "../../formats/files/json.js";
import { factsOf } from "../../model/description/architectures.js";
import type { RopeConfig } from "../../model/description/rope.js";
import { attentionMixers, type ServableModel, unservedVariant } from "../../model/description/servable.js";
import { ropesFromHf, STILL } from "../../model/hf/rope.js";
import { ROPE_FACTORS } from "../weights/tensors.js";
import { shortest } from "./shortest.js";

type Json = Record<string, unknown>;

/** @param classShare default share of a head that is rotated */
export function ropeOf(model: ServableModel, source: TensorSource, classShare: number): Json {
  const [rope, local] = model.ropes;
  const { dim, base } = rope!;
  const { headDim } = attentionMixers(model)[0]!;
  const scaling = scalingByFactors(model, source) ?? scalingOf(rope!);
  const json: Json = { rope_theta: base };
  if (dim !== headDim || classShare !== 1) json.partial_rotary_factor = dim / headDim;
  if (scaling?.type === "longrope") json.original_max_position_embeddings = rope!.originalContextLength;
  if (model.queryScaling !== undefined) {
    const { beta, length } = model.queryScaling;
    json.rope_parameters = {
      rope_type: "default",
      original_max_position_embeddings: length,
      ...scaling,
      rope_theta: base,
      llama_4_scaling_beta: shortest(beta),
    };
    return json;
  }
  if (scaling !== undefined) json.rope_scaling = scaling;
  if (local === undefined) return json;
  // For windows, transformers 4 only knows Gemma's base; 5 uses the class's own base, unless a rope for each kind
  // states another.
  const hasOwnBase = factsOf(model.architecture).windows?.localRope?.base !== undefined;
  if (hasOwnBase) json.rope_local_base_freq = local.base;
  json.rope_parameters = {
    full_attention: { rope_type: "default", ...scaling, rope_theta: base },
    sliding_attention: { rope_type: "default", ...scalingOf(local), rope_theta: local.base },
  };
  return json;
}

/**
 * Ropes of both kinds of layers, in a model whose ropes may turn only a part of the pairs.
 * @throws architecture_unsupported for frequency factors that config.json cannot express
 */
export function ropesByKind({ ropes }: ServableModel, source: TensorSource): Json {
  const [rope, local = rope] = ropes;
  const factors = source.has(ROPE_FACTORS[0]) ? source.values(ROPE_FACTORS[0], rope!.dim / 2) : undefined;
  const scaling = factors === undefined ? scalingOf(rope!) : proportionalScaling(factors);
  if (factors !== undefined && rope!.scaling !== "none") {
    throw unservedVariant(`expected a rope scaled in one way, got factors and ${rope!.scaling}`);
  }
  return {
    full_attention: { rope_type: "default", ...scaling, rope_theta: rope!.base },
    sliding_attention: { rope_type: "default", ...scalingOf(local!), rope_theta: local!.base },
  };
}

/** The first pairs turn, all divided by one factor; the others stay fixed. */
function proportionalScaling(factors: Float32Array): Json {
  const numTurning = factors.findIndex((factor) => factor >= STILL);
  const turning = numTurning === -1 ? factors : factors.subarray(0, numTurning);
  const rest = factors.subarray(turning.length);
  const [factor = 1] = turning;
  if (turning.some((each) => each !== factor) || rest.some((each) => each < STILL)) {
    throw unservedVariant("expected rope_freqs.weight to turn the first pairs, all alike, got other factors");
  }
  return {
    rope_type: "proportional",
    partial_rotary_factor: turning.length / factors.length,
    ...(factor === 1 ? {} : { factor: shortest(factor) }),
  };
}

/** @returns undefined for an unscaled rope, and for one with a factor for each frequency */
function scalingOf({ scaling, attentionFactor, ...rope }: RopeConfig): Json | undefined {
  const { factor, originalContextLength, betaFast, betaSlow } = rope;
  if (scaling === "linear") return { rope_type: "linear", factor };
  if (scaling !== "yarn") return undefined;
  return {
    rope_type: "yarn",
    factor,
    original_max_position_embeddings: originalContextLength,
    beta_fast: betaFast,
    beta_slow: betaSlow,
    ...(rope.roundsYarnRange ? {} : { truncate: false }),
    // The whole magnitude: ropeFrequencies multiplies YaRN's own part into it.
    attention_factor: attentionFactor * (1 + 0.1 * Math.log(factor)),
  };
}

function scalingByFactors(model: ServableModel, source: TensorSource): Json | undefined {
  const { dim, originalContextLength, attentionFactor } = model.ropes[0]!;
  const factors = (name: string) => (source.has(name) ? source.values(name, dim / 2) : undefined);
  const [all, short, long] = ROPE_FACTORS.map(factors);
  if (all !== undefined) return llama3Scaling(all, model);
  if (short === undefined || long === undefined) return undefined;
  // transformers 4 only accepts these three keys; the magnitude follows from the lengths.
  const stretch = model.contextLength / originalContextLength;
  const inferred = stretch <= 1 ? 1 : Math.sqrt(1 + Math.log(stretch) / Math.log(originalContextLength));
  return {
    type: "longrope",
    short_factor: Array.from(short, shortest),
    long_factor: Array.from(long, shortest),
    ...(Math.abs(inferred - attentionFactor) < 1e-5 ? {} : { attention_factor: attentionFactor }),
  };
}

/** Llama 3's further settings, the same in all published models. */
const LOW_FREQ_FACTOR = 1;
const HIGH_FREQ_FACTOR = 4;

/** Llama 3's settings, derived from their resulting factors: a GGUF file holds only the factors. */
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
