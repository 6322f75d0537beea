/** Narrows the encoder in a GGUF file to what the embedded engine computes. */
import type { Activation } from "../../backend/ops.js";
import { MillraceError } from "../../core/errors.js";
import type { GgufFile } from "../../formats/gguf/types.js";
import { MODEL_LIMITS } from "../description/model-description.js";
import type { HeadActivation, HeadLayer, PooledHead, Pooling } from "../description/pooling.js";
import type { RopeConfig } from "../description/rope.js";
import {
  type EncoderArchitecture,
  PLAIN,
  type ServableLayer,
  type ServableModel,
  servableLayers,
  unservedVariant,
} from "../description/servable.js";
import { describeGguf } from "./describe.js";
import { MetadataReader } from "./metadata-reader.js";
import { ropeFromMetadata } from "./rope.js";

/** Codes of `<architecture>.pooling_type`. */
const POOLING_BY_CODE: ReadonlyMap<number, Pooling> = new Map([
  [1, "mean"],
  [2, "cls"],
  [3, "last"],
]);
const RANK = 4;

/** What sets an encoder apart from the others. */
interface Traits {
  readonly isLayerNormed: boolean;
  readonly normsSums: boolean;
  readonly hasEmbeddingNorm: boolean;
  readonly hasPositionTable: boolean;
  readonly activation: Activation;
  readonly scalesEmbedding: boolean;
  readonly ropeBase: number;
}

const BERT: Traits = {
  isLayerNormed: true,
  normsSums: true,
  hasEmbeddingNorm: true,
  hasPositionTable: true,
  activation: "gelu",
  scalesEmbedding: false,
  ropeBase: 10_000,
};
const TRAITS: Readonly<Record<EncoderArchitecture, Traits>> = {
  bert: BERT,
  "nomic-bert": { ...BERT, hasPositionTable: false, activation: "silu", ropeBase: 1000 },
  "modern-bert": { ...BERT, normsSums: false, hasPositionTable: false, ropeBase: 160_000 },
  "gemma-embedding": {
    isLayerNormed: false,
    normsSums: false,
    hasEmbeddingNorm: false,
    hasPositionTable: false,
    activation: "geluTanh",
    scalesEmbedding: true,
    ropeBase: 1_000_000,
  },
};

/** @throws architecture_unsupported, gguf_metadata and gguf_tensor, as `servableGguf` does */
export function servableEncoder(gguf: GgufFile, architecture: EncoderArchitecture): ServableModel {
  const { metadata, tensors } = gguf;
  const read = new MetadataReader(metadata, architecture);
  if (metadata.boolean(`${architecture}.attention.causal`) === true) {
    throw unservedVariant(`expected ${architecture}.attention.causal to be false, got true`);
  }
  for (const key of ["expert_count", "attention.clamp_kqv"]) {
    const value = metadata.number(`${architecture}.${key}`);
    if (value !== undefined && value !== 0) throw unservedVariant(`expected no ${architecture}.${key}, got ${value}`);
  }
  const traits = TRAITS[architecture];
  const description = describeGguf(gguf);
  const layers = servableLayers(description);
  const { headDim, valueDim } = layers[0]!.mixer;
  if (valueDim !== headDim) {
    throw new MillraceError("gguf_metadata", `expected value heads as wide as key heads (${headDim}), got ${valueDim}`);
  }
  const numPositions = traits.hasPositionTable
    ? rowsOf(gguf, "position_embd.weight", MODEL_LIMITS.context)
    : description.contextLength;
  if (numPositions === undefined) throw missing("position_embd.weight");
  const { isLayerNormed, normsSums, hasEmbeddingNorm, activation } = traits;
  return Object.freeze({
    ...description,
    ...PLAIN,
    contextLength: Math.min(description.contextLength, numPositions),
    layers,
    architecture,
    rmsEps: isLayerNormed
      ? read.positive("attention.layer_norm_epsilon", normsSums ? 1e-12 : 1e-5)
      : read.positive("attention.layer_norm_rms_epsilon", 1e-6),
    embeddingScale: traits.scalesEmbedding ? Math.fround(Math.sqrt(description.width)) : 1,
    attentionScale: 1 / Math.sqrt(headDim),
    isPostNormed: false,
    isCausal: false,
    isLayerNormed,
    normsSums,
    hasEmbeddingNorm,
    positionTable: traits.hasPositionTable ? { numRows: numPositions, firstRow: 0 } : undefined,
    numTokenTypes: tensors.has("token_types.weight")
      ? (rowsOf(gguf, "token_types.weight", MODEL_LIMITS.heads) ?? 0)
      : 0,
    activation,
    normalisesExperts: false,
    isNeoxRope: true,
    ropes: traits.hasPositionTable ? [] : readRopes(gguf, architecture, layers, traits),
    ...pooledParts(gguf, architecture, description.width),
  });
}

/** The model's rope, then that of windowed layers. */
function readRopes(
  { metadata }: GgufFile,
  architecture: EncoderArchitecture,
  layers: readonly ServableLayer[],
  { ropeBase }: Traits,
): readonly RopeConfig[] {
  const read = new MetadataReader(metadata, architecture);
  const rope = {
    ...ropeFromMetadata(metadata, architecture, layers[0]!.mixer.headDim),
    base: read.positive("rope.freq_base", ropeBase),
  };
  if (layers.every(({ mixer }) => mixer.rope <= 0)) return [rope];
  return [rope, { ...rope, base: read.positive("rope.freq_base_swa", 10_000), scaling: "none" as const }];
}

function pooledParts(
  gguf: GgufFile,
  architecture: EncoderArchitecture,
  width: number,
): Pick<ServableModel, "pooling" | "head"> {
  const code = gguf.metadata.number(`${architecture}.pooling_type`) ?? 1;
  if (code === RANK) return { pooling: "cls", head: rankHead(gguf, width) };
  const pooling = POOLING_BY_CODE.get(code);
  if (pooling === undefined) {
    throw unservedVariant(
      `expected ${architecture}.pooling_type to be 1 (mean), 2 (cls), 3 (last) or 4 (rank), got ${code}`,
    );
  }
  return { pooling, head: denseHead(gguf, architecture, width) };
}

/** The linear layers behind the pooling of gemma-embedding. */
function denseHead(gguf: GgufFile, architecture: EncoderArchitecture, width: number): PooledHead | undefined {
  const layers: HeadLayer[] = [];
  let inputs = width;
  for (const name of ["dense_2", "dense_3"]) {
    const tensor = gguf.tensors.get(`${name}.weight`);
    if (tensor === undefined) continue;
    const outputs = tensor.shape[1] ?? 1;
    if (outputs > MODEL_LIMITS.width) {
      throw new MillraceError("gguf_tensor", `expected at most ${MODEL_LIMITS.width} rows of ${name}, got ${outputs}`);
    }
    layers.push({ kind: "linear", name, inputs, outputs, activation: "none" });
    inputs = outputs;
  }
  return architecture === "gemma-embedding" && layers.length > 0 ? { layers, scoring: undefined } : undefined;
}

/** Rows of a matrix; undefined: there is none. */
function rowsOf({ tensors }: GgufFile, name: string, max: number): number | undefined {
  const tensor = tensors.get(name);
  if (tensor === undefined) return undefined;
  const numRows = tensor.shape[1] ?? 1;
  if (numRows <= max) return numRows;
  throw new MillraceError("gguf_tensor", `expected at most ${max} rows of ${name}, got ${numRows}`);
}

function rankHead(gguf: GgufFile, width: number): PooledHead {
  const layer = (name: string, outputs: number, activation: HeadActivation): HeadLayer => ({
    kind: "linear",
    name,
    inputs: width,
    outputs,
    activation,
  });
  const output = ["cls.output", "cls"].find((name) => gguf.tensors.has(`${name}.weight`));
  if (output === undefined) throw missing("cls.weight");
  const layers = output === "cls" ? [] : [layer("cls", width, "tanh")];
  return { layers: [...layers, layer(output, 1, "none")], scoring: "sigmoid" };
}

const missing = (name: string): MillraceError =>
  new MillraceError("gguf_tensor", `expected a tensor ${name}, got none`, {
    hint: "The file is incomplete, or its metadata describe another model.",
  });
