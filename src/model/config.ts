/** One frozen description for every architecture: what the transformer needs to know, read from GGUF metadata and checked. */

import type { Activation, KvType } from "../backend/ops.js";
import { kvEntryBytes } from "../backend/program.js";
import { MillraceError } from "../core/errors.js";
import { type Architecture, ggufArchitecture } from "../formats/architectures.js";
import type { GgufFile, GgufMetadata } from "../formats/gguf/types.js";
import type { Pooling } from "./pooling.js";
import type { RopeConfig } from "./rope.js";
import { ropeFromMetadata } from "./rope.js";

export interface LayerConfig {
  /** Entries of the past a token sees, itself included; 0 = all. */
  readonly window: number;
  /** Index into `ropes`. */
  readonly rope: number;
}

export interface ModelConfig {
  readonly architecture: Architecture;
  readonly name: string;
  readonly numLayers: number;
  /** Values of a token's hidden state. */
  readonly width: number;
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly headDim: number;
  readonly ffWidth: number;
  readonly vocabSize: number;
  readonly contextLength: number;
  readonly rmsEps: number;
  readonly embeddingScale: number;
  readonly attentionScale: number;
  readonly activation: Activation;
  /** Rotated pairs are (i, i + half) instead of (2i, 2i + 1). */
  readonly isNeoxRope: boolean;
  readonly ropes: readonly RopeConfig[];
  readonly layers: readonly LayerConfig[];
  /** How the model wants its hidden states pooled, when the file says so. */
  readonly pooling: Pooling | undefined;
}

/** Codes of `<architecture>.pooling_type`; the others (none, the first token, a ranking head) are not for these models. */
const POOLING_BY_CODE: ReadonlyMap<number | undefined, Pooling> = new Map([
  [1, "mean"],
  [3, "last"],
]);

/** What sets an architecture apart from llama; the tensors present (biases, norms, fused projections) say the rest. */
interface Traits {
  readonly isNeoxRope: boolean;
  readonly activation: Activation;
  readonly scalesEmbedding: boolean;
  /** Layer i has the sliding window unless i mod period = period − 1. 0: every layer has it (when the file states one). */
  readonly windowPeriod: number;
  readonly readsWindow: boolean;
}

const LLAMA: Traits = {
  isNeoxRope: false,
  activation: "silu",
  scalesEmbedding: false,
  windowPeriod: 0,
  readsWindow: false,
};
const TRAITS: Readonly<Record<Architecture, Traits>> = {
  llama: LLAMA,
  mistral: { ...LLAMA, readsWindow: true },
  qwen2: { ...LLAMA, isNeoxRope: true },
  qwen3: { ...LLAMA, isNeoxRope: true },
  gemma3: { isNeoxRope: true, activation: "geluTanh", scalesEmbedding: true, windowPeriod: 6, readsWindow: true },
  phi3: { ...LLAMA, isNeoxRope: true, readsWindow: true },
};

/** Gemma 3 27B divides by √(width / heads) instead of √headDim; the layer count tells it apart, as in llama.cpp. */
const GEMMA3_27B_LAYERS = 62;

/** Limits a lying header runs into before anything is allocated; real models are far below. */
export const MODEL_LIMITS = {
  layers: 1024,
  width: 1 << 18,
  heads: 4096,
  headDim: 1024,
  ff: 1 << 20,
  context: 1 << 27,
  vocab: 1 << 24,
} as const;

export function modelConfigFromGguf(gguf: GgufFile): ModelConfig {
  const { metadata } = gguf;
  const architecture = ggufArchitecture(metadata);
  const traits = TRAITS[architecture];
  const read = new Reader(metadata, architecture);

  const numLayers = read.size("block_count", MODEL_LIMITS.layers);
  const width = read.size("embedding_length", MODEL_LIMITS.width);
  const numHeads = read.size("attention.head_count", MODEL_LIMITS.heads);
  const numKvHeads = read.size("attention.head_count_kv", MODEL_LIMITS.heads, numHeads);
  const headDim = read.size("attention.key_length", MODEL_LIMITS.headDim, Math.floor(width / numHeads));
  const valueDim = read.size("attention.value_length", MODEL_LIMITS.headDim, headDim);
  const contextLength = read.size("context_length", MODEL_LIMITS.context);
  refuseUnless(numHeads % numKvHeads === 0, `${numHeads} query heads in whole groups per key/value head`, numKvHeads);
  refuseUnless(valueDim === headDim, `value heads as wide as key heads (${headDim})`, valueDim);

  const embedding = gguf.tensors.get("token_embd.weight");
  if (embedding === undefined) {
    throw new MillraceError("gguf_tensor", "expected a tensor token_embd.weight, got none", {
      hint: "The file holds no model weights (perhaps only a vocabulary).",
    });
  }
  const vocabSize = embedding.shape[1] ?? 0;
  refuseUnless(vocabSize <= MODEL_LIMITS.vocab, `a vocabulary of at most ${MODEL_LIMITS.vocab} tokens`, vocabSize);
  const window = traits.readsWindow ? read.optionalSize("attention.sliding_window", MODEL_LIMITS.context) : 0;
  const effectiveWindow = window >= contextLength ? 0 : window;
  const hasLocalRope = traits.windowPeriod > 0 && effectiveWindow > 0;
  const ropes = [ropeFromMetadata(metadata, architecture, headDim)];
  if (hasLocalRope) ropes.push({ ...ropes[0]!, base: read.positive("rope.freq_base_swa", 10_000), scaling: "none" });

  const layers = Array.from({ length: numLayers }, (_, layer): LayerConfig => {
    const isLocal = effectiveWindow > 0 && !isGlobalLayer(layer, traits.windowPeriod);
    return { window: isLocal ? effectiveWindow : 0, rope: isLocal && hasLocalRope ? 1 : 0 };
  });
  return Object.freeze({
    architecture,
    name: metadata.string("general.name") ?? architecture,
    numLayers,
    width,
    numHeads,
    numKvHeads,
    headDim,
    ffWidth: read.size("feed_forward_length", MODEL_LIMITS.ff),
    vocabSize,
    contextLength,
    rmsEps: read.positive("attention.layer_norm_rms_epsilon", 1e-5),
    embeddingScale: traits.scalesEmbedding ? Math.fround(Math.sqrt(width)) : 1,
    attentionScale:
      architecture === "gemma3" && numLayers === GEMMA3_27B_LAYERS
        ? 1 / Math.sqrt(width / numHeads)
        : 1 / Math.sqrt(headDim),
    activation: traits.activation,
    isNeoxRope: traits.isNeoxRope,
    ropes,
    layers,
    pooling: POOLING_BY_CODE.get(metadata.number(`${architecture}.pooling_type`)),
  });
}

/** Bytes one token's keys and values take over all layers. */
export function kvBytesPerToken(config: ModelConfig, kvType: KvType): number {
  return config.numLayers * 2 * config.numKvHeads * kvEntryBytes(kvType, config.headDim);
}

function isGlobalLayer(layer: number, period: number): boolean {
  return period > 0 && layer % period === period - 1;
}

function refuseUnless(holds: boolean, expected: string, got: number): void {
  if (!holds) throw new MillraceError("gguf_metadata", `expected ${expected}, got ${got}`);
}

/** Reads `<architecture>.<key>` numbers with bounds. */
export class Reader {
  constructor(
    private readonly metadata: GgufMetadata,
    private readonly architecture: string,
  ) {}

  size(key: string, max: number, fallback?: number): number {
    const name = `${this.architecture}.${key}`;
    const value = this.#uniform(name) ?? fallback;
    if (value === undefined || !Number.isInteger(value) || value < 1 || value > max) {
      throw new MillraceError("gguf_metadata", `expected ${name} to be an integer in [1, ${max}], got ${value}`);
    }
    return value;
  }

  optionalSize(key: string, max: number): number {
    const value = this.metadata.number(`${this.architecture}.${key}`);
    return value === undefined || value === 0 ? 0 : this.size(key, max);
  }

  positive(key: string, fallback: number): number {
    const name = `${this.architecture}.${key}`;
    const value = this.metadata.number(name) ?? fallback;
    if (!(value > 0 && Number.isFinite(value))) {
      throw new MillraceError("gguf_metadata", `expected ${name} to be a positive number, got ${value}`);
    }
    return value;
  }

  /** Some keys may be an array with one entry per layer; only equal entries are served. */
  #uniform(name: string): number | undefined {
    const value = this.metadata.get(name);
    if (value === undefined || typeof value !== "object") return this.metadata.number(name);
    const entries = Array.from(this.metadata.numbers(name) ?? []);
    if (entries.length > 0 && entries.every((entry) => entry === entries[0])) return entries[0];
    throw new MillraceError("architecture_unsupported", `expected the same ${name} in every layer, got several values`);
  }
}
