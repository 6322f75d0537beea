/**
 * Files of trained heads (architecture "mill-heads", written by models/training/heads.py), checked against the model
 * they draft for.
 */

import type { Backend, LoadReport } from "../../backend/backend.js";
import { MillraceError } from "../../core/errors.js";
import { readGguf } from "../../formats/gguf/read.js";
import type { GgufFile } from "../../formats/gguf/types.js";
import { isHfFolder } from "../../formats/hf/folder.js";
import { MODEL_LIMITS } from "../../model/description/model-description.js";
import { isAttention, type ServableModel } from "../../model/description/servable.js";
import { MetadataReader } from "../../model/gguf/metadata-reader.js";
import { GgufSource } from "../../model/gguf/source.js";
import { summarizeGguf } from "../../model/gguf/summary.js";
import { HEAD_KINDS, type HeadKind } from "../api/speculative-config.js";
import { type Binder, bindTensors } from "../blocks/binder.js";
import { FITS_ONE_MODEL, refused } from "./refused-heads.js";

const ARCHITECTURE = "mill-heads";
/** Most tokens ahead that heads guess. */
export const MAX_DEPTH = 64;

export interface HeadsFile {
  readonly kind: HeadKind;
  /** Number of tokens ahead that the heads were trained for. */
  readonly depth: number;
  readonly gguf: GgufFile;
}

/** The backend that computes the heads. */
export interface HeadsPlace {
  readonly backend: Backend;
  /** Rows of a batch. */
  readonly maxRows: number;
  readonly report: LoadReport;
}

export function isHeadsFile(path: string): boolean {
  return !isHfFolder(path) && architectureOf(readGguf(path)) === ARCHITECTURE;
}

/**
 * @param method the wanted kind; "heads" and "auto": either kind
 * Throws the errors of reading a GGUF file, and invalid_option unless the file holds heads of that kind for `target`.
 */
export function readHeads(path: string, method: string, target: ServableModel): HeadsFile {
  const gguf = readGguf(path);
  const { metadata } = gguf;
  if (architectureOf(gguf) !== ARCHITECTURE) {
    throw refused(`trained heads (architecture ${ARCHITECTURE})`, `${architectureOf(gguf)} in ${path}`, {
      hint: "A model that guesses for another one is for method draft_model; heads are trained with models/training/train.py heads.",
    });
  }
  const stated = metadata.string(`${ARCHITECTURE}.kind`);
  const kind = HEAD_KINDS.find((known) => known === stated);
  if (kind === undefined) {
    throw new MillraceError(
      "gguf_metadata",
      `expected ${ARCHITECTURE}.kind among ${HEAD_KINDS.join(", ")}, got ${stated}`,
    );
  }
  if (method !== kind && (HEAD_KINDS as readonly string[]).includes(method)) {
    throw refused(`heads of kind ${method}`, kind, { hint: 'Method "heads" takes either kind.' });
  }
  const read = new MetadataReader(metadata, ARCHITECTURE);
  const base = metadata.string(`${ARCHITECTURE}.base`);
  const width = read.size("embedding_length", MODEL_LIMITS.width);
  const vocabSize = read.size("vocab_size", MODEL_LIMITS.vocab);
  const hint = { hint: FITS_ONE_MODEL };
  if (base !== target.name) throw refused(`heads of the model ${target.name}`, `heads of ${base}`, hint);
  if (width !== target.width) throw refused(`heads of width ${target.width}`, `${width}`, hint);
  if (vocabSize !== target.vocabSize) {
    throw refused(`heads for a vocabulary of ${target.vocabSize} tokens`, `${vocabSize}`, hint);
  }
  return { kind, depth: read.size("depth", MAX_DEPTH), gguf };
}

/** The heads as a model description: no layers, and an output matrix over states as wide as the model's or narrower. */
export function headsConfig({ kind, gguf }: HeadsFile, target: ServableModel): ServableModel {
  const read = new MetadataReader(gguf.metadata, ARCHITECTURE);
  return {
    ...target,
    architecture: "llama",
    name: ARCHITECTURE,
    rmsEps: read.positive("attention.layer_norm_rms_epsilon", 1e-5),
    width: kind === "medusa" ? target.width : read.size("layer_length", target.width, target.width),
    ropes: [],
    layers: [],
  };
}

interface EagleShape {
  /** Index, from 0, of the model's layer whose keys and values the heads attend to. */
  readonly pastLayer: number;
  readonly ffWidth: number;
}

/** An eagle layer's dimensions beside the width of its states. */
export function eagleShape({ gguf }: HeadsFile, target: ServableModel): EagleShape {
  const key = "past_layer";
  if (gguf.metadata.number(`${ARCHITECTURE}.${key}`) === undefined) {
    throw refused(`a layer of the model to attend to (${ARCHITECTURE}.${key})`, "heads with keys of their own", {
      hint: "They were written by an older version: train them again with millrace train-drafter --kind eagle.",
    });
  }
  const read = new MetadataReader(gguf.metadata, ARCHITECTURE);
  // The file counts layers from 1 on.
  const pastLayer = read.size(key, target.layers.length) - 1;
  if (!isAttention(target.layers[pastLayer]!)) {
    const got = `layer ${pastLayer + 1}, which is recurrent or keeps latent vectors`;
    throw refused("a layer of the model with keys and values", got, { hint: FITS_ONE_MODEL });
  }
  return { pastLayer, ffWidth: read.size("feed_forward_length", MODEL_LIMITS.ff) };
}

/** Rejects with gguf_tensor where one of the tensors is missing or has another shape. */
export function bindHeads<T>(
  { gguf }: HeadsFile,
  { backend, report }: HeadsPlace,
  bind: (binder: Binder) => T,
): Promise<T> {
  const { weightBytes: numBytes, memoryBytes } = summarizeGguf(gguf);
  const tensors = { name: ARCHITECTURE, files: [], numBytes, memoryBytes, source: new GgufSource(gguf) };
  return bindTensors(tensors, backend, report, bind);
}

function architectureOf({ metadata }: GgufFile): string {
  return metadata.string("general.architecture") ?? "no architecture";
}
