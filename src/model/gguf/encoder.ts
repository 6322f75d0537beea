/** Narrows the encoder in a GGUF file to what the embedded engine computes. */
import { MillraceError } from "../../core/errors.js";
import type { GgufFile } from "../../formats/gguf/types.js";
import { MODEL_LIMITS } from "../description/model-description.js";
import type { HeadActivation, HeadLayer, PooledHead, Pooling } from "../description/pooling.js";
import {
  type EncoderArchitecture,
  PLAIN,
  type ServableModel,
  servableLayers,
  unservedVariant,
} from "../description/servable.js";
import { describeGguf } from "./describe.js";
import { MetadataReader } from "./metadata-reader.js";

/** Codes of `<architecture>.pooling_type`. */
const POOLING_BY_CODE: ReadonlyMap<number, Pooling> = new Map([
  [1, "mean"],
  [2, "cls"],
  [3, "last"],
]);
const RANK = 4;

/** @throws architecture_unsupported, gguf_metadata and gguf_tensor, as `servableGguf` does */
export function servableEncoder(gguf: GgufFile, architecture: EncoderArchitecture): ServableModel {
  if (architecture !== "bert") throw unservedVariant(`expected a bert, got ${architecture}: read it from its folder`);
  const { metadata, tensors } = gguf;
  const read = new MetadataReader(metadata, architecture);
  if (metadata.boolean(`${architecture}.attention.causal`) === true) {
    throw unservedVariant(`expected ${architecture}.attention.causal to be false, got true`);
  }
  const description = describeGguf(gguf);
  const layers = servableLayers(description);
  const { headDim } = layers[0]!.mixer;
  const numPositions = rowsOf(gguf, "position_embd.weight", MODEL_LIMITS.context);
  if (numPositions === undefined) throw missing("position_embd.weight");
  const code = metadata.number(`${architecture}.pooling_type`) ?? 1;
  const pooling = code === RANK ? "cls" : POOLING_BY_CODE.get(code);
  if (pooling === undefined) {
    throw unservedVariant(
      `expected ${architecture}.pooling_type to be 1 (mean), 2 (cls), 3 (last) or 4 (rank), got ${code}`,
    );
  }
  return Object.freeze({
    ...description,
    ...PLAIN,
    contextLength: Math.min(description.contextLength, numPositions),
    layers,
    architecture,
    rmsEps: read.positive("attention.layer_norm_epsilon", 1e-12),
    embeddingScale: 1,
    attentionScale: 1 / Math.sqrt(headDim),
    isPostNormed: false,
    isCausal: false,
    isLayerNormed: true,
    normsSums: true,
    hasEmbeddingNorm: true,
    positionTable: { numRows: numPositions, firstRow: 0 },
    numTokenTypes: tensors.has("token_types.weight")
      ? (rowsOf(gguf, "token_types.weight", MODEL_LIMITS.heads) ?? 0)
      : 0,
    activation: "gelu",
    normalisesExperts: false,
    isNeoxRope: true,
    ropes: [],
    pooling,
    head: code === RANK ? rankHead(gguf, description.width) : undefined,
  });
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
