/**
 * Rope settings of a config.json: `rope_parameters`, or `rope_scaling` with `rope_theta` as older files have it.
 * Formulas and defaults as in transformers' modeling_rope_utils.
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
  /** Of layers with a window; absent: the same. */
  readonly localHeadDim?: number;
  readonly maxPositions: number;
  readonly defaultBase: number;
  /** Share of a head that is rotated where the file does not say; absent: all. */
  readonly defaultShare?: number | undefined;
  /**
   * Rope of layers with a window, where it differs; base: used where the file gives none (absent: the model's base).
   */
  readonly localRope: { readonly base?: number } | undefined;
  /** Where the file states none, the class turns a quarter of the pairs. */
  readonly isPartial?: true | undefined;
  /** A dynamic rope may have an alpha, which raises the base whatever a text's length. */
  readonly hasAlpha?: true | undefined;
  /** `rotary_dim` says how many values of a head are rotated. */
  readonly statesDim?: true | undefined;
  /** All values are rotated: a stated share is that of a wider head, whose rotated part these are. */
  readonly isWhole?: boolean;
}

const EMPTY = new JsonObject({}, "config.json", "rope_parameters");
/** Gemma 4's. */
const PARTIAL = { rope_type: "proportional", partial_rotary_factor: 0.25 };
const KINDS = ["full_attention", "sliding_attention"] as const;

export function ropesFromHf(text: JsonObject, context: RopeContext): HfRopes {
  const { defaultBase, localRope, isPartial, headDim, localHeadDim = headDim } = context;
  const { main: stated, local, isByKind } = statedRopes(text);
  const main = isPartial && stated === EMPTY ? stated.withDefaults(PARTIAL) : stated;
  const { rope, factors } = readRope(text, main, context, positive(text, "rope_theta") ?? defaultBase);
  if (localRope === undefined) {
    if (!isByKind) return { ropes: [rope], factors };
    throw unservedVariant(
      `expected one rope for all layers in ${text.nameOf("rope_parameters")}, got one for each kind`,
    );
  }
  if (Object.keys(factors).length > 0 && !isProportional(main)) {
    throw unsupported(main, `${typeOf(main)} for a model with a second rope`);
  }
  const statedBase = localRope.base === undefined ? undefined : positive(text, "rope_local_base_freq");
  // By kind, a class that has no base of its own for windows has its default; older files mean the model's.
  const base = statedBase ?? localRope.base ?? (isByKind ? defaultBase : rope.base);
  const second = readRope(text, local, { ...context, headDim: localHeadDim }, base);
  if (Object.keys(second.factors).length > 0) throw unsupported(local, typeOf(local));
  return { ropes: [rope, second.rope], factors };
}

/**
 * Longest sequence in tokens: YaRN stretches the trained length.
 * @param maxPositions the trained length
 */
export function contextLengthOf(text: JsonObject, maxPositions: number): number {
  const { main: stated } = statedRopes(text);
  if (typeOf(stated) !== "yarn") return maxPositions;
  const original = originalLength(text, stated) ?? maxPositions;
  const stretched = Math.floor(original * yarnFactor(stated, maxPositions, original));
  return Math.min(MODEL_LIMITS.context, Math.max(maxPositions, stretched));
}

/** @throws model_config where a config.json states no rope */
export function assertRopeStated(text: JsonObject): void {
  if (statedRopes(text).main === EMPTY) throw configError("expected rope_parameters or rope_scaling, got neither");
}

/** Factor of queries and of keys of latent attention, which YaRN's settings say. */
export function latentMagnitudeOf(text: JsonObject): number {
  const { main: stated } = statedRopes(text);
  const multiplier = typeOf(stated) === "default" ? 0 : (stated.number("mscale_all_dim") ?? 0);
  if (multiplier === 0) return 1;
  const magnitude = 1 + 0.1 * multiplier * Math.log(Math.max(1, required(stated, "factor")));
  if (magnitude > 0 && Number.isFinite(Math.fround(magnitude ** 2))) return magnitude;
  throw configError(`expected a finite magnitude above 0 of ${stated.nameOf("mscale_all_dim")}, got ${magnitude}`);
}

const QUERY_SCALING_KEY = "llama_4_scaling_beta";

/** How Ministral 3 raises its queries, which its rope settings say; a factor of 0 raises nothing. */
export function queryScalingOf(text: JsonObject, maxPositions: number): QueryScaling | undefined {
  const { main: stated } = statedRopes(text);
  if (stated === EMPTY) throw configError("expected rope_parameters, without which queries cannot be scaled, got none");
  const beta = stated.number(QUERY_SCALING_KEY) === 0 ? undefined : positive(stated, QUERY_SCALING_KEY);
  if (beta === undefined) return undefined;
  const length = new ConfigReader(stated).size("original_max_position_embeddings", MODEL_LIMITS.context, maxPositions);
  return { beta, length };
}

/** @throws architecture_unsupported, where rope settings raise the queries of a class that does not */
export function refuseQueryScaling(text: JsonObject): void {
  const { main, local } = statedRopes(text);
  for (const stated of [main, local]) {
    const beta = stated.number(QUERY_SCALING_KEY);
    if (beta !== undefined && beta !== 0) {
      throw unservedVariant(`expected no ${stated.nameOf(QUERY_SCALING_KEY)}, got ${beta}`);
    }
  }
}

interface StatedRopes {
  /** Rope of layers without a window, or of all. */
  readonly main: JsonObject;
  /** Rope of layers with a window. */
  readonly local: JsonObject;
  /** The file states one for each kind of layer. */
  readonly isByKind: boolean;
}

/**
 * Both generations of transformers prefer `rope_scaling` where a file has it too; the later adds it to the rope of
 * layers without a window.
 */
function statedRopes(text: JsonObject): StatedRopes {
  const [older, newer] = ["rope_scaling", "rope_parameters"].map((key) => {
    const stated = text.object(key);
    return stated !== undefined && Object.keys(stated.raw).length > 0 ? stated : undefined;
  });
  if (newer === undefined || !KINDS.some((kind) => newer.has(kind))) {
    return { main: older ?? newer ?? EMPTY, local: EMPTY, isByKind: false };
  }
  const [main = EMPTY, local = EMPTY] = KINDS.map((kind) => newer.object(kind));
  const merged = older && new JsonObject({ ...main.raw, ...older.raw }, "config.json", "rope_scaling");
  return { main: merged ?? main, local, isByKind: true };
}

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
  { headDim, maxPositions, defaultShare = 1, hasAlpha, statesDim, isWhole = false }: RopeContext,
  defaultBase: number,
): { readonly rope: RopeConfig; readonly factors: RopeFactors } {
  const either = (key: string) => positive(stated, key) ?? positive(text, key);
  const statedDim = statesDim && positive(text, "rotary_dim");
  const statedShare = either("partial_rotary_factor") ?? (statedDim ? statedDim / headDim : defaultShare);
  const share = isWhole ? 1 : statedShare;
  const dim = isProportional(stated) ? headDim : Math.floor(headDim * share);
  if (statedDim && !Number.isInteger(statedDim)) throw configError(`expected rotary_dim to be whole, got ${statedDim}`);
  if (dim < 2 || dim % 2 !== 0 || dim > headDim) {
    throw configError(`expected rotated dimensions even and in [2, ${headDim}], got ${dim}`);
  }
  const plain = plainRope(dim, positive(stated, "rope_theta") ?? defaultBase, maxPositions);
  const original = originalLength(text, stated) ?? maxPositions;
  const base = { ...plain, originalContextLength: original };
  const type = typeOf(stated);
  switch (type) {
    case "default":
      return { rope: plain, factors: {} };
    case "linear":
      return { rope: { ...plain, scaling: "linear", factor: required(stated, "factor") }, factors: {} };
    case "dynamic":
      if (hasAlpha && stated.has("alpha")) return { rope: withAlpha(stated, plain), factors: {} };
      // Stretched as far as a text exceeds the trained length, which none does here. Other programs know an alpha, or a
      // shorter trained length.
      if (stated.has("alpha") || original < maxPositions)
        throw unsupported(stated, "dynamic with alpha or a shorter length");
      return { rope: plain, factors: {} };
    case "llama3":
      return { rope: plain, factors: { all: llama3Factors(stated, plain, original) } };
    case "yarn":
      return { rope: yarnRope(stated, base, yarnFactor(stated, maxPositions, original)), factors: {} };
    case "proportional":
      return { rope: plain, factors: { all: proportionalFactors(stated, dim, share) } };
    case "longrope":
    case "su":
      return longRope(stated, base, maxPositions);
    default:
      throw unsupported(stated, type);
  }
}

/** As transformers' HunYuanDenseV1RotaryEmbedding. */
function withAlpha(stated: JsonObject, rope: RopeConfig): RopeConfig {
  const { dim, base } = rope;
  const raised = base * required(stated, "alpha") ** (dim / (dim - 2));
  if (Number.isFinite(raised)) return { ...rope, base: raised };
  throw configError(`expected a finite base of ${dim} values by ${stated.nameOf("alpha")}, got ${raised}`);
}

/** Older files of models that see name the axes of pictures (`mrope`), for which a text's token has one position. */
function typeOf(stated: JsonObject): string {
  const type = stated.string("rope_type") ?? stated.string("type") ?? "default";
  return type === "mrope" ? "default" : type;
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
    rope: {
      ...base,
      scaling: "longrope",
      factor,
      attentionFactor: statedMagnitude(stated) ?? positive(stated, "attention_factor") ?? inferred,
    },
    factors: { short: list("short_factor"), long: list("long_factor") },
  };
}

/** The rope's magnitude where a folder states it, as Phi-MoE's do: served if short and long texts have the same. */
function statedMagnitude(stated: JsonObject): number | undefined {
  const [short, long] = [positive(stated, "short_mscale"), positive(stated, "long_mscale")];
  if (short === long) return short;
  throw unservedVariant(`expected ${stated.nameOf("long_mscale")} to be short_mscale (${short}), got ${long}`);
}

const isProportional = (stated: JsonObject): boolean => typeOf(stated) === "proportional";

/** Divides the frequencies of pairs that do not turn, by so much that no position turns them; llama.cpp's number. */
export const STILL = Math.fround(1e30);

/** The first pairs turn, as if all did. */
function proportionalFactors(stated: JsonObject, dim: number, share: number): Float32Array {
  const numTurning = Math.floor((share * dim) / 2);
  const factor = positive(stated, "factor") ?? 1;
  return Float32Array.from({ length: dim / 2 }, (_, pair) => (pair < numTurning ? factor : STILL));
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
  return unservedVariant(
    `expected ${name} to be default, linear, dynamic, llama3, yarn, longrope or proportional, got ${got}`,
  );
}
