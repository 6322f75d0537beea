/**
 * How the model in a GGUF file makes a vector or a score of its hidden states: `<architecture>.pooling_type`, and the
 * layers behind the pooling.
 */
import { MillraceError } from "../../core/errors.js";
import type { GgufFile } from "../../formats/gguf/types.js";
import type { DecoderArchitecture, EncoderArchitecture } from "../description/architectures.js";
import { MODEL_LIMITS } from "../description/model-description.js";
import { type HeadDescription, type HeadLayer, linearLayer, type Pooling } from "../description/pooling.js";
import { type ServableModel, unservedVariant } from "../description/servable.js";

/** Codes of `pooling_type`; 0 stands for none. */
export const POOLING_CODES: Readonly<Record<Pooling, number>> = { mean: 1, cls: 2, last: 3 };
/** The code of a reranker. */
const RANK = 4;

type PooledParts = Pick<ServableModel, "pooling" | "head">;

/**
 * Pooling of a model that generates text. Its first token sees no other, so that pooling by it counts as not stated.
 */
export function decoderPooling(
  { metadata, tensors }: GgufFile,
  architecture: DecoderArchitecture,
  inputs: number,
): PooledParts {
  const code = metadata.number(`${architecture}.pooling_type`);
  const output = tensors.get("cls.output.weight");
  if (code !== RANK) {
    const pooling = (["mean", "last"] as const).find((candidate) => POOLING_CODES[candidate] === code);
    return { pooling, head: undefined };
  }
  if (output === undefined) throw missingTensor("cls.output.weight");
  const numLabels = output.shape[1] ?? 1;
  if (numLabels !== 1 && numLabels !== 2) {
    throw unservedVariant(`expected a rank head of one output, or of two for yes and no, got ${numLabels}`);
  }
  const layer = linearLayer("cls.output", inputs, numLabels);
  if (numLabels === 1) return { pooling: "last", head: { layers: [layer], scoring: "sigmoid" } };
  const labels = metadata.strings(`${architecture}.classifier.output_labels`) ?? ["yes", "no"];
  if ([...labels].sort().join() !== "no,yes") {
    const got = labels.join(", ").slice(0, 80) || "none";
    throw unservedVariant(`expected ${architecture}.classifier.output_labels to be yes and no, got ${got}`);
  }
  const rows = labels[0] === "no" ? [0, 1] : [1, 0];
  return { pooling: "last", head: { layers: [{ ...layer, rows, totalRows: 2 }], scoring: "softmax" } };
}

/** @throws architecture_unsupported, gguf_tensor */
export function encoderPooling(gguf: GgufFile, architecture: EncoderArchitecture, width: number): PooledParts {
  const code = gguf.metadata.number(`${architecture}.pooling_type`) ?? POOLING_CODES.mean;
  if (code === RANK) return { pooling: "cls", head: rankHead(gguf, width) };
  const pooling = (["mean", "cls", "last"] as const).find((candidate) => POOLING_CODES[candidate] === code);
  if (pooling !== undefined) return { pooling, head: denseHead(gguf, architecture, width) };
  throw unservedVariant(
    `expected ${architecture}.pooling_type to be 1 (mean), 2 (cls), 3 (last) or 4 (rank), got ${code}`,
  );
}

/** The linear layers behind the pooling of gemma-embedding. */
function denseHead(gguf: GgufFile, architecture: EncoderArchitecture, width: number): HeadDescription | undefined {
  if (architecture !== "gemma-embedding") return undefined;
  const layers: HeadLayer[] = [];
  let inputs = width;
  for (const name of ["dense_2", "dense_3"]) {
    const tensor = gguf.tensors.get(`${name}.weight`);
    if (tensor === undefined) continue;
    const outputs = tensor.shape[1] ?? 1;
    if (outputs > MODEL_LIMITS.width) {
      throw new MillraceError("gguf_tensor", `expected at most ${MODEL_LIMITS.width} rows of ${name}, got ${outputs}`);
    }
    layers.push(linearLayer(name, inputs, outputs));
    inputs = outputs;
  }
  return layers.length > 0 ? { layers, scoring: undefined } : undefined;
}

/** A cross-encoder's: the pooler of BERT, or the first layer of RoBERTa's classifier, and the output. */
function rankHead({ tensors }: GgufFile, width: number): HeadDescription {
  if (tensors.has("cls.norm.weight")) {
    // modern-bert: its files do not say whether the first token or the mean goes into the head.
    throw unservedVariant("expected a rank head without a norm, got one with it");
  }
  const [hasFirst, hasOutput] = [tensors.has("cls.weight"), tensors.has("cls.output.weight")];
  if (!hasFirst && !hasOutput) throw missingTensor("cls.weight");
  if (!hasFirst || !hasOutput) {
    throw unservedVariant(
      `expected a rank head of two layers, cls and cls.output, got ${hasFirst ? "cls" : "cls.output"} alone: ` +
        "llama.cpp's converter leaves out BERT's pooler, without which scores are those of another model",
    );
  }
  const layers = [linearLayer("cls", width, width, "tanh"), linearLayer("cls.output", width, 1)];
  return { layers, scoring: "sigmoid" };
}

export const missingTensor = (name: string): MillraceError =>
  new MillraceError("gguf_tensor", `expected a tensor ${name}, got none`, {
    hint: "The file is incomplete, or its metadata describe another model.",
  });
