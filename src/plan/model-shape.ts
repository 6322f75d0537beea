/** What a plan must know of a model, and the arithmetic on it: parameters, bytes of weights and of keys and values, multiply-adds per token. */
import type { PlannedKvType, Quantization } from "./data/quantizations.js";

export interface Experts {
  readonly count: number;
  /** Experts that compute a token. */
  readonly active: number;
  readonly width: number;
  /** Width of the part every token passes; 0: none. */
  readonly sharedWidth: number;
  /** First layers without experts. */
  readonly numDenseLayers: number;
}

/** Attention whose keys and values are kept as one small vector (DeepSeek's MLA). */
export interface Latent {
  readonly kvRank: number;
  readonly ropeDim: number;
  /** 0: queries are not compressed. */
  readonly queryRank: number;
  readonly valueDim: number;
}

/** Of a model that lies on disk: its weights are what they are. */
export interface StoredWeights {
  /** As the file says: Q4_0, BF16, … */
  readonly label: string;
  readonly weightBytes: number;
  /** Of these, the table of which a step reads only rows. */
  readonly embeddingBytes: number;
}

export interface Dimensions {
  readonly name: string;
  readonly numLayers: number;
  readonly width: number;
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly headDim: number;
  /** Width of the dense feed-forward part; 0 where all layers have experts. */
  readonly ffWidth: number;
  readonly vocabSize: number;
  readonly contextLength: number;
}

export interface ModelShape extends Dimensions {
  /** Where its numbers come from. */
  readonly source: string;
  /** What an engine is told to load. */
  readonly location: string;
  /** One matrix is both the embedding table and the output. */
  readonly isTied: boolean;
  readonly experts?: Experts | undefined;
  readonly latent?: Latent | undefined;
  readonly window?: { readonly numTokens: number; readonly numLayers: number } | undefined;
  /** The published weights are quantised already. */
  readonly native?: "fp8" | "mxfp4" | undefined;
  readonly stored?: StoredWeights | undefined;
  /** `model_type` of its config.json; undefined: of a GGUF file. */
  readonly modelType?: string | undefined;
  /** Why the embedded engine's loader refuses it; undefined: it loads it. */
  readonly embeddedRefusal?: string | undefined;
  readonly checkpoints: Readonly<Partial<Record<string, string>>>;
  /** Repository with GGUF files of it. */
  readonly gguf?: string | undefined;
  readonly eagle3?: string | undefined;
  readonly family?: string | undefined;
}

function attentionParameters(model: ModelShape): number {
  const { width, numHeads, numKvHeads, headDim, latent } = model;
  if (latent === undefined) return 2 * width * headDim * (numHeads + numKvHeads);
  const { kvRank, ropeDim, queryRank, valueDim } = latent;
  const queryDim = numHeads * (headDim + ropeDim);
  const query = queryRank === 0 ? width * queryDim : (width + queryDim) * queryRank;
  const keyValue = width * (kvRank + ropeDim) + kvRank * numHeads * (headDim + valueDim);
  return query + keyValue + numHeads * valueDim * width;
}

/** Gated feed-forward: three matrices. */
const feedForward = (width: number, inner: number): number => 3 * width * inner;

function layerParameters(model: ModelShape, numExperts: number): number {
  const { width, numLayers, ffWidth, experts } = model;
  const attention = numLayers * attentionParameters(model);
  if (experts === undefined) return attention + numLayers * feedForward(width, ffWidth);
  const { count, numDenseLayers, sharedWidth } = experts;
  const mixture = feedForward(width, numExperts * experts.width + sharedWidth) + width * count;
  return attention + numDenseLayers * feedForward(width, ffWidth) + (numLayers - numDenseLayers) * mixture;
}

/** Of the embedding table, and of the output matrix: each one of them. */
export const tableParameters = ({ vocabSize, width }: ModelShape): number => vocabSize * width;

/** Everything in the layers. */
const linearParameters = (model: ModelShape): number => layerParameters(model, model.experts?.count ?? 0);

/** What one token passes in the layers. */
export const activeLinearParameters = (model: ModelShape): number => layerParameters(model, model.experts?.active ?? 0);

export function totalParameters(model: ModelShape): number {
  return linearParameters(model) + (model.isTied ? 1 : 2) * tableParameters(model);
}

export function activeParameters(model: ModelShape): number {
  return activeLinearParameters(model) + (model.isTied ? 1 : 2) * tableParameters(model);
}

/** Bytes of all weights. The tables stay in the wider type, as quantisers leave them. */
export function weightBytes(model: ModelShape, quantization: Quantization): number {
  if (model.stored !== undefined) return model.stored.weightBytes;
  const tables = (model.isTied ? 1 : 2) * tableParameters(model);
  return linearParameters(model) * quantization.linearBytes + tables * quantization.tableBytes;
}

/** Share of the experts' weights that a step of `numTokens` tokens reads, if tokens choose their experts evenly. */
export function expertsRead({ count, active }: Experts, numTokens: number): number {
  return 1 - (1 - active / count) ** numTokens;
}

/** Bytes of weights that one step reads: all but the embedding table, and of experts those somebody chose. */
export function weightBytesPerStep(model: ModelShape, quantization: Quantization, numTokens: number): number {
  const embeddingBytes = model.isTied
    ? 0
    : (model.stored?.embeddingBytes ?? tableParameters(model) * quantization.tableBytes);
  const all = weightBytes(model, quantization) - embeddingBytes;
  const { experts } = model;
  if (experts === undefined) return all;
  const inExperts = linearParameters(model) - layerParameters(model, 0);
  const expertBytes =
    inExperts * (model.stored === undefined ? quantization.linearBytes : all / linearParameters(model));
  return all - expertBytes * (1 - expertsRead(experts, numTokens));
}

/** Numbers that a token leaves in the KV memory, per layer. */
function kvValuesPerLayer({ latent, numKvHeads, headDim }: ModelShape): number {
  return latent === undefined ? 2 * numKvHeads * headDim : latent.kvRank + latent.ropeDim;
}

/** Bytes of keys and values of one sequence of `numTokens` tokens. */
export function kvBytes(model: ModelShape, kv: PlannedKvType, numTokens: number): number {
  const windowed = model.window?.numLayers ?? 0;
  const inWindow = Math.min(numTokens, model.window?.numTokens ?? 0);
  const layerTokens = (model.numLayers - windowed) * numTokens + windowed * inWindow;
  return layerTokens * kvValuesPerLayer(model) * (kv.bytesPerValue + kv.scaleBytesPerHead / model.headDim);
}

/** Multiply-adds of one token in attention over `context` tokens. */
export function attentionMacs(model: ModelShape, context: number): number {
  const windowed = model.window?.numLayers ?? 0;
  const seen = (model.numLayers - windowed) * context + windowed * Math.min(context, model.window?.numTokens ?? 0);
  const { latent } = model;
  const perTokenSeen = latent === undefined ? 2 * model.headDim : 2 * latent.kvRank + latent.ropeDim;
  return seen * model.numHeads * perTokenSeen;
}
