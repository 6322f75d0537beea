/**
 * What the engine asks of a device: memory, and recorded programs of operations that run in it. All calls take effect in the order in which
 * they were made. Host and device share no memory: numbers cross by inputs and outputs, and by read and write.
 */
import type { BufferHandle, WeightHandle } from "./handles.js";
import type { KvType } from "./ops.js";
import type { Program } from "./program.js";
import type { MatrixSource, MatrixSpec } from "./tensor-source.js";

/**
 * auto: integers for quantised weights, of 16 bits beside weights of eight; int8: of eight bits beside these too, which is faster where the CPU
 * multiplies bytes; f32: activations stay as they are, at a fraction of the speed.
 */
export const ACTIVATION_DTYPES = ["auto", "int8", "f32"] as const;
export type ActivationDtype = (typeof ACTIVATION_DTYPES)[number];

export interface PackCacheOptions {
  readonly folder: string;
  /** Packs together take at most so much; the longest unused go first. */
  readonly maxBytes: number;
}

/** What a backend is created with. */
export interface BackendOptions {
  readonly numThreads: number;
  /** CPUs that kernel threads stay on, thread i on the i-th, around and around, thread 0 on any of them; undefined = wherever the OS puts them. */
  readonly cpuAffinity: readonly number[] | undefined;
  /** auto: quantised weights are multiplied with activations rounded to integers; int8: to 8 bits also where auto takes 16; f32: none is rounded. */
  readonly activationDtype: ActivationDtype;
  /** Where packed weights are kept for the next start; undefined = nowhere. */
  readonly packCache: PackCacheOptions | undefined;
  /** Attention reads blocks that several sequences begin with once per step; false: once per sequence, with the same results. */
  readonly shareKvReads: boolean;
}

/** What people who wait for a model hear. */
export interface LoadReport {
  /** fraction from 0 to 1 */
  progress(stage: string, fraction?: number): void;
  /** Something that works, but not as well as it should. */
  note(text: string): void;
}

/** A model's matrices. */
export interface WeightSet {
  /** What people call the model. */
  readonly name: string;
  /** The files that the values depend on: what a backend makes of them may be kept for the next start. None: nothing is kept. */
  readonly files: readonly string[];
  /** Of all of the model, as it is stored. */
  readonly numBytes: number;
  readonly source: MatrixSource;
  readonly matrices: readonly MatrixSpec[];
}

/** The left operands of products, whose kernels may want rows in a form of their own. */
export interface ProductInputs {
  /**
   * Records what prepares x [numRows, cols] for products with `weights`.
   * @returns for each of them the buffer that `linear` and `gatedLinear` take as x, until other rows of as many columns are prepared
   */
  prepare(
    program: Program,
    x: BufferHandle,
    weights: readonly WeightHandle[],
    numRows: number,
    cols: number,
  ): readonly BufferHandle[];
}

/** Bytes of stored K and V, counted since the backend was created. */
export interface KvBytes {
  /** What attention read. */
  readonly read: number;
  /** What it would have read had no sequence shared its reads with another. */
  readonly unshared: number;
}

/** What people are told about a backend. */
export interface BackendDescription {
  readonly isa: string;
  readonly numThreads: number;
}

export interface HostArrays {
  readonly i32: Int32Array;
  readonly f32: Float32Array;
  readonly f64: Float64Array;
}

/** A buffer that operations name, with the host's copy of it. */
export interface HostBuffer<Type extends keyof HostArrays> {
  readonly buffer: BufferHandle;
  readonly values: HostArrays[Type];
}

/** Belongs to one JavaScript thread. */
export interface Backend {
  readonly description: BackendDescription;
  /** Memory for KV caches: what is free beside the weights placed so far. */
  freeBytes(): number;
  /** Stored bytes of one token's key (or value) of one head. */
  kvEntryBytes(kvType: KvType, headDim: number): number;
  /** A block of a KV cache has a multiple of so many entries. */
  readonly kvBlockMultiple: number;
  /** Numbers of rows, ascending from 1, at which the time of a step changes its slope: the engine measures steps of these sizes. */
  readonly stepCostRows: readonly number[];
  /** Zeroed memory. Throws `out_of_memory`. */
  allocate(byteLength: number): BufferHandle;
  /**
   * A buffer that operations read. The host fills `values`, zeros at first, before it submits a program; it leaves them alone until that has
   * ended.
   */
  input<Type extends keyof HostArrays>(type: Type, length: number): HostBuffer<Type>;
  /** A buffer that operations write. `values` are there once a program has ended, until the next one is submitted. */
  output<Type extends keyof HostArrays>(type: Type, length: number): HostBuffer<Type>;
  release(buffer: BufferHandle): void;
  /** Copies bytes out of a buffer into `target`. Rejects with `kernels_argument` when they do not all lie inside. */
  read(buffer: BufferHandle, byteOffset: number, target: ArrayBufferView): Promise<void>;
  /** Copies `source` into a buffer; the host may change it at once. Throws `kernels_argument` when it does not fit there. */
  write(buffer: BufferHandle, byteOffset: number, source: ArrayBufferView): void;
  /**
   * Runs a program and resolves when it has ended. Rejects with `kernels_argument` when the program is malformed; then nothing ran. Rejects with
   * `model_file_changed` when a part of a model's file is not there any more; then nothing that it computed is of use.
   */
  submit(program: Program): Promise<void>;
  /** Every matrix in turn as operations take it, laid out as products are fastest with. Rejects with what the source throws. */
  place(weights: WeightSet, report: LoadReport): Promise<readonly WeightHandle[]>;
  /** @param maxRows of any product */
  productInputs(maxRows: number): ProductInputs;
  /** Throws `model_file_changed` when a file that weights are read from is not what it was. Looks once a second at most. */
  checkFiles(nowMs: number): void;
  /** Does a piece of the work that can wait; true when there is more. Throws `model_file_changed` and `pack_damaged`. */
  tidy(): boolean;
  kvBytes(): KvBytes;
  destroy(): void;
}
