/**
 * The engine's interface to a device: memory, and recorded programs of operations on it. Calls take effect in the order
 * in which they are made. Host and device share no memory: data crosses through `input` and `output` buffers, and
 * through `read` and `write`.
 */
import type { BufferHandle, WeightHandle, WeightStackHandle } from "./handles.js";
import type { BlockType, KvType, ScaledType } from "./ops.js";
import type { Program } from "./program.js";
import type { MatrixSource, MatrixSpec } from "./tensor-source.js";

/**
 * How products treat activations.
 * - auto: round them to integers, of 16 bits for 8-bit weights and of 8 bits for narrower ones, and to bfloat16 for
 *   bfloat16 weights where the CPU multiplies pairs of them;
 * - int8: as auto, but to 8 bits for 8-bit weights too, which is faster on CPUs with byte multiplication;
 * - f32: do not round them, at a fraction of the speed.
 */
export const ACTIVATION_DTYPES = ["auto", "int8", "f32"] as const;
export type ActivationDtype = (typeof ACTIVATION_DTYPES)[number];

export interface PackCacheOptions {
  readonly folder: string;
  /** Limit on the total size of all packs; the least recently used are removed first. */
  readonly maxBytes: number;
  /**
   * Bytes of weights from which a model's pack is kept; undefined: 64 MiB, below which packing is faster than finding a
   * pack.
   */
  readonly minModelBytes?: number | undefined;
}

export interface BackendOptions {
  readonly numThreads: number;
  /**
   * Pins kernel thread i to CPU cpuAffinity[i % length], and thread 0, the calling one, to the whole list; undefined:
   * no pinning.
   */
  readonly cpuAffinity: readonly number[] | undefined;
  readonly activationDtype: ActivationDtype;
  /** Where to keep packed weights for the next start; undefined: not kept. */
  readonly packCache: PackCacheOptions | undefined;
  /** Read the KV blocks of a common prefix once per step; false: once per sequence, with the same results. */
  readonly shareKvReads: boolean;
}

/** Reports the loading of a model to the people who wait for it. */
export interface LoadReport {
  /** @param fraction of the stage that is done, from 0 to 1 */
  progress(stage: string, fraction?: number): void;
  /** Reports a problem that makes loading slower or less complete but does not stop it. */
  note(text: string): void;
}

/** A model's matrices. */
export interface WeightSet {
  /** The model's name, as people read it. */
  readonly name: string;
  /**
   * The files that determine the weights. The backend may keep data derived from them for the next start; if empty, it
   * keeps none.
   */
  readonly files: readonly string[];
  /** Tells these weights from others of the same files; absent: these are the model's layers. */
  readonly part?: string;
  /** Stored size of the whole model, in bytes. */
  readonly numBytes: number;
  /** Size of the whole model in memory, where some types take more bytes than in the file. */
  readonly memoryBytes: number;
  readonly source: MatrixSource;
  readonly matrices: readonly MatrixSpec[];
}

/** Prepares the left operands of products, which kernels may need in a format of their own. */
export interface ProductInputs {
  /**
   * Records the operations that prepare x [numRows, cols] for products with `weights`.
   * @returns for each weight the buffer to pass as x to its product; valid until the next call with the same `cols`
   */
  prepare(
    program: Program,
    x: BufferHandle,
    weights: readonly AnyWeight[],
    numRows: number,
    cols: number,
  ): readonly BufferHandle[];
  /**
   * As `prepare`, for products by experts: row m of x comes to every place that `dispatch` gives it, and the buffers
   * have a row for each place.
   */
  dispatch(
    program: Program,
    x: BufferHandle,
    weights: readonly WeightStackHandle[],
    dispatch: Dispatch,
    cols: number,
  ): readonly BufferHandle[];
}

export type AnyWeight = WeightHandle | WeightStackHandle;

/** The places that a step's rows go to. */
export interface Dispatch {
  /** i32 [numRows, numChosen], as `groupExperts` writes them */
  readonly places: BufferHandle;
  readonly numRows: number;
  readonly numChosen: number;
}

/** Bytes of stored keys and values, counted since the backend was created. */
export interface KvBytes {
  /** Bytes that attention read. */
  readonly read: number;
  /** Bytes that attention would have read without sharing. */
  readonly unshared: number;
}

/** Facts about a backend for logs and reports. */
export interface BackendDescription {
  readonly isa: string;
  readonly numThreads: number;
}

export interface HostArrays {
  readonly i32: Int32Array;
  readonly f32: Float32Array;
  readonly f64: Float64Array;
}

/** A device buffer with the host's copy of its contents. */
export interface HostBuffer<Type extends keyof HostArrays> {
  readonly buffer: BufferHandle;
  readonly values: HostArrays[Type];
}

/** A device. It belongs to one JavaScript thread. */
export interface Backend {
  readonly description: BackendDescription;
  /** Bytes left for KV caches after the weights placed so far. */
  freeBytes(): number;
  /** Stored bytes of one token's key (or value) of one head. */
  kvEntryBytes(kvType: KvType, headDim: number): number;
  /** The number of entries in a KV block must be a multiple of this. */
  readonly kvBlockMultiple: number;
  /**
   * Numbers of rows, ascending from 1, at which the time of a step changes its slope: the engine measures steps of
   * these sizes.
   */
  readonly stepCostRows: readonly number[];
  /** Allocates zeroed memory. Throws `out_of_memory`. */
  allocate(byteLength: number): BufferHandle;
  /**
   * Creates a buffer for operations to read. `values` starts zeroed. The host fills it before it submits a program and
   * must not change it until that program has ended.
   */
  input<Type extends keyof HostArrays>(type: Type, length: number): HostBuffer<Type>;
  /**
   * Creates a buffer for operations to write. `values` holds the results from the end of a program until the next one
   * is submitted.
   */
  output<Type extends keyof HostArrays>(type: Type, length: number): HostBuffer<Type>;
  release(buffer: BufferHandle): void;
  /**
   * Fills `target` with bytes of a buffer from `byteOffset`. Rejects with `kernels_argument` if the range exceeds the
   * buffer.
   */
  read(buffer: BufferHandle, byteOffset: number, target: ArrayBufferView): Promise<void>;
  /**
   * Copies `source` into a buffer at `byteOffset`; the host may reuse it at once. Throws `kernels_argument` if it does
   * not fit.
   */
  write(buffer: BufferHandle, byteOffset: number, source: ArrayBufferView): void;
  /**
   * Runs a program and resolves when it has ended. Rejects with `kernels_argument` for a malformed program, of which no
   * operation ran. Rejects with `model_file_changed` when part of a model's file no longer exists; every result of the
   * program is then invalid.
   */
  submit(program: Program): Promise<void>;
  /**
   * Places the matrices, in the layout that products are fastest with, and returns their handles in order. Rejects with
   * the source's errors.
   */
  place(weights: WeightSet, report: LoadReport): Promise<readonly WeightHandle[]>;
  /** Names placed weights of one type and shape as one operand. Throws `kernels_argument` where they differ. */
  stack(weights: readonly WeightHandle[]): WeightStackHandle;
  /** @param maxRows the most rows that a product may have */
  productInputs(maxRows: number): ProductInputs;
  /** Throws `model_file_changed` if a file that weights are read from has changed. Checks at most once a second. */
  checkFiles(nowMs: number): void;
  /** Does a piece of deferred work; returns true while more remains. Throws `model_file_changed` and `pack_damaged`. */
  tidy(): boolean;
  kvBytes(): KvBytes;
  destroy(): void;
}

/** Makes weights smaller. It always runs on the CPU, and the caller waits for it. */
export interface RowEncoder {
  /**
   * @param values f32 [rows, cols], finite
   * @param importance of each column, above 0; undefined: all are 1
   * @returns the rows' blocks
   */
  encode(
    type: BlockType,
    values: Float32Array,
    cols: number,
    importance: Float32Array | undefined,
    feedback?: Feedback,
  ): Uint8Array;
  /**
   * @param values f32 [rows, cols], finite
   * @param scales [rows, cols ÷ group]
   * @returns the code of each value over its scale
   */
  round(
    type: ScaledType,
    values: Float32Array,
    cols: number,
    scales: Float32Array,
    group: number,
    feedback?: Feedback,
  ): Uint8Array;
  /**
   * @param gram f32 [cols, cols]: sums of the products of each pair of a matrix's inputs; the lower half is read, and
   * all of it may be written
   * @param isOrdered the columns with the largest inputs are rounded first, which `round` can do
   */
  feedback(gram: Float32Array, cols: number, isOrdered: boolean): Feedback;
  close(): void;
}

/**
 * Feeds the error of a rounded column back into the columns that are rounded after it, so that the matrix's products
 * change least.
 */
export interface Feedback {
  readonly factor: BufferHandle;
  /** NO_BUFFER: from the last column to the first */
  readonly order: BufferHandle;
  release(): void;
}
