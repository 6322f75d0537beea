/** Narrows the encoder in a GGUF file to what the embedded engine computes. */
import { MillraceError } from "../../core/errors.js";
import type { GgufFile } from "../../formats/gguf/types.js";
import { type EncoderArchitecture, factsOf } from "../description/architectures.js";
import { MODEL_LIMITS } from "../description/model-description.js";
import type { HeadActivation, HeadLayer, PooledHead, Pooling } from "../description/pooling.js";
import {
  fixedBy,
  PLAIN_ROUTING,
  type ServableModel,
  servableLayers,
  unservedVariant,
} from "../description/servable.js";
import { describeGguf } from "./describe.js";
import { MetadataReader } from "./metadata-reader.js";
import { ropesFromMetadata } from "./rope.js";

/** Codes of `<architecture>.pooling_type`. */
const POOLING_BY_CODE: ReadonlyMap<number, Pooling> = new Map([
  [1, "mean"],
  [2, "cls"],
  [3, "last"],
]);
const RANK = 4;

/** @throws architecture_unsupported, gguf_metadata and gguf_tensor, as `servableGguf` does */
export function servableEncoder(gguf: GgufFile, architecture: EncoderArchitecture): ServableModel {
  const { metadata, tensors } = gguf;
  const read = new MetadataReader(metadata, architecture);
  if (metadata.boolean(`${architecture}.attention.causal`) === true) {
    throw unservedVariant(`expected ${architecture}.attention.causal to be false, got true`);
  }
  const { activation, hasPositionTable, isLayerNormed, normsSums, isNeoxInFiles = false } = factsOf(architecture);
  const description = describeGguf(gguf);
  const layers = servableLayers(description, architecture);
  const { headDim, valueDim } = layers[0]!.mixer;
  if (valueDim !== headDim) {
    throw new MillraceError("gguf_metadata", `expected value heads as wide as key heads (${headDim}), got ${valueDim}`);
  }
  const numPositions = hasPositionTable
    ? rowsOf(gguf, "position_embd.weight", MODEL_LIMITS.context)
    : description.contextLength;
  if (numPositions === undefined) throw missing("position_embd.weight");
  return Object.freeze({
    ...description,
    contextLength: Math.min(description.contextLength, numPositions),
    layers,
    ...fixedBy(architecture, description.width),
    rmsEps: isLayerNormed
      ? read.positive("attention.layer_norm_epsilon", normsSums ? 1e-12 : 1e-5)
      : read.positive("attention.layer_norm_rms_epsilon", 1e-6),
    attentionScale: 1 / Math.sqrt(headDim),
    positionTable: hasPositionTable ? { numRows: numPositions, firstRow: 0 } : undefined,
    numTokenTypes: tensors.has("token_types.weight")
      ? (rowsOf(gguf, "token_types.weight", MODEL_LIMITS.heads) ?? 0)
      : 0,
    activation,
    routing: PLAIN_ROUTING,
    isNeoxRope: isNeoxInFiles,
    ropes: hasPositionTable ? [] : ropesFromMetadata(metadata, architecture, layers),
    ...pooledParts(gguf, architecture, description.width),
  });
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
  // Of modern-bert, whose files do not say what is pooled before it.
  if (gguf.tensors.has("cls.norm.weight"))
    throw unservedVariant("expected a rank head without a norm, got one with it");
  const output = ["cls.output", "cls"].find((name) => gguf.tensors.has(`${name}.weight`));
  if (output === undefined) throw missing("cls.weight");
  const layers = output === "cls" ? [] : [layer("cls", width, "tanh")];
  return { layers: [...layers, layer(output, 1, "none")], scoring: "sigmoid" };
}

const missing = (name: string): MillraceError =>
  new MillraceError("gguf_tensor", `expected a tensor ${name}, got none`, {
    hint: "The file is incomplete, or its metadata describe another model.",
  });
