/**
 * The native surface of the CPU's kernels in one file: memory, files, weights and one `submit()` that runs a recorded program of operations.
 * `load.ts` loads the addon; `cpu-backend.ts` is the backend over it.
 */
import type { WeightType } from "../../../formats/dequantize.js";
import type { KvBytes } from "../../backend.js";
import type { BufferHandle, WeightHandle } from "../../handles.js";
import type { ActivationFormat } from "../../ops.js";

/** Handle of a file mapped read-only. */
export type FileHandle = number & { readonly __file: unique symbol };

export type Isa = "portable" | "avx2" | "avx512" | "avx512vnni" | "neon" | "neondot";

export interface DeviceOptions {
  /** Threads that compute, the calling one included; at least 1. */
  readonly numThreads: number;
  /** Forces an instruction set; otherwise `MILLRACE_ISA`, otherwise the best the CPU has. */
  readonly isa?: Isa;
  /** Attention reads blocks that several sequences begin with once per step (default); false: once per sequence, to measure the difference. */
  readonly sharesKvReads?: boolean;
}

/** One pool of kernel threads with its memory. Calls are synchronous and belong to one JavaScript thread. */
export interface KernelDevice {
  readonly isa: Isa;
  readonly numThreads: number;
  /** Zeroed memory, 64-byte aligned, committed by the OS when first touched. Throws `out_of_memory`. */
  allocate(byteLength: number): BufferHandle;
  /** The host's view of a buffer, of 4 GiB at most: for step inputs and results, never for tensors. Detached by `release` and `destroy`. */
  view(buffer: BufferHandle): ArrayBuffer;
  /** Copies target.length bytes out of a buffer of any size. Throws `kernels_argument` when they do not all lie inside. */
  read(buffer: BufferHandle, byteOffset: number, target: Uint8Array): void;
  /** Copies all of `source` into a buffer of any size. Throws `kernels_argument` when it does not fit there. */
  write(buffer: BufferHandle, byteOffset: number, source: Uint8Array): void;
  release(buffer: BufferHandle): void;
  /** Maps a file read-only. Throws `file_unreadable`. */
  mapFile(path: string): FileHandle;
  unmapFile(file: FileHandle): void;
  /**
   * A hint: the whole pages of `file` in the range stop counting as this process's memory, and are read again when touched.
   * `isEvicted`: the OS need not keep them either.
   */
  releasePages(file: FileHandle, byteOffset: number, byteLength: number, isEvicted: boolean): void;
  /** A hint: all of `file` is about to be read, again and again. */
  prefetch(file: FileHandle): void;
  /** 16 hexadecimal digits that change when the bytes do (native/cpu/runtime/checksum.h). Throws `kernels_argument` when they do not all lie inside. */
  checksum(source: FileHandle | BufferHandle, byteOffset: number, byteLength: number): string;
  /**
   * Throws `model_file_changed` when a mapped file has another size than when it was mapped, or was written to.
   * @param shared files whose dates others set: of these, only the size counts
   */
  requireUnchanged(shared: readonly FileHandle[]): void;
  /**
   * Thread i stays on CPU cpus[i % cpus.length], the calling thread, 0, on any of them: threads that it starts later inherit that. Throws
   * `kernels_argument` when the OS refuses one.
   */
  pinThreads(cpus: readonly number[]): void;
  /**
   * A matrix of `rows` × `cols` values of `type` that start `byteOffset` bytes into `source`: row after row, or as the operation `pack` laid
   * them out. Throws `kernels_argument` when it does not fit.
   */
  createWeight(
    source: FileHandle | BufferHandle,
    byteOffset: number,
    type: WeightType,
    rows: number,
    cols: number,
    isPacked?: boolean,
  ): WeightHandle;
  releaseWeight(weight: WeightHandle): void;
  /**
   * Runs the first `numWords` words of `program` (see program.ts) to the end. Throws `kernels_argument` on a malformed program; then nothing ran. Throws
   * `model_file_changed` when it read a part of a mapped file that is not there any more; then nothing that it computed is of use.
   */
  submit(program: Float64Array, numWords: number): void;
  kvBytes(): KvBytes;
  /** Stops the threads and frees everything. */
  destroy(): void;
}

export interface CpuFeatures {
  readonly avx2: boolean;
  readonly fma: boolean;
  readonly f16c: boolean;
  readonly avx512: boolean;
  readonly avx512vnni: boolean;
  readonly neon: boolean;
  readonly dotprod: boolean;
}

/** The addon's exports. The geometry of packed weights stands in native/cpu/kernels/packed.h alone. */
export interface KernelLibrary {
  createDevice(options: DeviceOptions): KernelDevice;
  cpuFeatures(): CpuFeatures;
  /** `add(out, x, numRows, width)` and so on in the order of opcodes, to check that both sides of the boundary agree. */
  opSignatures(): readonly string[];
  /** Version of the layout that the operation `pack` writes: a pack of another version is of no use. */
  packedLayoutVersion(): number;
  /** Format of the activations that a packed weight is multiplied with; undefined where the type has no packed form. */
  packedActivations(type: WeightType): ActivationFormat | undefined;
  /** Bytes of a packed matrix; cols is a multiple of the type's block. undefined where the type has no packed form. */
  packedByteLength(type: WeightType, rows: number, cols: number): number | undefined;
  /** Bytes from one row of `cols` activations to the next. */
  activationRowBytes(format: ActivationFormat, cols: number): number;
}
