/** Reads the description of a model from a GGUF file, of any architecture. */
import { MillraceError } from "../../core/errors.js";
import type { GgufFile } from "../../formats/gguf/types.js";
import type { DeltaFacts } from "../description/architecture-facts.js";
import { isEncoder, knownFacts, windowOfBothSides } from "../description/architectures.js";
import {
  type DeltaMixer,
  type ExpertsFeedForward,
  type FeedForward,
  isSecond,
  keysOf,
  type LatentMixer,
  type Layer,
  layersOf,
  type MambaMixer,
  type Mixer,
  MODEL_LIMITS,
  type ModelDescription,
  NO_FEED_FORWARD,
  NO_MIXER,
  NO_ROPE,
  seesAll,
} from "../description/model-description.js";
import { MetadataReader } from "./metadata-reader.js";

/** Number of blocks at the end that draft later tokens: they are no layers of the model. */
export const DRAFT_BLOCKS = "nextn_predict_layers";

/** @throws gguf_metadata, where a number is missing or beyond MODEL_LIMITS */
export function describeGguf(gguf: GgufFile): ModelDescription {
  const { metadata } = gguf;
  const architecture = metadata.string("general.architecture");
  if (architecture === undefined) {
    throw new MillraceError("gguf_metadata", "expected a general.architecture, got none");
  }
  const read = new MetadataReader(metadata, architecture);
  const numBlocks = read.size("block_count", MODEL_LIMITS.layers);
  const numLayers = numBlocks - read.optionalSize(DRAFT_BLOCKS, numBlocks - 1);
  const width = read.size("embedding_length", MODEL_LIMITS.width);
  const contextLength = read.size("context_length", MODEL_LIMITS.context);
  const windowOf = readWindows(read, architecture, { numBlocks, contextLength });
  const attentionOf = readMixers(read, gguf, { architecture, numBlocks, numLayers, width, windowOf });
  const mixerOf = withRecurrent(read, architecture, numBlocks, attentionOf);
  const feedForwardOf = readFeedForwards(read, architecture, numBlocks);
  return Object.freeze({
    name: metadata.string("general.name") ?? architecture,
    width,
    vocabSize: readVocabSize(read, gguf),
    contextLength,
    isTied: !gguf.tensors.has("output.weight"),
    ...readLayerInputs(read, architecture),
    layers: layersOf(numLayers, (index) => ({ mixer: mixerOf(index), feedForward: feedForwardOf(index) })),
    ...draftLayersOf(gguf, { architecture, numLayers, numBlocks }, (index) => ({
      mixer: withGate(architecture, attentionOf(index)),
      feedForward: feedForwardOf(index),
    })),
  });
}

/** Blocks that draft attend, also where the model's layers around them are recurrent. Some files leave them out. */
function draftLayersOf(
  { tensors }: GgufFile,
  { architecture, numLayers, numBlocks }: { architecture: string; numLayers: number; numBlocks: number },
  layerAt: (index: number) => Layer,
): Pick<ModelDescription, "draftLayers"> {
  if (knownFacts(architecture).draftBlocks !== "computed") return {};
  const stored = new Set([...tensors.keys()].map((name) => Number(/^blk\.(\d+)\./.exec(name)?.[1])));
  const blocks = Array.from({ length: numBlocks - numLayers }, (_, i) => numLayers + i);
  const drafting = blocks.filter((block) => stored.has(block));
  return drafting.length === 0 ? {} : { draftLayers: drafting.map(layerAt) };
}

/** Rows of the embedding table, where the file holds one. */
function readVocabSize(read: MetadataReader, { tensors }: GgufFile): number {
  const numRows = tensors.get("token_embd.weight")?.shape[1];
  if (numRows === undefined) return read.size("vocab_size", MODEL_LIMITS.vocab);
  if (numRows <= MODEL_LIMITS.vocab) return numRows;
  const message = `expected a vocabulary of at most ${MODEL_LIMITS.vocab} tokens, got ${numRows}`;
  throw new MillraceError("gguf_metadata", message);
}

/** Layers' own inputs of each token. */
function readLayerInputs(read: MetadataReader, architecture: string): Pick<ModelDescription, "layerInputWidth"> {
  if (knownFacts(architecture).mayShareKeys !== true) return {};
  const layerInputWidth = read.optionalSize("embedding_length_per_layer_input", MODEL_LIMITS.width);
  return layerInputWidth === 0 ? {} : { layerInputWidth };
}

interface LayerContext {
  readonly architecture: string;
  /** Entries of lists by layer. */
  readonly numBlocks: number;
  readonly numLayers: number;
  readonly width: number;
  readonly windowOf: (index: number) => Window;
}

interface Window {
  readonly window: number;
  readonly rope: number;
  /** The layer is one of those with a window, though it may be as long as the context. */
  readonly isLocal: boolean;
}

/** Whether layers have a rope, in files of Granite. */
export const ROPE_SWITCH = "rope.scaling.finetuned";

/** Whether a layer's parts are parallel, in files of GPT-NeoX. */
export const PARALLEL_KEY = "use_parallel_residual";

/** Lists the layers with a sliding window. */
export const WINDOW_PATTERN = "attention.sliding_window_pattern";

/** A window as long as the context is none. Architectures that are not known here have none. */
function readWindows(
  read: MetadataReader,
  architecture: string,
  { numBlocks, contextLength }: { readonly numBlocks: number; readonly contextLength: number },
): (index: number) => Window {
  const all: Window = { window: 0, rope: 0, isLocal: false };
  const { windows, noRopePeriod = 0, hasPositionTable, hasNoRope, ropeSwitch } = knownFacts(architecture);
  const isSwitchedOff = ropeSwitch !== undefined && read.boolean(ROPE_SWITCH) === false;
  if (hasPositionTable || hasNoRope || isSwitchedOff) return () => ({ ...all, rope: NO_ROPE });
  if (windows === undefined) return (index) => (seesAll(index, noRopePeriod) ? { ...all, rope: NO_ROPE } : all);
  const key = "attention.sliding_window";
  const stated = read.has(key) ? read.optionalSize(key, MODEL_LIMITS.context) : (windows.widthInFiles ?? 0);
  if (stated === 0) return () => all;
  const rope = windows.localRope === undefined ? 0 : 1;
  const ofCausal = stated >= contextLength ? 0 : stated;
  const window = isEncoder(architecture) ? windowOfBothSides(stated, contextLength) : ofCausal;
  const local: Window = { window, rope, isLocal: true };
  const { period, isFromFirst } = windows;
  const isLocal =
    read.layers(WINDOW_PATTERN, numBlocks, isFromFirst) ?? ((index: number) => !seesAll(index, period, isFromFirst));
  const others = windows.areAloneRotated ? { ...all, rope: NO_ROPE } : all;
  return (index) => (isLocal(index) ? local : others);
}

function readMixers(
  read: MetadataReader,
  { tensors }: GgufFile,
  { architecture, numBlocks, numLayers, width, windowOf }: LayerContext,
): (index: number) => Mixer {
  const numHeads = read.perLayer("attention.head_count", numBlocks, MODEL_LIMITS.heads);
  if (read.has("attention.kv_lora_rank")) {
    const latent = readLatent(read);
    return (index) => ({ ...latent, numHeads: numHeads[index]! });
  }
  const numKvHeads = read.has("attention.head_count_kv")
    ? read.perLayer("attention.head_count_kv", numBlocks, MODEL_LIMITS.heads)
    : numHeads;
  const { windows, mayShareKeys = false } = knownFacts(architecture);
  const dimsOf = (suffix: string, fallback: number) => {
    const headDim = read.size(`attention.key_length${suffix}`, MODEL_LIMITS.headDim, fallback);
    return { headDim, valueDim: read.size(`attention.value_length${suffix}`, MODEL_LIMITS.headDim, headDim) };
  };
  const dims = dimsOf("", Math.floor(width / Math.max(...numHeads)));
  const localDims = windows?.hasOwnHeads ? dimsOf("_swa", dims.headDim) : dims;
  const hasWindow = (index: number) => windowOf(index).isLocal;
  const numShared = mayShareKeys ? read.optionalSize("attention.shared_kv_layers", numLayers) : 0;
  const sharing = (index: number) => {
    if (!mayShareKeys) return {};
    const source = keysOf(index, numLayers - numShared, hasWindow);
    if (source !== undefined) return { keysOf: source };
    const hasValues = tensors.has(`blk.${index}.attn_v.weight`) || tensors.has(`blk.${index}.attn_qkv.weight`);
    return hasValues ? {} : { areValuesKeys: true as const };
  };
  return (index) => {
    const [own, ownKv] = [numHeads[index]!, numKvHeads[index]!];
    if (ownKv > 0 && own % ownKv !== 0) {
      const message = `expected ${own} query heads in whole groups per key/value head, got ${ownKv}`;
      throw new MillraceError("gguf_metadata", message);
    }
    const { isLocal, ...window } = windowOf(index);
    const ownDims = isLocal ? localDims : dims;
    return { kind: "attention", numHeads: own, numKvHeads: ownKv, ...ownDims, ...window, ...sharing(index) };
  };
}

/** Of architectures with recurrent layers: these where the file, or else the architecture, has them. */
function withRecurrent(
  read: MetadataReader,
  architecture: string,
  numBlocks: number,
  attentionOf: (index: number) => Mixer,
): (index: number) => Mixer {
  const { delta, hasConvolutions, hasMamba } = knownFacts(architecture);
  if (hasMamba) return withMamba(read, architecture, numBlocks, attentionOf);
  const gatedOf = (index: number) => withGate(architecture, attentionOf(index));
  if (hasConvolutions) return withConvolutions(read, gatedOf);
  if (delta === undefined) return attentionOf;
  const recurrent = readDelta(read, delta);
  const period = read.size("full_attention_interval", MODEL_LIMITS.layers, delta.period);
  const isRecurrent =
    read.layers("attention.recurrent_layers", numBlocks) ?? ((index: number) => !seesAll(index, period));
  return (index) => (isRecurrent(index) ? recurrent : gatedOf(index));
}

function withGate(architecture: string, mixer: Mixer): Mixer {
  const { gates } = knownFacts(architecture);
  return gates !== undefined && mixer.kind === "attention" ? { ...mixer, gates } : mixer;
}

/** Layers without key/value heads are the convolutions. */
function withConvolutions(read: MetadataReader, attentionOf: (index: number) => Mixer): (index: number) => Mixer {
  const width = read.size("embedding_length", MODEL_LIMITS.width);
  const convolution: Mixer = { kind: "convolution", width, numTaps: read.size("shortconv.l_cache", MODEL_LIMITS.taps) };
  return (index) => {
    const mixer = attentionOf(index);
    return mixer.kind === "attention" && mixer.numKvHeads === 0 ? convolution : mixer;
  };
}

/** Layers without key/value heads have a Mamba-2; where layers are one part each, those with a width have no mixer. */
function withMamba(
  read: MetadataReader,
  architecture: string,
  numBlocks: number,
  attentionOf: (index: number) => Mixer,
): (index: number) => Mixer {
  const mamba = readMamba(read);
  const widths = knownFacts(architecture).isOnePart ? partWidths(read, numBlocks) : [];
  return (index) => {
    if ((widths[index] ?? 0) > 0) return NO_MIXER;
    const mixer = attentionOf(index);
    return mixer.kind === "attention" && mixer.numKvHeads === 0 ? mamba : mixer;
  };
}

const partWidths = (read: MetadataReader, numBlocks: number): readonly number[] =>
  read.perLayer("feed_forward_length", numBlocks, MODEL_LIMITS.ff);

function readMamba(read: MetadataReader): MambaMixer {
  const numHeads = read.size("ssm.time_step_rank", MODEL_LIMITS.heads);
  const numGroups = read.size("ssm.group_count", MODEL_LIMITS.heads);
  if (numHeads % numGroups !== 0) {
    const message = `expected ${numHeads} heads (ssm.time_step_rank) in whole groups, got ${numGroups} (ssm.group_count)`;
    throw new MillraceError("gguf_metadata", message);
  }
  return {
    kind: "mamba",
    numHeads,
    numGroups,
    stateDim: read.size("ssm.state_size", MODEL_LIMITS.headDim),
    valueDim: valueDimOf(read, numHeads),
    numTaps: read.size("ssm.conv_kernel", MODEL_LIMITS.taps),
  };
}

/** Values of one of the recurrent heads. */
function valueDimOf(read: MetadataReader, numHeads: number): number {
  const inner = read.size("ssm.inner_size", MODEL_LIMITS.heads * MODEL_LIMITS.headDim);
  const valueDim = inner / numHeads;
  if (Number.isInteger(valueDim) && valueDim <= MODEL_LIMITS.headDim) return valueDim;
  const expected = `${numHeads} value heads of at most ${MODEL_LIMITS.headDim} values in ssm.inner_size`;
  throw new MillraceError("gguf_metadata", `expected ${expected}, got ${inner}`);
}

function readDelta(read: MetadataReader, { isTiledInFiles }: DeltaFacts): DeltaMixer {
  const numHeads = read.size("ssm.time_step_rank", MODEL_LIMITS.heads);
  const numKeyHeads = read.size("ssm.group_count", MODEL_LIMITS.heads);
  const headDim = read.size("ssm.state_size", MODEL_LIMITS.headDim);
  if (numHeads % numKeyHeads !== 0) {
    const message = `expected ${numHeads} value heads (ssm.time_step_rank) in whole groups per key head, got ${numKeyHeads}`;
    throw new MillraceError("gguf_metadata", message);
  }
  const valueDim = valueDimOf(read, numHeads);
  const numTaps = read.size("ssm.conv_kernel", MODEL_LIMITS.taps);
  return { kind: "delta", numHeads, numKeyHeads, headDim, valueDim, numTaps, isTiled: isTiledInFiles };
}

function readLatent(read: MetadataReader): Omit<LatentMixer, "numHeads"> {
  // Newer files call the width of the compressed keys `key_length`, and that of a head's own `key_length_mla`.
  const [keyLength, valueLength] = read.has("attention.key_length_mla")
    ? ["attention.key_length_mla", "attention.value_length_mla"]
    : ["attention.key_length", "attention.value_length"];
  const keyDim = read.size(keyLength!, MODEL_LIMITS.headDim);
  const ropeDim = read.size("rope.dimension_count", keyDim - 1);
  return {
    kind: "latent",
    headDim: keyDim - ropeDim,
    valueDim: read.size(valueLength!, MODEL_LIMITS.headDim),
    kvRank: read.size("attention.kv_lora_rank", MODEL_LIMITS.latent),
    ropeDim,
    queryRank: read.optionalSize("attention.q_lora_rank", MODEL_LIMITS.latent),
  };
}

function readFeedForwards(
  read: MetadataReader,
  architecture: string,
  numBlocks: number,
): (index: number) => FeedForward {
  const { isGateless, isOnePart, experts: facts } = knownFacts(architecture);
  const gate = isGateless ? { isGated: false as const } : {};
  const experts = readExperts(read, facts?.isSharedGated);
  if (isOnePart) {
    const ofParts = partWidths(read, numBlocks);
    return (index) => {
      if (ofParts[index] === 0) return NO_FEED_FORWARD;
      return experts === undefined ? { kind: "dense", width: ofParts[index]!, ...gate } : { ...experts, ...gate };
    };
  }
  const numDense = experts === undefined ? numBlocks : read.optionalSize("leading_dense_block_count", numBlocks);
  const period =
    experts === undefined || facts?.periodKey === undefined
      ? undefined
      : read.size(facts.periodKey, MODEL_LIMITS.layers);
  const interval = facts?.hasInterval ? read.size("interleave_moe_layer_step", MODEL_LIMITS.layers, 1) : 1;
  const areAllExperts = numDense === 0 && interval === 1 && period === undefined && facts?.areBesideDense !== true;
  const widths = areAllExperts ? [] : read.perLayer("feed_forward_length", numBlocks, MODEL_LIMITS.ff);
  const hasExperts = (index: number) =>
    index >= numDense && seesAll(index, interval) && (period === undefined || isSecond(index, period));
  return (index) => {
    if (experts === undefined || !hasExperts(index)) return { kind: "dense", width: widths[index]!, ...gate };
    return facts?.areBesideDense ? { ...experts, sharedWidth: widths[index]! } : { ...experts, ...gate };
  };
}

function readExperts(read: MetadataReader, isSharedGated: true | undefined): ExpertsFeedForward | undefined {
  const count = read.optionalSize("expert_count", MODEL_LIMITS.experts);
  if (count === 0) return undefined;
  const width = read.size(
    read.has("expert_feed_forward_length") ? "expert_feed_forward_length" : "feed_forward_length",
    MODEL_LIMITS.ff,
  );
  const sharedWidth = read.has("expert_shared_feed_forward_length")
    ? read.optionalSize("expert_shared_feed_forward_length", MODEL_LIMITS.ff)
    : width * read.optionalSize("expert_shared_count", count);
  const gate = isSharedGated && sharedWidth > 0 ? { isSharedGated } : {};
  return { kind: "experts", count, active: read.size("expert_used_count", count), width, sharedWidth, ...gate };
}
