/**
 * What the engine asks of a device: memory, and recorded programs of operations that run in it. All calls take effect in the order in which
 * they were made. Host and device share no memory: numbers cross by inputs and outputs, and by read and write.
 */
import type { KernelDevice, KvBytes } from "./cpu/kernels.js";
import type { BufferHandle } from "./handles.js";
import type { Program } from "./program.js";

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
  kvBytes(): KvBytes;
  /** The CPU's own surface, for code that is still to move behind this interface. */
  readonly kernels: KernelDevice;
  destroy(): void;
}
