/**
 * Reads the description of a model from a Hugging Face config.json, of any kind. Defaults are those of transformers'
 * configuration classes.
 */
import { configError, type JsonObject } from "../../formats/files/json.js";
import type { HfFolder } from "../../formats/hf/folder.js";
import type { DeltaFacts } from "../description/architecture-facts.js";
import { isEncoder, knownFacts, windowOfBothSides } from "../description/architectures.js";
import {
  type DeltaMixer,
  type ExpertsFeedForward,
  type FeedForward,
  isAttending,
  isSecond,
  type LatentMixer,
  type Layer,
  layersOf,
  type Mixer,
  MODEL_LIMITS,
  type ModelDescription,
  NO_ROPE,
  seesAll,
} from "../description/model-description.js";
import { expertsOf } from "../description/sizes.js";
import { ConfigReader } from "./config-reader.js";
import { exceptLast, feedForwardsOfGemma4, headsByLayer, layerInputWidthOf } from "./gemma4.js";
import { convolutionOf, denseOfLfm2, kindsOfLfm } from "./lfm2.js";
import { mambaMixers, partsOfNemotron } from "./mamba.js";
import { periodicWindows, type TypeTraits, textConfig, traitsOf } from "./model-types.js";
import { hasOutput, numDraftLayers } from "./names.js";
import { contextLengthOf } from "./rope.js";

/** Facts that only the weights beside a config.json show. */
export interface WeightFacts {
  /** Rows of the embedding table. */
  readonly numEmbeddings: number;
  /** Whether there is an output matrix. */
  readonly hasOutput: boolean;
  /** How many layers draft later tokens; absent: none. */
  readonly numDraftLayers?: number;
}

export const weightFacts = (folder: HfFolder): WeightFacts => ({
  numEmbeddings: folder.numEmbeddings,
  hasOutput: hasOutput(folder),
  numDraftLayers: numDraftLayers(folder),
});

/**
 * @param config config.json
 * @param name the model's name
 * @param weights undefined: only the config is there
 * @throws model_config, where a number is missing or beyond MODEL_LIMITS
 */
export function describeConfig(config: JsonObject, name: string, weights?: WeightFacts): ModelDescription {
  const traits = traitsOf(config);
  const text = textConfig(config);
  const read = new ConfigReader(text);
  const { defaults } = traits;
  const numLayers = read.size("num_hidden_layers", MODEL_LIMITS.layers, defaults.numLayers);
  const width = read.size("hidden_size", MODEL_LIMITS.width, defaults.width);
  const maxPositions = maxPositionsOf(text, traits);
  const { hasPositionTable } = knownFacts(traits.architecture);
  const contextLength = hasPositionTable ? maxPositions : contextLengthOf(text, maxPositions);
  const statedTie = config.boolean("tie_word_embeddings") ?? text.boolean("tie_word_embeddings") ?? traits.isTied;
  const mixerOf = readMixers(text, traits, { numLayers, width, contextLength });
  const { mayShareKeys, experts } = knownFacts(traits.architecture);
  const feedForwardOf = experts?.areBesideDense
    ? feedForwardsOfGemma4(text, traits, numLayers)
    : readFeedForwards(text, traits, numLayers);
  const layers = layersOf(numLayers, (index) => ({ mixer: mixerOf(index), feedForward: feedForwardOf(index) }));
  const vocabSize = weights?.numEmbeddings ?? read.size("vocab_size", MODEL_LIMITS.vocab, defaults.vocabSize);
  const layerInputWidth = mayShareKeys ? layerInputWidthOf(text, traits, vocabSize) : 0;
  return Object.freeze({
    name,
    width,
    vocabSize,
    contextLength,
    isTied: statedTie || weights?.hasOutput === false,
    ...(layerInputWidth === 0 ? {} : { layerInputWidth }),
    layers,
    ...draftLayersOf(layers, weights?.numDraftLayers ?? 0),
  });
}

/** They are like the last layer with attention, and have experts where other layers have. */
function draftLayersOf(layers: readonly Layer[], count: number): Pick<ModelDescription, "draftLayers"> {
  const mixer = layers.findLast((layer) => isAttending(layer.mixer))?.mixer;
  if (count === 0 || mixer === undefined) return {};
  const feedForward = expertsOf({ layers }) ?? layers.at(-1)!.feedForward;
  return { draftLayers: layersOf(count, () => ({ mixer, feedForward })) };
}

/** Longest sequence that the model was trained for, before its rope is stretched. */
export function maxPositionsOf(text: JsonObject, traits: TypeTraits): number {
  const numRows = new ConfigReader(text).size(
    "max_position_embeddings",
    MODEL_LIMITS.context,
    traits.defaults.maxPositions,
  );
  const firstRow = firstPositionRow(text, traits);
  if (firstRow < numRows) return numRows - firstRow;
  throw configError(`expected ${text.nameOf("max_position_embeddings")} above ${firstRow}, got ${numRows}`);
}

/**
 * Row of the first position in the table of positions: in RoBERTa's models the one after the padding token's number.
 */
export function firstPositionRow(text: JsonObject, { encoder }: TypeTraits): number {
  if (encoder?.isTablePadded !== true) return 0;
  const paddingId = text.number("pad_token_id") ?? 1;
  if (Number.isInteger(paddingId) && paddingId >= 0 && paddingId < MODEL_LIMITS.vocab) return paddingId + 1;
  throw configError(`expected ${text.nameOf("pad_token_id")} to be a token id, got ${paddingId}`);
}

interface LayerContext {
  readonly numLayers: number;
  readonly width: number;
  readonly contextLength: number;
}

function readMixers(text: JsonObject, traits: TypeTraits, context: LayerContext): (index: number) => Mixer {
  const { defaults } = traits;
  const read = new ConfigReader(text);
  const numHeads = read.size("num_attention_heads", MODEL_LIMITS.heads, defaults.numHeads);
  const { isLatent, delta, gates, hasConvolutions, hasMamba, isOnePart = false } = knownFacts(traits.architecture);
  if (isLatent || text.has("kv_lora_rank")) {
    const latent = readLatent(read, numHeads);
    return () => latent;
  }
  const numKvHeads = read.size("num_key_value_heads", MODEL_LIMITS.heads, defaults.numKvHeads ?? numHeads);
  const headDim = read.size("head_dim", MODEL_LIMITS.headDim, defaults.headDim ?? Math.floor(context.width / numHeads));
  if (numHeads % numKvHeads !== 0) {
    throw configError(`expected ${numHeads} query heads in whole groups per key/value head, got ${numKvHeads}`);
  }
  const plain = { kind: "attention", numHeads, numKvHeads, headDim, valueDim: headDim, window: 0, rope: 0 } as const;
  const gated = gates === undefined ? {} : { gates };
  if (hasMamba) return mambaMixers(text, { ...context, isOnePart }, plain);
  if (delta !== undefined) {
    const recurrent = readDelta(read);
    const isRecurrent = recurrentLayers(text, delta, context.numLayers);
    return (index) => (isRecurrent(index) ? recurrent : { ...plain, ...gated });
  }
  const window = readWindow(text, traits, context.contextLength);
  const { localRope, hasOwnHeads = false, areAloneRotated } = periodicWindows(traits) ?? {};
  const stated = layersWithWindow(text, traits, context.numLayers);
  const hasWindow = hasOwnHeads ? exceptLast(context.numLayers, stated) : stated;
  const facts = { numLayers: context.numLayers, numHeads, numKvHeads, headDim, hasWindow };
  const usual = { numKvHeads, headDim, valueDim: headDim };
  const headsOf = hasOwnHeads ? headsByLayer(text, traits, facts) : () => usual;
  const ropeOfWindows = localRope === undefined ? 0 : 1;
  const hasRopeBesides = areAloneRotated === undefined || (areAloneRotated === "ifAny" && !mayHaveWindow(text, traits));
  const isRotated = hasRopeBesides ? layersWithRope(text, traits, context.numLayers) : () => false;
  const attentionOf = (index: number): Mixer => {
    const local = hasWindow(index)
      ? { window, rope: ropeOfWindows }
      : { window: 0, rope: isRotated(index) ? 0 : NO_ROPE };
    return { kind: "attention", numHeads, ...headsOf(index), ...local, ...gated };
  };
  if (!hasConvolutions) return attentionOf;
  const convolution = convolutionOf(text, traits, context.width);
  const kinds = kindsOfLfm(text, traits, context.numLayers);
  return (index) => (kinds[index] === "conv" ? convolution : attentionOf(index));
}

/** Defaults are those of all classes that have such layers. */
function readDelta(read: ConfigReader): DeltaMixer {
  const numHeads = read.size("linear_num_value_heads", MODEL_LIMITS.heads, 32);
  const numKeyHeads = read.size("linear_num_key_heads", MODEL_LIMITS.heads, 16);
  if (numHeads % numKeyHeads !== 0) {
    throw configError(`expected ${numHeads} value heads in whole groups per key head, got ${numKeyHeads}`);
  }
  return {
    kind: "delta",
    numHeads,
    numKeyHeads,
    headDim: read.size("linear_key_head_dim", MODEL_LIMITS.headDim, 128),
    valueDim: read.size("linear_value_head_dim", MODEL_LIMITS.headDim, 128),
    numTaps: read.size("linear_conv_kernel_dim", MODEL_LIMITS.taps, 4),
    isTiled: false,
  };
}

function recurrentLayers(
  text: JsonObject,
  { period: ofClass }: DeltaFacts,
  numLayers: number,
): (index: number) => boolean {
  const types = text.strings("layer_types");
  if (types === undefined) {
    const period = new ConfigReader(text).size("full_attention_interval", MODEL_LIMITS.layers, ofClass);
    return (index) => !seesAll(index, period);
  }
  const unknown = types.find((type) => type !== "linear_attention" && type !== "full_attention");
  if (types.length === numLayers && unknown === undefined) return (index) => types[index] === "linear_attention";
  throw configError(
    `expected ${text.nameOf("layer_types")} to name ${numLayers} layers linear_attention or full_attention, got ${unknown ?? types.length}`,
  );
}

function readLatent(read: ConfigReader, numHeads: number): LatentMixer {
  return {
    kind: "latent",
    numHeads,
    headDim: read.size(read.firstOf(["qk_nope_head_dim", "head_dim"]), MODEL_LIMITS.headDim),
    valueDim: read.size("v_head_dim", MODEL_LIMITS.headDim),
    kvRank: read.size("kv_lora_rank", MODEL_LIMITS.latent),
    ropeDim: read.size("qk_rope_head_dim", MODEL_LIMITS.headDim),
    queryRank: read.optionalSize("q_lora_rank", MODEL_LIMITS.latent),
  };
}

/** An explicit null is none even where the class has a default. */
export function mayHaveWindow(text: JsonObject, { defaults }: TypeTraits): boolean {
  const isStated = Object.hasOwn(text.raw, "sliding_window");
  return isStated ? text.has("sliding_window") : defaults.window !== undefined;
}

/** 0 = none, or as long as the context. */
function readWindow(text: JsonObject, traits: TypeTraits, contextLength: number): number {
  if (traits.windows === "none" || !mayHaveWindow(text, traits)) return 0;
  const { architecture, defaults } = traits;
  const window = new ConfigReader(text).size("sliding_window", MODEL_LIMITS.context, defaults.window);
  // Encoders' files state it without the token itself.
  if (architecture !== undefined && isEncoder(architecture)) return windowOfBothSides(window, contextLength);
  return window >= contextLength ? 0 : window;
}

function layersWithWindow(text: JsonObject, traits: TypeTraits, numLayers: number): (index: number) => boolean {
  const { windows } = traits;
  if (windows === "none") return () => false;
  if (windows.endsWith("henUsed") && text.boolean("use_sliding_window") !== true) return () => false;
  if (windows === "allWhenUsed") return () => true;
  if (knownFacts(traits.architecture).hasConvolutions) {
    const kinds = kindsOfLfm(text, traits, numLayers);
    return (index) => kinds[index] === "sliding_attention";
  }
  const types = windows === "all" ? undefined : text.strings("layer_types");
  if (types !== undefined) {
    const unknown = types.find((type) => type !== "sliding_attention" && type !== "full_attention");
    if (types.length !== numLayers || unknown !== undefined) {
      throw configError(
        `expected ${text.nameOf("layer_types")} to name ${numLayers} layers sliding_attention or full_attention, got ${unknown ?? types.length}`,
      );
    }
    return (index) => types[index] === "sliding_attention";
  }
  if (windows === "all" || windows === "listed") return () => true;
  const first = text.number("max_window_layers") ?? traits.defaults.firstWindow ?? 28;
  if (windows === "whenUsed" || windows === "late") return (index) => index >= first;
  const { period: ofClass, isFromFirst } = periodicWindows(traits) ?? {};
  const period = new ConfigReader(text).size("sliding_window_pattern", MODEL_LIMITS.layers, ofClass);
  return (index) => !seesAll(index, period, isFromFirst);
}

/** Layers without positions. Of SmolLM3: a list that has 0 for them, or every so-many-th layer. */
function layersWithRope(text: JsonObject, { architecture }: TypeTraits, numLayers: number): (index: number) => boolean {
  const { noRopePeriod: ofClass, hasPositionTable = false } = knownFacts(architecture);
  if (ofClass === undefined) return () => !hasPositionTable;
  const stated = text.numbers("no_rope_layers");
  if (stated === undefined) {
    const period = new ConfigReader(text).size("no_rope_layer_interval", MODEL_LIMITS.layers, ofClass);
    return (index) => !seesAll(index, period);
  }
  if (stated.length >= numLayers) return (index) => stated[index] !== 0;
  throw configError(`expected ${text.nameOf("no_rope_layers")} to have ${numLayers} numbers, got ${stated.length}`);
}

function readFeedForwards(text: JsonObject, traits: TypeTraits, numLayers: number): (index: number) => FeedForward {
  const read = new ConfigReader(text);
  const { isGateless, isOnePart } = knownFacts(traits.architecture);
  const gate = isGateless ? { isGated: false as const } : {};
  const readDense = (): FeedForward => {
    if (traits.denseWidth === "adjusted") return denseOfLfm2(text, traits);
    const key = traits.denseWidth === "shared" ? "shared_intermediate_size" : "intermediate_size";
    const fourfold =
      traits.denseWidth === "fourfold"
        ? 4 * read.size("hidden_size", MODEL_LIMITS.width, traits.defaults.width)
        : undefined;
    const width = read.size(key, MODEL_LIMITS.ff, fourfold ?? traits.defaults.ffWidth);
    return { kind: "dense", width, ...gate };
  };
  const stated = readExperts(read, traits);
  if (isOnePart)
    return partsOfNemotron(text, numLayers, { dense: readDense, experts: stated && { ...stated, ...gate } });
  if (stated === undefined) {
    const dense = readDense();
    return () => dense;
  }
  const experts = { ...stated, ...gate };
  const have = Array.from({ length: numLayers }, layersWithExperts(text, traits, numLayers));
  if (have.every(Boolean)) return () => experts;
  const dense = readDense();
  return (index) => (have[index] ? experts : dense);
}

function layersWithExperts(
  text: JsonObject,
  { architecture, experts: ofClass }: TypeTraits,
  numLayers: number,
): (unused: unknown, index: number) => boolean {
  if (ofClass?.hasChoice === false) return () => true;
  const read = new ConfigReader(text);
  const { periodKey } = knownFacts(architecture).experts ?? {};
  if (periodKey !== undefined) {
    const period = read.size(periodKey, MODEL_LIMITS.layers);
    return (_, index) => isSecond(index, period);
  }
  const kinds = text.strings("mlp_layer_types");
  if (kinds !== undefined) {
    if (kinds.length === numLayers) return (_, index) => kinds[index] === "sparse";
    throw configError(`expected ${text.nameOf("mlp_layer_types")} to name ${numLayers} layers, got ${kinds.length}`);
  }
  const numDense = read.optionalSize("first_k_dense_replace", numLayers, ofClass?.numDenseLayers);
  const period = read.size("decoder_sparse_step", MODEL_LIMITS.layers, 1);
  const denseLayers = text.numbers("mlp_only_layers") ?? [];
  // ERNIE's: the last layer that may have experts; -1 for the last of all.
  const end = text.number("moe_layer_end_index") ?? -1;
  const isBefore = (index: number) => end === -1 || index <= end;
  return (_, index) =>
    index >= numDense && (index + 1) % period === 0 && isBefore(index) && !denseLayers.includes(index);
}

function readExperts(
  read: ConfigReader,
  { architecture, experts: ofClass }: TypeTraits,
): ExpertsFeedForward | undefined {
  const countKey = read.firstOf(["num_local_experts", "n_routed_experts", "num_experts"]);
  const count = read.optionalSize(countKey, MODEL_LIMITS.experts, ofClass?.count);
  if (count === 0) return undefined;
  const widthKey = ofClass?.widthKey ?? read.firstOf(["moe_intermediate_size", "intermediate_size"]);
  const width = read.size(widthKey, MODEL_LIMITS.ff, ofClass?.width);
  const sharedKey = ofClass?.sharedWidthKey ?? read.firstOf(["shared_expert_intermediate_size", "n_shared_experts"]);
  const shared = read.optionalSize(sharedKey, MODEL_LIMITS.ff, ofClass?.sharedWidth ?? ofClass?.numShared);
  const sharedWidth = sharedKey === "n_shared_experts" ? shared * width : shared;
  const { isSharedGated } = knownFacts(architecture).experts ?? {};
  const gate = isSharedGated && sharedWidth > 0 ? { isSharedGated } : {};
  const active = read.size("num_experts_per_tok", count, ofClass?.active ?? 1);
  return { kind: "experts", count, active, width, sharedWidth, ...gate };
}
