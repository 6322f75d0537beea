/** What the engine asks of a device: memory, and recorded programs of operations that run in it. */
import type { KernelDevice, KvBytes } from "./cpu/kernels.js";
import type { BufferHandle } from "./handles.js";

/** What people are told about a backend. */
export interface BackendDescription {
  readonly isa: string;
  readonly numThreads: number;
}

/** Belongs to one JavaScript thread. */
export interface Backend {
  readonly description: BackendDescription;
  /** Zeroed memory. Throws `out_of_memory`. */
  allocate(byteLength: number): BufferHandle;
  release(buffer: BufferHandle): void;
  /** Copies target.length bytes out of a buffer. Throws `kernels_argument` when they do not all lie inside. */
  read(buffer: BufferHandle, byteOffset: number, target: Uint8Array): void;
  /** Copies all of `source` into a buffer. Throws `kernels_argument` when it does not fit there. */
  write(buffer: BufferHandle, byteOffset: number, source: Uint8Array): void;
  /** Runs the first `numWords` words of `program` (see program.ts) to the end. */
  submit(program: Float64Array, numWords: number): void;
  kvBytes(): KvBytes;
  /** The CPU's own surface, for code that is still to move behind this interface. */
  readonly kernels: KernelDevice;
  destroy(): void;
}
