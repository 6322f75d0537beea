/**
 * Arithmetic on a model's description: parameters, bytes of weights and of keys and values, multiply-adds. Norms and
 * biases are not counted.
 */
import { type KvType, STATE_COLUMNS } from "../../backend/ops.js";
import { kvEntryBytes } from "../../backend/program.js";
import {
  type AttentionMixer,
  type DeltaMixer,
  type ExpertsFeedForward,
  type FeedForward,
  isAttending,
  isRecurrentMixer,
  type LatentMixer,
  type Layer,
  type MambaMixer,
  type Mixer,
  type ModelDescription,
  type RecurrentMixer,
} from "./model-description.js";

interface LayerKind<L> {
  readonly layer: L;
  readonly count: number;
}

interface Layered<L = Layer> {
  readonly layers: readonly L[];
}

/** By list of layers: plans ask for the kinds of the same model thousands of times. */
const kindsByLayers = new WeakMap<readonly Layer[], readonly LayerKind<Layer>[]>();

/** The layers of a model that differ, and how many there are of each. */
export function layerKinds<L extends Layer>({ layers }: Layered<L>): readonly LayerKind<L>[] {
  const known = kindsByLayers.get(layers);
  if (known !== undefined) return known as readonly LayerKind<L>[];
  const counts = new Map<L, number>();
  for (const layer of layers) counts.set(layer, (counts.get(layer) ?? 0) + 1);
  const kinds = Array.from(counts, ([layer, count]) => ({ layer, count }));
  kindsByLayers.set(layers, kinds);
  return kinds;
}

const sumOf = (model: Layered, of: (layer: Layer) => number): number =>
  layerKinds(model).reduce((sum, { layer, count }) => sum + count * of(layer), 0);

/** The largest value that any layer has; 0 for a model without layers. */
export const mostOf = <L extends Layer>(model: Layered<L>, of: (layer: L) => number): number =>
  layerKinds(model).reduce((most, { layer }) => Math.max(most, of(layer)), 0);

/** The experts of a model's layers: the same in every layer that has some; undefined: none has. */
export const expertsOf = (model: Layered): ExpertsFeedForward | undefined =>
  layerKinds(model)
    .map(({ layer }) => layer.feedForward)
    .find((part) => part.kind === "experts");

interface Mixing {
  readonly mixer: Mixer;
}

/** Width of what latent attention keeps of a token: the rotated part of its keys, then its latent vector. */
export const latentWidth = ({ kvRank, ropeDim }: LatentMixer): number => kvRank + ropeDim;

/** Values of a token's queries in all heads of a layer with attention; where it is latent, as they meet the entries. */
export function queryWidth({ mixer }: Mixing): number {
  if (mixer.kind === "latent") return mixer.numHeads * latentWidth(mixer);
  return mixer.kind === "attention" ? mixer.numHeads * mixer.headDim : 0;
}

/** Values of a token's keys in all heads of a layer with attention, or of its entry in latent attention. */
export function keyWidth({ mixer }: Mixing): number {
  if (mixer.kind === "latent") return latentWidth(mixer);
  return mixer.kind === "attention" ? mixer.numKvHeads * mixer.headDim : 0;
}

/**
 * Values of a token that the convolution of a layer with a recurrence takes: queries, keys and values of the delta
 * rule, or what a Mamba-2 writes and the vectors by which it writes and reads.
 */
export function mixedWidth(mixer: DeltaMixer | MambaMixer): number {
  const values = mixer.numHeads * mixer.valueDim;
  if (mixer.kind === "mamba") return values + 2 * mixer.numGroups * mixer.stateDim;
  return 2 * mixer.numKeyHeads * mixer.headDim + values;
}

/** Values that a token's heads, or its convolved inputs, give to the layer's output matrix; 0: it mixes nothing. */
export function mixedOutputs(mixer: Mixer): number {
  if (mixer.kind === "none") return 0;
  return mixer.kind === "convolution" ? mixer.width : mixer.numHeads * mixer.valueDim;
}

/**
 * Values of a sequence's state in one layer: the recurrence's, as operations lay it out (0: the layer has none), and
 * the convolution's.
 */
export function stateValues(mixer: RecurrentMixer): { readonly recurrent: number; readonly past: number } {
  if (mixer.kind === "convolution") return { recurrent: 0, past: (mixer.numTaps - 1) * mixer.width };
  const columns = Math.ceil(mixer.valueDim / STATE_COLUMNS) * STATE_COLUMNS;
  const rows = mixer.kind === "mamba" ? mixer.stateDim : mixer.headDim;
  return { recurrent: mixer.numHeads * rows * columns, past: (mixer.numTaps - 1) * mixedWidth(mixer) };
}

/** Bytes of a sequence's recurrent states in all layers, however long it is; 0: the model has none. */
export const stateBytes = (model: Layered): number =>
  sumOf(model, ({ mixer }) => {
    if (!isRecurrentMixer(mixer)) return 0;
    const { recurrent, past } = stateValues(mixer);
    return 4 * (recurrent + past);
  });

/** The model keeps a recurrent state of each sequence. */
export const isRecurrent = (model: Layered): boolean =>
  layerKinds(model).some(({ layer }) => isRecurrentMixer(layer.mixer));

/** Gates of a token in the layer. */
export const gatesWidth = ({ gates, numHeads, headDim }: AttentionMixer): number =>
  gates === undefined ? 0 : numHeads * (gates === "values" ? headDim : 1);

function mixerParameters(mixer: Mixer, width: number): number {
  // Three matrices before the convolution, and one behind it.
  if (mixer.kind === "convolution") return 4 * width * mixer.width + mixer.numTaps * mixer.width;
  if (mixer.kind === "none") return 0;
  if (mixer.kind === "mamba") {
    const [mixed, inner] = [mixedWidth(mixer), mixedOutputs(mixer)];
    return width * (mixed + 2 * inner + mixer.numHeads) + mixer.numTaps * mixed;
  }
  const { numHeads, headDim, valueDim } = mixer;
  if (mixer.kind === "attention") {
    const { numKvHeads, keysOf, areValuesKeys } = mixer;
    const ofQueries = numHeads * (headDim + valueDim);
    const ofKeys = keysOf === undefined ? numKvHeads * (areValuesKeys ? headDim : headDim + valueDim) : 0;
    return width * (ofQueries + ofKeys + gatesWidth(mixer));
  }
  if (mixer.kind === "delta") {
    const mixed = mixedWidth(mixer);
    return width * (mixed + 2 * numHeads * valueDim + 2 * numHeads) + mixer.numTaps * mixed;
  }
  const { kvRank, ropeDim, queryRank } = mixer;
  const queryDim = numHeads * (headDim + ropeDim);
  const query = queryRank === 0 ? width * queryDim : (width + queryDim) * queryRank;
  const keyValue = width * (kvRank + ropeDim) + kvRank * numHeads * (headDim + valueDim);
  return query + keyValue + numHeads * valueDim * width;
}

/** Parameters of parts that are `inner` wide together. */
const partParameters = (width: number, { isGated }: FeedForward, inner: number): number =>
  (isGated === false ? 2 : 3) * width * inner;

function feedForwardParameters(part: FeedForward, width: number, numExperts: (experts: ExpertsFeedForward) => number) {
  if (part.kind === "dense") return partParameters(width, part, part.width);
  const router = width * (part.count + (part.isSharedGated ? 1 : 0));
  return partParameters(width, part, numExperts(part) * part.width + part.sharedWidth) + router;
}

function parametersOf(model: ModelDescription, numExperts: (experts: ExpertsFeedForward) => number): number {
  const { width, layerInputWidth = 0 } = model;
  // A layer's input is also computed of the embeddings; a gate and a matrix bring it to the hidden state.
  const ofInputs = 3 * layerInputWidth * width;
  return sumOf(
    model,
    ({ mixer, feedForward }) =>
      mixerParameters(mixer, width) + feedForwardParameters(feedForward, width, numExperts) + ofInputs,
  );
}

/** Parameters of the table of all layers' inputs, of which a step reads a row for each of its tokens. */
const inputTableParameters = ({ layers, layerInputWidth = 0, vocabSize }: ModelDescription): number =>
  layers.length * layerInputWidth * vocabSize;

/** Parameters of the embedding table; the output matrix has as many. */
export const tableParameters = ({ vocabSize, width }: ModelDescription): number => vocabSize * width;

/** Parameters of all layers. */
const linearParameters = (model: ModelDescription): number => parametersOf(model, ({ count }) => count);

/** Parameters of the layers that one token passes: its multiply-adds in them. */
export const activeLinearParameters = (model: ModelDescription): number => parametersOf(model, ({ active }) => active);

/** Multiply-adds of one token in the experts that it chose, without the part that all tokens pass. */
export const chosenExpertMacs = (model: ModelDescription): number =>
  sumOf(model, ({ feedForward }) =>
    feedForward.kind === "dense" ? 0 : partParameters(model.width, feedForward, feedForward.active * feedForward.width),
  );

/** Layers that have experts. */
export const numExpertLayers = (model: Layered): number =>
  sumOf(model, ({ feedForward }) => (feedForward.kind === "experts" ? 1 : 0));

const allTables = (model: ModelDescription): number =>
  (model.isTied ? 1 : 2) * tableParameters(model) + inputTableParameters(model);

export const totalParameters = (model: ModelDescription): number => linearParameters(model) + allTables(model);

/** Bytes for each weight. */
interface WeightWidths {
  /** Bytes of the layers, scales included. */
  readonly linearBytes: number;
  /** Bytes of the embedding table and the output matrix. */
  readonly tableBytes: number;
}

/** Bytes of weights in a file. */
interface StoredBytes {
  readonly weightBytes: number;
  /** How many of these the embedding table takes. */
  readonly embeddingBytes: number;
}

/** A model whose weights may be in a file already; then they are as large as they are there. */
type SizedModel = ModelDescription & { readonly stored?: StoredBytes | undefined };

export function weightBytes(model: SizedModel, { linearBytes, tableBytes }: WeightWidths): number {
  if (model.stored !== undefined) return model.stored.weightBytes;
  return linearParameters(model) * linearBytes + allTables(model) * tableBytes;
}

/** Share of the experts that a step of `numTokens` tokens reads, if tokens choose their experts evenly. */
export function expertsRead({ count, active }: ExpertsFeedForward, numTokens: number): number {
  return 1 - (1 - active / count) ** numTokens;
}

/**
 * Bytes of weights that a step of `numTokens` tokens reads: without an untied embedding table, and without experts that
 * no token chose.
 */
export function weightBytesPerStep(model: SizedModel, widths: WeightWidths, numTokens: number): number {
  const { stored, width } = model;
  const embeddingBytes = stored?.embeddingBytes ?? tableParameters(model) * widths.tableBytes;
  const bytes = weightBytes(model, widths);
  const inputTableBytes =
    inputTableParameters(model) * (stored === undefined ? widths.tableBytes : bytes / totalParameters(model));
  const all = bytes - (model.isTied ? 0 : embeddingBytes) - inputTableBytes;
  const unread = sumOf(model, ({ feedForward }) => {
    if (feedForward.kind === "dense") return 0;
    const parameters = partParameters(width, feedForward, feedForward.count * feedForward.width);
    return parameters * (1 - expertsRead(feedForward, numTokens));
  });
  if (unread === 0) return all;
  return all - unread * (stored === undefined ? widths.linearBytes : all / linearParameters(model));
}

/** Stored bytes of one vector of `width` keys or values. */
export type VectorBytes = (width: number) => number;

/** Vectors of one token that a layer reads, which a device cannot cut up. */
function numKept(mixer: Mixer): number {
  if (mixer.kind === "latent") return 1;
  return mixer.kind === "attention" ? mixer.numKvHeads : 0;
}

/** Bytes that one token leaves in a layer's KV memory. */
function layerKvBytes(mixer: Mixer, vectorBytes: VectorBytes): number {
  if (mixer.kind === "latent") return vectorBytes(latentWidth(mixer));
  if (mixer.kind !== "attention" || mixer.keysOf !== undefined) return 0;
  return mixer.numKvHeads * (vectorBytes(mixer.headDim) + vectorBytes(mixer.valueDim));
}

/** Bytes that one token leaves in the KV memory of all layers. */
export const tokenKvBytes = (model: Layered, vectorBytes: VectorBytes): number =>
  sumOf(model, ({ mixer }) => layerKvBytes(mixer, vectorBytes));

/** The same in a type of the embedded engine. */
export const kvBytesPerToken = (model: Layered, kvType: KvType): number =>
  tokenKvBytes(model, (width) => kvEntryBytes(kvType, width));

const windowOf = (mixer: Mixer): number => (mixer.kind === "attention" ? mixer.window : 0);

/** Tokens of `context` that one token sees in a layer. */
function seenOf(mixer: Mixer, context: number): number {
  const window = windowOf(mixer);
  return window === 0 ? context : Math.min(context, window);
}

/**
 * Bytes of keys and values that one device keeps of a sequence of `numTokens` tokens.
 * @param numDevices devices that share each layer; vectors that are fewer than the devices are kept by several of them
 */
export function kvBytes(model: Layered, vectorBytes: VectorBytes, numTokens: number, numDevices = 1): number {
  return sumOf(model, ({ mixer }) => {
    const numSharing = Math.max(1, Math.min(numDevices, numKept(mixer)));
    return (seenOf(mixer, numTokens) * layerKvBytes(mixer, vectorBytes)) / numSharing;
  });
}

/** Multiply-adds of one token in attention over `context` tokens, itself included. */
export function attentionMacs(model: Layered, context: number): number {
  return sumOf(model, ({ mixer }) => {
    if (!isAttending(mixer) || numKept(mixer) === 0) return 0;
    const perToken = mixer.kind === "latent" ? 2 * mixer.kvRank + mixer.ropeDim : mixer.headDim + mixer.valueDim;
    return seenOf(mixer, context) * mixer.numHeads * perToken;
  });
}

/** Values that the feed-forward part of a layer computes for a token, before it comes back to the model's width. */
export const innerWidth = ({ feedForward }: Layer): number =>
  feedForward.kind === "dense" ? feedForward.width : feedForward.active * feedForward.width + feedForward.sharedWidth;

/** One summary for all layers: of each size, the largest that any layer has. */
export interface LayerSummary {
  readonly numLayers: number;
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly headDim: number;
  /** Width of the dense feed-forward parts; 0: there are none. */
  readonly ffWidth: number;
  /** The widest sliding window; 0 = no layer has one. */
  readonly window: number;
  readonly numWindowLayers: number;
}

export function summarizeLayers(model: Layered): LayerSummary {
  return {
    numLayers: model.layers.length,
    numHeads: mostOf(model, ({ mixer }) => (isAttending(mixer) ? mixer.numHeads : 0)),
    // Every head of latent attention has keys and values of its own, once they are computed.
    numKvHeads: mostOf(model, ({ mixer }) => (mixer.kind === "latent" ? mixer.numHeads : numKept(mixer))),
    headDim: mostOf(model, ({ mixer }) => (isAttending(mixer) ? mixer.headDim : 0)),
    ffWidth: mostOf(model, ({ feedForward }) => (feedForward.kind === "dense" ? feedForward.width : 0)),
    window: mostOf(model, ({ mixer }) => windowOf(mixer)),
    numWindowLayers: sumOf(model, ({ mixer }) => (windowOf(mixer) > 0 ? 1 : 0)),
  };
}
