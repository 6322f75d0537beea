/**
 * Writes a model folder with a LoRA adapter added to its weights: every engine can read it, at the speed of its base.
 */
import { copyFileSync, existsSync, mkdirSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { MillraceError } from "../../core/errors.js";
import { optionError } from "../../core/option-error.js";
import { dequantizeRow } from "../../formats/dequantize.js";
import { encodeValues, type PlainType } from "../../formats/files/plain-values.js";
import { openFile, readExactly } from "../../formats/files/read-file.js";
import { CONFIG_NAME, type HfFolder, isHfFolder, readHfFolder } from "../../formats/hf/folder.js";
import { SINGLE_NAME } from "../../formats/safetensors/read.js";
import type { SafetensorsTensor } from "../../formats/safetensors/types.js";
import { type WritableTensor, writeSafetensors } from "../../formats/safetensors/write.js";
import { hasOutput } from "../../model/hf/names.js";
import { plainType } from "../../model/hf/plain-tensor.js";
import { openModel } from "../../model/open-model.js";
import { publishCopy, withPlace, workInPieces, writingTo } from "../convert.js";
import { TEXT_FILES } from "../hf/write-folder.js";
import { type LoraAdapter, type LoraFactors, readAdapter } from "./read-adapter.js";

/** Bytes of a tensor in memory at once. */
const PIECE_BYTES = 1 << 22;
/** The least value that rounds to infinity in F16; the other types hold every f32. */
const F16_INFINITE = 65_520;

export interface Merged {
  readonly path: string;
  readonly numMatrices: number;
  /** The largest rank. */
  readonly rank: number;
  /** Number of tensors that were trained whole. */
  readonly numWhole: number;
}

interface MergeOptions {
  /** The adapter's base model: a Hugging Face folder. */
  readonly base: string;
  readonly adapter: string;
  /** A folder that is empty or missing. */
  readonly out: string;
}

/**
 * Writes the merged model, which gets its name only when it is complete; its tensors have the base's types.
 * @param onWritten called with the bytes of tensors written so far, and the total
 * @param signal ends the work with its reason, and removes what was written
 * @throws the errors of reading the base; model_config and model_tensor for an adapter that cannot be merged into it
 */
export async function mergeAdapter(
  { base, adapter: adapterFolder, out: wantedOut }: MergeOptions,
  onWritten: (numBytes: number, total: number) => void,
  signal?: AbortSignal,
): Promise<Merged> {
  if (!isHfFolder(base))
    throw optionError("--base", "a folder with config.json and safetensors files, which adapters are trained on", base);
  const out = resolve(wantedOut);
  const folder = readHfFolder(base);
  const { tensors, shards } = folder.files;
  const adapter = readAdapter(adapterFolder, tensors);
  refuseTiedEmbedding(folder, adapter);
  return writingTo(out, "nothing was left there", () =>
    withPlace(out, false, async (place) => {
      const copy = join(place, "copy");
      mkdirSync(copy);
      for (const name of [CONFIG_NAME, ...TEXT_FILES]) {
        if (!existsSync(join(base, name))) continue;
        mkdirSync(dirname(join(copy, name)), { recursive: true });
        copyFileSync(join(base, name), join(copy, name));
      }
      const changed = [...tensors.values()].map((tensor) => changedTensor(tensor, shards[tensor.shard]!.path, adapter));
      await workInPieces(writeSafetensors(join(copy, SINGLE_NAME), changed, onWritten), signal);
      openModel(copy);
      signal?.throwIfAborted();
      publishCopy(copy, out);
      const rank = Math.max(0, ...adapter.ranks.values());
      return { path: out, numMatrices: adapter.ranks.size, rank, numWhole: adapter.whole.size };
    }),
  );
}

/** If the output shares the embeddings, changing one would change the other too. */
function refuseTiedEmbedding(folder: HfFolder, { ranks, whole }: LoraAdapter): void {
  const name = folder.embeddingName;
  if (hasOutput(folder) || !(ranks.has(name) || whole.has(name))) return;
  throw new MillraceError("model_config", `expected an adapter that leaves ${name} alone, which the output shares`, {
    hint: "merge it where it was trained: peft's merge_and_unload, then save_pretrained",
  });
}

function changedTensor(tensor: SafetensorsTensor, path: string, adapter: LoraAdapter): WritableTensor {
  const { name, dtype: type, shape } = tensor;
  const isChanged = adapter.ranks.has(name);
  const bytes = isChanged
    ? () => addedTo(tensor, path, adapter.factors(name))
    : adapter.whole.has(name)
      ? () => [encoded(plainType(tensor), adapter.wholeValues(name), name)]
      : () => storedPieces(tensor, path);
  // Fails before any file is written: quantised weights cannot be changed.
  if (isChanged || adapter.whole.has(name)) plainType(tensor);
  return { name, type, shape, bytes };
}

function* storedPieces({ byteOffset, byteLength }: SafetensorsTensor, path: string): Generator<Uint8Array> {
  using file = openFile(path);
  for (let at = 0; at < byteLength; at += PIECE_BYTES) {
    yield readExactly(file, byteOffset + at, Math.min(PIECE_BYTES, byteLength - at));
  }
}

/** @yields rows of W + scale · b · a. Sums are in f64, and each result is rounded once to the stored type. */
function* addedTo(tensor: SafetensorsTensor, path: string, factors: LoraFactors): Generator<Uint8Array> {
  const type = plainType(tensor);
  const [rows, cols] = tensor.shape as readonly [number, number];
  const rowBytes = tensor.byteLength / rows;
  const numAtOnce = Math.max(1, Math.floor(PIECE_BYTES / (4 * cols)));
  const change = new Float64Array(cols);
  using file = openFile(path);
  for (let first = 0; first < rows; first += numAtOnce) {
    const count = Math.min(numAtOnce, rows - first);
    const bytes = readExactly(file, tensor.byteOffset + first * rowBytes, count * rowBytes);
    const values = dequantizeRow(type, bytes, count * cols);
    for (let row = 0; row < count; row++) {
      changeOfRow(factors, first + row, change);
      const at = row * cols;
      for (let i = 0; i < cols; i++) values[at + i] = values[at + i]! + change[i]!;
    }
    yield encoded(type, values, tensor.name);
  }
}

/** Writes row `row` of scale · b · a into `change`. */
function changeOfRow({ rank, scale, a, b }: LoraFactors, row: number, change: Float64Array): void {
  const cols = change.length;
  change.fill(0);
  for (let k = 0; k < rank; k++) {
    const factor = scale * b[row * rank + k]!;
    if (factor === 0) continue;
    const at = k * cols;
    for (let i = 0; i < cols; i++) change[i] = change[i]! + factor * a[at + i]!;
  }
}

/** @throws model_tensor for a value that the type cannot hold */
function encoded(type: PlainType, values: Float32Array, name: string): Uint8Array {
  const limit = type === "F16" ? F16_INFINITE : Number.POSITIVE_INFINITY;
  const broken = values.find((value) => !(Math.abs(value) < limit));
  if (broken === undefined) return encodeValues(type, values);
  throw new MillraceError("model_tensor", `expected ${name} to be finite in ${type} with the adapter, got ${broken}`, {
    hint: "the adapter is damaged, its lora_alpha is too large, or its training diverged",
  });
}
