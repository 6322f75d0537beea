/** What is LFM2's own in a config.json. */
import { configError, type JsonObject } from "../../formats/files/json.js";
import { type ConvolutionMixer, type FeedForward, MODEL_LIMITS } from "../description/model-description.js";
import { ConfigReader } from "./config-reader.js";
import type { TypeTraits } from "./model-types.js";

/** The convolution of the layers that have no attention. */
export const convolutionOf = (text: JsonObject, width: number): ConvolutionMixer => ({
  kind: "convolution",
  width,
  numTaps: new ConfigReader(text).size("conv_L_cache", MODEL_LIMITS.taps, 3),
});

/** Layers are listed by kind, or those with attention by number; where neither is stated, all have attention. */
export function convolutionLayers(text: JsonObject, numLayers: number): (index: number) => boolean {
  const types = text.strings("layer_types");
  if (types === undefined) {
    const attending = text.numbers("full_attn_idxs") ?? [];
    return (index) => attending.length > 0 && !attending.includes(index);
  }
  const unknown = types.find((type) => type !== "conv" && type !== "full_attention");
  if (types.length === numLayers && unknown === undefined) return (index) => types[index] === "conv";
  throw configError(
    `expected ${text.nameOf("layer_types")} to name ${numLayers} layers conv or full_attention, got ${unknown ?? types.length}`,
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
