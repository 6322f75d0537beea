/** Reads the keys of config.json that only LFM2 and LFM3 have. */
import { configError, type JsonObject } from "../../formats/files/json.js";
import { type ConvolutionMixer, type FeedForward, MODEL_LIMITS } from "../description/model-description.js";
import { ConfigReader } from "./config-reader.js";
import type { TypeTraits } from "./model-types.js";

/** The convolution of the layers that have no attention. */
export const convolutionOf = (text: JsonObject, { defaults }: TypeTraits, width: number): ConvolutionMixer => ({
  kind: "convolution",
  width,
  numTaps: new ConfigReader(text).size("conv_L_cache", MODEL_LIMITS.taps, defaults.numTaps ?? 3),
});

/**
 * The kind of each layer. LFM2's files list them, or those with attention by number; where neither is stated, all have
 * attention. LFM3's list them, or have those of the class.
 */
export function kindsOfLfm(text: JsonObject, { windows }: TypeTraits, numLayers: number): readonly string[] {
  const hasWindows = windows === "period";
  const kinds = ["conv", "full_attention", ...(hasWindows ? ["sliding_attention"] : [])];
  const attending = text.numbers("full_attn_idxs") ?? [];
  const kindOf = (index: number) => {
    if (!hasWindows) return attending.length === 0 || attending.includes(index) ? "full_attention" : "conv";
    if (index % 4 === 2) return "full_attention";
    return index % 4 === 0 && index > 0 ? "sliding_attention" : "conv";
  };
  const types = text.strings("layer_types") ?? Array.from({ length: numLayers }, (_, index) => kindOf(index));
  const unknown = types.find((type) => !kinds.includes(type));
  if (types.length === numLayers && unknown === undefined) return types;
  throw configError(
    `expected ${text.nameOf("layer_types")} to name ${numLayers} layers ${kinds.join(" or ")}, got ${unknown ?? types.length}`,
  );
}

/** The stated width is two thirds too wide, before a factor and a rounding, unless the file says that it is exact. */
export function denseOfLfm2(text: JsonObject, { defaults }: TypeTraits): FeedForward {
  const read = new ConfigReader(text);
  const key = read.firstOf(["block_ff_dim", "intermediate_size"]);
  const stated = read.size(key, 2 * MODEL_LIMITS.ff, defaults.ffWidth);
  if (text.boolean("block_auto_adjust_ff_dim") === false) return { kind: "dense", width: stated };
  const twoThirds = Math.floor((2 * stated) / 3);
  const isNull = Object.hasOwn(text.raw, MULTIPLIER) && !text.has(MULTIPLIER);
  if (isNull) return { kind: "dense", width: twoThirds };
  const multiple = read.size("block_multiple_of", MODEL_LIMITS.ff, 256);
  const width = multiple * Math.ceil(Math.floor(read.positive(MULTIPLIER, 1) * twoThirds) / multiple);
  if (width >= 1 && width <= MODEL_LIMITS.ff) return { kind: "dense", width };
  throw configError(`expected a feed-forward width in [1, ${MODEL_LIMITS.ff}] of ${text.nameOf(key)}, got ${width}`);
}

const MULTIPLIER = "block_ffn_dim_multiplier";
