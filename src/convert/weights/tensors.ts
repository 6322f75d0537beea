/** The tensors of a model with llama.cpp's names, and their values row by row, from either format. */
import { type MatrixRows, type MatrixSpec, type TensorSource, unstacked } from "../../backend/tensor-source.js";
import { MillraceError } from "../../core/errors.js";
import { dequantizeRow, rowByteLength, type WeightType } from "../../formats/dequantize.js";
import { encodeValues, PLAIN_TYPES, type PlainType } from "../../formats/files/plain-values.js";
import { openFile, readExactly } from "../../formats/files/read-file.js";
import type { TensorLog } from "../../formats/files/write-tensors.js";
import { unscaledNvfp4 } from "../../formats/fp4-blocks.js";
import type { TensorType } from "../../formats/gguf/types.js";
import type { Dtype } from "../../formats/safetensors/types.js";
import type { ExpertsFeedForward } from "../../model/description/model-description.js";
import { type ServableModel, unservedVariant } from "../../model/description/servable.js";
import type { OpenModel } from "../../model/open-model.js";
import type { TextSide } from "../../text/text-side.js";

/** Rows of about this many values are in memory at once. */
const CHUNK_VALUES = 1 << 22;

/** The least value that rounds to infinity in F16. */
const F16_INFINITE = 65_520;
const F16_INFINITE_BITS = 0x477ff000;

/** A model to copy. */
export interface CopySource {
  /** The path from which the model was read. */
  readonly path: string;
  readonly model: OpenModel;
  /** Undefined: the copy only has sizes and weights. */
  readonly text: Pick<TextSide, "tokenizer" | "readSampling"> | undefined;
}

/** A difference between the copy and the model. */
export interface CopyNote {
  readonly text: string;
  /** Whether some texts get other tokens. */
  readonly isAboutTokens: boolean;
}

export interface CopyProgress {
  onWritten(numBytes: number, total: number): void;
  onNote(note: CopyNote): void;
  /** Log of a stopped copy; absent: the copy starts anew. */
  readonly log?: TensorLog | undefined;
}

export interface ModelTensor {
  /** llama.cpp's name. */
  readonly name: string;
  /** [rows, cols] of a matrix, [length] of a vector. */
  readonly shape: readonly [number] | readonly [rows: number, cols: number];
  /** Present for experts' matrices, which are stacked: rows of the stack from `start` on. */
  readonly stack?: {
    readonly count: number;
    readonly totalRows: number;
    readonly start: number;
    readonly within?: WiderStack;
  };
  /** Present if the source has the matrix as rows of a larger one, from row `start` on. */
  readonly within?: { readonly name: string; readonly totalRows: number; readonly start: number };
  /** Number of vectors, if each expert or each channel of a convolution has one. */
  readonly count?: number;
  /**
   * Row `rowOf(i)` of the source is row i of the copy; absent: row i. Rows move only within heads of `headDim` rows.
   */
  readonly order?: RowOrder;
}

/** Present if the source has the matrices as parts of larger ones: each with `rows` rows, from row `offset` on. */
export interface WiderStack {
  readonly name: string;
  readonly rows: number;
  readonly offset: number;
}

/**
 * Measures a model layer by layer while it is written, because its tensors depend on statistics of each matrix's
 * inputs.
 */
export interface Preparation {
  /** Whether `prepare` must resolve before the tensor can be read or encoded. */
  needs(name: string): boolean;
  /** Prepares the tensor of the last `needs` call, and some after it; resolves at once if it is prepared. */
  prepare(): Promise<void>;
}

/** A file's storage of matrices. */
export interface Storage {
  /** @example "Q4_K_M" */
  readonly name: string;
  /** The single type of all matrices; undefined: there are several, or a block type. */
  readonly plain?: PlainType;
  readonly preparation?: Preparation;
  /** llama.cpp's `general.file_type`. */
  readonly fileType: number;
  typeOf(tensor: ModelTensor): TensorType;
  /**
   * Encodes rows of a matrix in blocks of `type`, which is not a plain type.
   * @param values f32 [rows, cols], finite
   */
  encode(name: string, type: TensorType, values: Float32Array, cols: number): Uint8Array;
}

/** A folder's storage of its layers' matrices in parts, as in quantised checkpoints. */
export interface LayerStorage {
  /** Whether the tensor is stored in parts; others have the folder's plain type. */
  takes(tensor: ModelTensor): boolean;
  /** Tensors that replace a layer's `weight`. */
  partsOf(rows: number, cols: number): readonly LayerPart[];
  /**
   * Bytes of each part.
   * @param tensor the matrix; an expert's has its stack's name
   */
  encode(source: ValueSource, tensor: ModelTensor): readonly Uint8Array[];
  /** config.json's `quantization_config`. @param ignored names of the linear layers with plain weights */
  configOf(ignored: readonly string[]): object;
  /** JSON of further files by name; absent: there are none */
  filesOf?(ignored: readonly string[]): Readonly<Record<string, object>>;
}

interface LayerPart {
  /** @example "weight_scale" */
  readonly part: string;
  readonly type: Dtype;
  readonly shape: readonly number[];
}

/** A folder's storage of its tensors. */
export interface FolderStorage {
  readonly name: string;
  readonly plain: PlainType;
  readonly preparation?: Preparation;
  readonly layers?: LayerStorage;
}

/** llama.cpp's `general.file_type`. */
const FILE_TYPES: Readonly<Record<PlainType, number>> = { F32: 0, F16: 1, BF16: 32 };

/** All matrices in one type; each value is rounded separately. */
export function plainStorage(type: PlainType): Storage {
  return {
    name: type,
    plain: type,
    fileType: FILE_TYPES[type],
    typeOf: () => type,
    encode: (name, other) => {
      throw new RangeError(`expected ${name} in ${type}, got ${other}`);
    },
  };
}

/** Access to the tensors' values. */
export type ValueSource = Pick<TensorSource, "matrix" | "values">;

interface RowOrder {
  readonly headDim: number;
  /** Row within a head. */
  rowOf(row: number): number;
}

/** The pairs (2i, 2i + 1) of llama.cpp's llama files, from rows in the order (i, i + half), and back. */
export function interleaved(headDim: number): RowOrder {
  return { headDim, rowOf: (row) => (row % 2) * (headDim / 2) + (row >> 1) };
}
export function halved(headDim: number): RowOrder {
  return { headDim, rowOf: (row) => (row % (headDim / 2)) * 2 + Math.floor(row / (headDim / 2)) };
}

/**
 * Width of the dense feed-forward parts; undefined: there are none.
 * @throws architecture_unsupported if they differ
 */
export function denseWidthOf({ layers }: ServableModel): number | undefined {
  const widths = layers.flatMap(({ feedForward: { kind, width } }) => (kind === "dense" && width > 0 ? [width] : []));
  if (widths.every((width) => width === widths[0])) return widths[0];
  throw unservedVariant("expected the same feed-forward width in every layer, got several values");
}

/** @throws architecture_unsupported unless the part that every token passes is as wide as a whole number of experts */
export function numSharedExperts({ sharedWidth, width }: ExpertsFeedForward): number {
  if (sharedWidth % width === 0) return sharedWidth / width;
  throw unservedVariant(`expected a shared part of whole experts of ${width} values, got one of ${sharedWidth}`);
}

export interface UnstackedTensor extends ModelTensor {
  readonly ownName: string;
}

/** The matrices of a stack under separate names; any other tensor unchanged. */
export function unstackedTensors(tensor: ModelTensor): readonly UnstackedTensor[] {
  const { name, shape, stack } = tensor;
  const [, cols] = shape;
  if (stack === undefined || cols === undefined) return [{ ...tensor, ownName: name }];
  const { count, totalRows } = stack;
  const rows = totalRows / count;
  return Array.from({ length: count }, (_, index) => {
    const start = index * rows;
    const { name: ownName } = unstacked({ name, totalRows, cols, start, rows, numStacked: count });
    return { name, ownName, shape: [rows, cols], stack: { ...stack, start } };
  });
}

/** Rope factors: tensors in GGUF files, settings in config.json. */
export const ROPE_FACTORS = ["rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"] as const;

/** Whether the tensor holds query or key rows, whose order depends on the rope's pairing. */
export const isRotated = (name: string): boolean => /\.attn_[qk]\.(weight|bias)$/.test(name);

/**
 * The tensor's values as bytes of `type`, in pieces. Rows of that type are copied unchanged.
 * @param storage encodes block types
 * @throws errors of the source; model_tensor for a value beyond the range of `type`
 */
export function* bytesOf(
  source: ValueSource,
  tensor: ModelTensor,
  type: TensorType,
  storage?: Storage,
): Generator<Uint8Array> {
  const { name, shape, order, stack, count: numVectors } = tensor;
  const [numRows, cols] = shape;
  if (cols === undefined) {
    const values = source.values(name, numRows, numVectors);
    yield encoded(name, asPlain(type), order === undefined ? values.slice() : reordered(values, 1, order));
    return;
  }
  const step = order?.headDim ?? 1;
  const { totalRows, start: first, count } = stack ?? { totalRows: numRows, start: 0, count: 1 };
  const rowsOfOne = totalRows / count;
  const mostRows = Math.max(step, Math.floor(CHUNK_VALUES / cols / step) * step);
  for (let done = 0, rows = 0; done < numRows; done += rows) {
    const start = first + done;
    // A piece lies within one matrix of a stack.
    rows = Math.min(mostRows, rowsOfOne - (start % rowsOfOne));
    const stored = source.matrix(rowsOf(tensor, start, rows));
    const bytes = storedBytes(stored, rows, cols);
    const same = stored.type === "NVFP4_SCALED" && type === "NVFP4" ? unscaledNvfp4(bytes) : bytes;
    if (stored.type === type || same !== bytes) {
      yield order === undefined ? same : reordered(same, same.length / rows, order);
    } else {
      const values = dequantizeRow(stored.type, bytes, rows * cols);
      const inOrder = order === undefined ? values : reordered(values, cols, order);
      if (storage === undefined || isPlain(type)) yield encoded(name, asPlain(type), inOrder);
      else {
        refuseBeyondHalves(name, type, inOrder);
        yield storage.encode(name, type, inOrder, cols);
      }
    }
  }
}

/** f32 [rows, cols] of a whole matrix. @throws model_tensor for a NaN or infinite value */
export function valuesOf(source: ValueSource, tensor: ModelTensor): Float32Array {
  const [rows, cols = 1] = tensor.shape;
  const values = new Float32Array(rows * cols);
  let at = 0;
  for (const piece of bytesOf(source, tensor, "F32")) {
    values.set(new Float32Array(piece.buffer, piece.byteOffset, piece.byteLength / 4), at);
    at += piece.byteLength / 4;
  }
  const broken = values.find((value) => !Number.isFinite(value));
  if (broken === undefined) return values;
  throw new MillraceError("model_tensor", `expected finite values in ${tensor.name}, got ${broken}`, {
    hint: "Check the model's files.",
  });
}

const NOTHING = new Uint8Array();

/** Pieces of the tensor `name`, after empty pieces during which the caller prepares. */
export function* prepared(
  preparation: Preparation | undefined,
  name: string,
  pieces: () => Iterable<Uint8Array>,
): Generator<Uint8Array> {
  while (preparation?.needs(name) === true) yield NOTHING;
  yield* pieces();
}

export const isPlain = (type: TensorType): type is PlainType => (PLAIN_TYPES as readonly TensorType[]).includes(type);

function asPlain(type: TensorType): PlainType {
  if (isPlain(type)) return type;
  throw new RangeError(`expected a type that rounds each value by itself, got ${type}`);
}

/** Refuses values too large for blocks, whose scales are halves. */
function refuseBeyondHalves(name: string, type: TensorType, values: Float32Array): void {
  // Bits of magnitudes order like the magnitudes, with infinities and NaN last.
  const words = new Uint32Array(values.buffer, values.byteOffset, values.length);
  let largest = 0;
  for (let i = 0; i < words.length; i++) largest = Math.max(largest, words[i]! & 0x7fffffff);
  if (largest < F16_INFINITE_BITS) return;
  const beyond = values.find((value) => !(Math.abs(value) < F16_INFINITE));
  throw new MillraceError("model_tensor", `expected finite values below ${F16_INFINITE} in ${name}, got ${beyond}`, {
    hint: `The matrix cannot be stored in ${type}. Check the model's files.`,
  });
}

/** Place in the source of rows of a matrix, or of a stack if they lie within one matrix. */
export function rowsOf(tensor: ModelTensor, start: number, rows: number): MatrixSpec {
  const { name, shape, stack, within } = tensor;
  const [numRows, cols] = shape;
  if (within !== undefined) {
    const { name: wider, totalRows, start: offset } = within;
    return { name: wider, totalRows, cols: cols!, start: offset + start, rows, keepsValues: true };
  }
  const spec = { name, totalRows: stack?.totalRows ?? numRows, cols: cols!, start, rows, keepsValues: true };
  return stack === undefined ? spec : specOf(spec, stack.totalRows / stack.count, stack);
}

function specOf(spec: MatrixSpec, rowsOfOne: number, { count, within }: NonNullable<ModelTensor["stack"]>): MatrixSpec {
  if (within === undefined) return { ...spec, numStacked: count };
  const { name, rows, offset } = within;
  const start = Math.floor(spec.start / rowsOfOne) * rows + offset + (spec.start % rowsOfOne);
  return { ...spec, name, start, totalRows: count * rows, numStacked: count };
}

/** @throws model_tensor for a value beyond the range of `type` */
export function encoded(name: string, type: PlainType, values: Float32Array): Uint8Array {
  const large =
    type === "F16" ? values.find((value) => Math.abs(value) >= F16_INFINITE && Number.isFinite(value)) : undefined;
  if (large === undefined) return encodeValues(type, values);
  throw new MillraceError("model_tensor", `expected values of ${name} within float16's range of ±65504, got ${large}`, {
    hint: "Choose --dtype bfloat16 or float32.",
  });
}

export function storedBytes(stored: MatrixRows, rows: number, cols: number): Uint8Array {
  const numBytes = rows * rowByteLength(stored.type, cols)!;
  if ("path" in stored) {
    using file = openFile(stored.path);
    return readExactly(file, stored.byteOffset, numBytes);
  }
  const target = new ArrayBuffer(numBytes);
  stored.convert(target);
  return new Uint8Array(target);
}

function reordered<Row extends Float32Array | Uint8Array>(
  values: Row,
  cols: number,
  { headDim, rowOf }: RowOrder,
): Row {
  // A Buffer's own slice would share its memory.
  const out = (values instanceof Float32Array ? values.slice() : new Uint8Array(values)) as Row;
  for (let row = 0; row * cols < values.length; row++) {
    const within = row % headDim;
    const from = (row - within + rowOf(within)) * cols;
    out.set(values.subarray(from, from + cols), row * cols);
  }
  return out;
}

/**
 * The type of two bytes per value with the least loss for the model's matrices. GGML's quantised blocks have halves as
 * scales, so halves hold their values most closely. MXFP4's scales are powers of two beyond the range of halves.
 * NVFP4's values have six bits times the matrix's F32 scale: bfloat16 rounds them to eight bits, whatever their range.
 * Matrices of F32 stay F32.
 */
const IN_BF16: readonly WeightType[] = ["BF16", "F8_E4M3", "I8", "MXFP4", "NVFP4", "NVFP4_SCALED"];
export function plainTypeOf(stored: WeightType | undefined): PlainType {
  if (stored === "F32") return "F32";
  return stored === undefined || IN_BF16.includes(stored) ? "BF16" : "F16";
}
