/**
 * Rope settings of a config.json: `rope_parameters`, or `rope_scaling` with `rope_theta` as older files have it. Formulas and defaults
 * as in transformers' modeling_rope_utils.
 */
import type { MillraceError } from "../../core/errors.js";
import { configError, JsonObject } from "../../formats/files/json.js";
import { MODEL_LIMITS } from "../description/model-description.js";
import type { RopeConfig } from "../description/rope.js";
import { type QueryScaling, unservedVariant } from "../description/servable.js";
import { ConfigReader } from "./config-reader.js";

/** Divisors of the rope frequencies [rope.dim / 2]: in all contexts, or by context length (Phi-3's long rope). */
export interface RopeFactors {
  readonly all?: Float32Array;
  readonly short?: Float32Array;
  readonly long?: Float32Array;
}

interface HfRopes {
  /** The model's rope, then that of windowed layers where they have their own. */
  readonly ropes: readonly RopeConfig[];
  readonly factors: RopeFactors;
}

interface RopeContext {
  readonly headDim: number;
  readonly maxPositions: number;
  readonly defaultBase: number;
  /** Share of a head that is rotated where the file does not say; absent: all. */
  readonly defaultShare?: number | undefined;
  /** Of layers with a window, where they have their own; base: where the file does not say (absent: the model's). */
  readonly localRope: { readonly base?: number } | undefined;
}

const EMPTY = new JsonObject({}, "config.json", "rope_parameters");

export function ropesFromHf(text: JsonObject, context: RopeContext): HfRopes {
  const stated = statedRopes(text);
  const main = mainRope(stated);
  const { rope, factors } = readRope(text, main, context);
  if (context.localRope === undefined) return { ropes: [rope], factors };
  if (factors.all !== undefined) throw unsupported(main, "llama3 for a model with a second rope");
  const local = stated.object("sliding_attention");
  const localType = local === undefined ? undefined : typeOf(local);
  if (local !== undefined && localType !== "default") throw unsupported(local, localType);
  const base = positive(local ?? EMPTY, "rope_theta") ?? positive(text, "rope_local_base_freq");
  return {
    ropes: [rope, plainRope(rope.dim, base ?? context.localRope.base ?? rope.base, context.maxPositions)],
    factors,
  };
}

/**
 * Longest sequence in tokens: YaRN stretches the trained length.
 * @param maxPositions the trained length
 */
export function contextLengthOf(text: JsonObject, maxPositions: number): number {
  const stated = mainRope(statedRopes(text));
  if (typeOf(stated) !== "yarn") return maxPositions;
  const original = originalLength(text, stated) ?? maxPositions;
  const stretched = Math.floor(original * yarnFactor(stated, maxPositions, original));
  return Math.min(MODEL_LIMITS.context, Math.max(maxPositions, stretched));
}

/** @throws model_config for a class whose own rope, where a file is silent, is none that is assumed here */
export function assertRopeStated(text: JsonObject): void {
  if (statedRopes(text) === EMPTY) throw configError("expected rope_parameters or rope_scaling, got neither");
}

/** How Ministral 3 raises its queries, which its rope settings say. */
export function queryScalingOf(text: JsonObject, maxPositions: number): QueryScaling | undefined {
  const stated = statedRopes(text);
  if (stated === EMPTY) throw configError("expected rope_parameters, without which queries cannot be scaled, got none");
  const beta = positive(stated, "llama_4_scaling_beta");
  if (beta === undefined) return undefined;
  const length = new ConfigReader(stated).size("original_max_position_embeddings", MODEL_LIMITS.context, maxPositions);
  return { beta, length };
}

const statedRopes = (text: JsonObject): JsonObject =>
  text.object("rope_parameters") ?? text.object("rope_scaling") ?? EMPTY;

/** The rope of layers without a window, where a file states one for each kind of layer. */
const mainRope = (stated: JsonObject): JsonObject => stated.object("full_attention") ?? stated;

/** The rope's own statement first: some files also have the one of the model they were made from. */
const originalLength = (text: JsonObject, stated: JsonObject): number | undefined =>
  positive(stated, "original_max_position_embeddings") ?? positive(text, "original_max_position_embeddings");

const yarnFactor = (stated: JsonObject, maxPositions: number, original: number): number =>
  positive(stated, "factor") ?? maxPositions / original;

function plainRope(dim: number, base: number, maxPositions: number): RopeConfig {
  return {
    dim,
    base,
    scaling: "none",
    factor: 1,
    originalContextLength: maxPositions,
    betaFast: 32,
    betaSlow: 1,
    roundsYarnRange: true,
    attentionFactor: 1,
  };
}

function readRope(
  text: JsonObject,
  stated: JsonObject,
  { headDim, maxPositions, defaultBase, defaultShare = 1 }: RopeContext,
): { readonly rope: RopeConfig; readonly factors: RopeFactors } {
  const either = (key: string) => positive(stated, key) ?? positive(text, key);
  const dim = Math.floor(headDim * (either("partial_rotary_factor") ?? defaultShare));
  if (dim < 2 || dim % 2 !== 0 || dim > headDim) {
    throw configError(`expected rotated dimensions even and in [2, ${headDim}], got ${dim}`);
  }
  const plain = plainRope(dim, either("rope_theta") ?? defaultBase, maxPositions);
  const original = originalLength(text, stated) ?? maxPositions;
  const base = { ...plain, originalContextLength: original };
  const type = typeOf(stated);
  switch (type) {
    case "default":
      return { rope: plain, factors: {} };
    case "linear":
      return { rope: { ...plain, scaling: "linear", factor: required(stated, "factor") }, factors: {} };
    case "llama3":
      return { rope: plain, factors: { all: llama3Factors(stated, plain, original) } };
    case "yarn":
      return { rope: yarnRope(stated, base, yarnFactor(stated, maxPositions, original)), factors: {} };
    case "longrope":
    case "su":
      return longRope(stated, base, maxPositions);
    default:
      throw unsupported(stated, type);
  }
}

function typeOf(stated: JsonObject): string {
  return stated.string("rope_type") ?? stated.string("type") ?? "default";
}

function yarnRope(stated: JsonObject, base: RopeConfig, factor: number): RopeConfig {
  const magnitude = (mscale: number) => (factor <= 1 ? 1 : 0.1 * mscale * Math.log(factor) + 1);
  const [mscale, mscaleAll] = [stated.number("mscale"), stated.number("mscale_all_dim")];
  const inferred = mscale && mscaleAll ? magnitude(mscale) / magnitude(mscaleAll) : magnitude(1);
  return {
    ...base,
    scaling: "yarn",
    factor,
    betaFast: positive(stated, "beta_fast") ?? 32,
    betaSlow: positive(stated, "beta_slow") ?? 1,
    roundsYarnRange: stated.boolean("truncate") !== false,
    // ropeFrequencies multiplies with YaRN's own magnitude, which is part of the number here.
    attentionFactor: (positive(stated, "attention_factor") ?? inferred) / (1 + 0.1 * Math.log(factor)),
  };
}

function longRope(
  stated: JsonObject,
  base: RopeConfig,
  maxPositions: number,
): { readonly rope: RopeConfig; readonly factors: RopeFactors } {
  const original = base.originalContextLength;
  const factor = positive(stated, "factor") ?? maxPositions / original;
  const inferred = factor <= 1 ? 1 : Math.sqrt(1 + Math.log(factor) / Math.log(original));
  const list = (key: string): Float32Array => {
    const values = stated.numbers(key);
    if (values?.length === base.dim / 2) return Float32Array.from(values);
    throw configError(
      `expected ${stated.nameOf(key)} to have ${base.dim / 2} numbers, got ${values?.length ?? "none"}`,
    );
  };
  return {
    rope: { ...base, scaling: "longrope", factor, attentionFactor: positive(stated, "attention_factor") ?? inferred },
    factors: { short: list("short_factor"), long: list("long_factor") },
  };
}

/** Long waves are stretched by `factor`, short ones kept, those between interpolated. */
function llama3Factors(stated: JsonObject, { dim, base }: RopeConfig, original: number): Float32Array {
  const factor = required(stated, "factor");
  const low = required(stated, "low_freq_factor");
  const high = required(stated, "high_freq_factor");
  return Float32Array.from({ length: dim / 2 }, (_, i) => {
    const waveLength = 2 * Math.PI * base ** ((2 * i) / dim);
    if (waveLength < original / high) return 1;
    if (waveLength > original / low) return factor;
    const smooth = (original / waveLength - low) / (high - low);
    return 1 / ((1 - smooth) / factor + smooth);
  });
}

function positive(json: JsonObject, key: string): number | undefined {
  const value = json.number(key);
  if (value === undefined || value > 0) return value;
  throw configError(`expected ${json.nameOf(key)} to be a positive number, got ${value}`);
}

function required(json: JsonObject, key: string): number {
  const value = positive(json, key);
  if (value !== undefined) return value;
  throw configError(`expected ${json.nameOf(key)} to be a positive number, got nothing`);
}

function unsupported(stated: JsonObject, got: string | undefined): MillraceError {
  const name = stated.nameOf("rope_type");
  return unservedVariant(`expected ${name} to be default, linear, llama3, yarn or longrope, got ${got}`);
}
