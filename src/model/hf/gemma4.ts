/**
 * What config.json files of Gemma 4 say of their layers that those of others do not: heads that differ by layer, keys
 * that several layers share, and experts beside a dense part.
 */
import { configError, type JsonObject } from "../../formats/files/json.js";
import { type AttentionMixer, type FeedForward, keysOf, MODEL_LIMITS } from "../description/model-description.js";
import { unservedVariant } from "../description/servable.js";
import { ConfigReader } from "./config-reader.js";
import type { TypeTraits } from "./model-types.js";

interface LayerFacts {
  readonly numLayers: number;
  readonly numHeads: number;
  /** Of layers for which the file states nothing else. */
  readonly numKvHeads: number;
  readonly headDim: number;
  readonly hasWindow: (index: number) => boolean;
}

type Heads = Pick<AttentionMixer, "numKvHeads" | "headDim" | "valueDim" | "keysOf" | "areValuesKeys">;

/** As transformers has it: the last layer sees everything, whatever the file says. */
export const exceptLast =
  (numLayers: number, hasWindow: (index: number) => boolean) =>
  (index: number): boolean =>
    index < numLayers - 1 && hasWindow(index);

export function headsByLayer(text: JsonObject, traits: TypeTraits, facts: LayerFacts): (index: number) => Heads {
  const { numLayers, numHeads, hasWindow } = facts;
  const sizesOf = readSizes(text, traits, facts);
  const areValuesKeys = text.boolean("attention_k_eq_v") ?? false;
  const numOwn = numLayers - numSharingLayers(text, numLayers);
  return (index) => {
    const { numKvHeads, headDim } = sizesOf(index);
    if (numHeads % numKvHeads !== 0) {
      throw configError(`expected ${numHeads} query heads in whole groups per key/value head, got ${numKvHeads}`);
    }
    const sizes = { numKvHeads, headDim, valueDim: headDim };
    const source = keysOf(index, numOwn, hasWindow);
    if (source !== undefined) return { ...sizes, keysOf: source };
    return areValuesKeys && !hasWindow(index) ? { ...sizes, areValuesKeys } : sizes;
  };
}

type Sizes = Pick<LayerFacts, "numKvHeads" | "headDim">;

/** transformers writes the sizes of each layer that differs; published files state those of layers without a window. */
function readSizes(
  text: JsonObject,
  { defaults }: TypeTraits,
  { numLayers, numKvHeads, headDim, hasWindow }: LayerFacts,
): (index: number) => Sizes {
  const read = new ConfigReader(text);
  const usual: Sizes = { numKvHeads, headDim };
  const stated = text.object("per_layer_config");
  if (stated === undefined) {
    const ofAll: Sizes = {
      headDim: read.size("global_head_dim", MODEL_LIMITS.headDim, defaults.globalHeadDim),
      numKvHeads:
        text.boolean("attention_k_eq_v") === true
          ? read.size("num_global_key_value_heads", MODEL_LIMITS.heads, numKvHeads)
          : numKvHeads,
    };
    return (index) => (hasWindow(index) ? usual : ofAll);
  }
  const own = new Map<number, Sizes>();
  for (const key of Object.keys(stated.raw)) {
    const index = Number(key);
    const entry = stated.object(key);
    if (entry === undefined || !Number.isInteger(index) || index < 0 || index >= numLayers) {
      throw configError(`expected ${text.nameOf("per_layer_config")} to name layers below ${numLayers}, got ${key}`);
    }
    const unknown = Object.keys(entry.raw).find((name) => name !== "head_dim" && name !== "num_key_value_heads");
    if (unknown !== undefined) throw unservedVariant(`expected no ${entry.nameOf(unknown)}, got one`);
    const readEntry = new ConfigReader(entry);
    own.set(index, {
      headDim: readEntry.size("head_dim", MODEL_LIMITS.headDim, headDim),
      numKvHeads: readEntry.size("num_key_value_heads", MODEL_LIMITS.heads, numKvHeads),
    });
  }
  return (index) => own.get(index) ?? usual;
}

const numSharingLayers = (text: JsonObject, numLayers: number): number =>
  new ConfigReader(text).optionalSize("num_kv_shared_layers", numLayers);

export function feedForwardsOfGemma4(
  text: JsonObject,
  { defaults }: TypeTraits,
  numLayers: number,
): (index: number) => FeedForward {
  const read = new ConfigReader(text);
  const width = read.size("intermediate_size", MODEL_LIMITS.ff, defaults.ffWidth);
  const numOwn = numLayers - numSharingLayers(text, numLayers);
  const isWide = text.boolean("use_double_wide_mlp") ?? false;
  const widthAt = (index: number) => (isWide && numOwn > 0 && index >= numOwn ? 2 * width : width);
  if (text.boolean("enable_moe_block") !== true) return (index) => ({ kind: "dense", width: widthAt(index) });
  const count = read.size("num_experts", MODEL_LIMITS.experts);
  const experts = {
    kind: "experts" as const,
    count,
    active: read.size("top_k_experts", count),
    width: read.size("moe_intermediate_size", MODEL_LIMITS.ff),
  };
  return (index) => ({ ...experts, sharedWidth: widthAt(index) });
}

/** Width of the input that each layer takes of a token; 0: none. @param vocabSize the rows that its table must have */
export function layerInputWidthOf(text: JsonObject, { defaults }: TypeTraits, vocabSize: number): number {
  const read = new ConfigReader(text);
  const width = read.optionalSize("hidden_size_per_layer_input", MODEL_LIMITS.width, defaults.layerInputWidth);
  if (width === 0) return 0;
  const key = "vocab_size_per_layer_input";
  const numRows = read.size(key, MODEL_LIMITS.vocab, defaults.vocabSize);
  if (numRows === vocabSize) return width;
  throw unservedVariant(`expected ${text.nameOf(key)} to be the vocabulary's ${vocabSize}, got ${numRows}`);
}
