/**
 * The interface of the native CPU kernels: memory, mapped files, weights, and one `submit()` that runs a recorded
 * program. `load.ts` loads the addon; `cpu-backend.ts` builds the backend on it.
 */
import type { WeightType } from "../../../formats/dequantize.js";
import type { KvBytes } from "../../backend.js";
import type { BufferHandle, WeightHandle, WeightStackHandle } from "../../handles.js";
import type { ActivationFormat } from "../../ops.js";

/** Handle of a file mapped read-only. */
export type FileHandle = number & { readonly __file: unique symbol };

export type Isa = "portable" | "avx2" | "avx512" | "avx512vnni" | "avx512bf16" | "amx" | "neon" | "neondot";

export interface DeviceOptions {
  /** Number of compute threads including the calling one; at least 1. */
  readonly numThreads: number;
  /** Forces an instruction set; the default is `MILLRACE_ISA`, else the best that the CPU supports. */
  readonly isa?: Isa;
  /**
   * Read the KV blocks of a common prefix once per step (default); false: once per sequence, to measure the difference.
   */
  readonly sharesKvReads?: boolean;
}

/** A pool of kernel threads with its memory. Calls are synchronous and must come from one JavaScript thread. */
export interface KernelDevice {
  readonly isa: Isa;
  readonly numThreads: number;
  /** Allocates zeroed, 64-byte aligned memory, which the OS commits on first use. Throws `out_of_memory`. */
  allocate(byteLength: number): BufferHandle;
  /**
   * The host's view of a buffer of at most 4 GiB: for step inputs and results, not for tensors. `release` and `destroy`
   * detach it.
   */
  view(buffer: BufferHandle): ArrayBuffer;
  /** Fills `target` with bytes of a buffer of any size. Throws `kernels_argument` if the range exceeds the buffer. */
  read(buffer: BufferHandle, byteOffset: number, target: Uint8Array): void;
  /** Copies `source` into a buffer of any size. Throws `kernels_argument` if the range exceeds the buffer. */
  write(buffer: BufferHandle, byteOffset: number, source: Uint8Array): void;
  release(buffer: BufferHandle): void;
  /** Maps a file read-only. Throws `file_unreadable`. */
  mapFile(path: string): FileHandle;
  unmapFile(file: FileHandle): void;
  /**
   * Hints that the full pages of `file` inside the range no longer count as this process's memory; touching them reads
   * them again.
   * @param isEvicted whether the OS may drop them from its page cache too
   */
  releasePages(file: FileHandle, byteOffset: number, byteLength: number, isEvicted: boolean): void;
  /** Hints that the whole file is about to be read repeatedly. */
  prefetch(file: FileHandle): void;
  /**
   * Checksum in 16 hexadecimal digits (native/cpu/runtime/checksum.h). Throws `kernels_argument` if the range exceeds
   * `source`.
   */
  checksum(source: FileHandle | BufferHandle, byteOffset: number, byteLength: number): string;
  /**
   * Throws `model_file_changed` if the size or the date of a mapped file is not what it was when the file was mapped.
   * @param shared files of which only the size is checked
   */
  requireUnchanged(shared: readonly FileHandle[]): void;
  /**
   * Pins kernel thread i to CPU cpus[i % cpus.length]. The calling thread, number 0, is confined to the whole list,
   * because threads that it starts later inherit its affinity. Throws `kernels_argument` if the OS rejects a CPU.
   */
  pinThreads(cpus: readonly number[]): void;
  /**
   * Declares a matrix [rows, cols] of `type` that starts `byteOffset` bytes into `source`. Values are row-major, or, if
   * `isPacked`, in the layout that the operation `pack` writes. Throws `kernels_argument` if the matrix exceeds
   * `source`.
   */
  createWeight(
    source: FileHandle | BufferHandle,
    byteOffset: number,
    type: WeightType,
    rows: number,
    cols: number,
    isPacked?: boolean,
  ): WeightHandle;
  /**
   * Declares weights of one type and shape as one operand, such as a matrix of every expert. Throws `kernels_argument`
   * where they differ.
   */
  createWeightStack(weights: readonly WeightHandle[]): WeightStackHandle;
  releaseWeight(weight: WeightHandle): void;
  /**
   * Runs the first `numWords` words of `program` (see program.ts) and returns when it has ended. Throws
   * `kernels_argument` for a malformed program, of which no operation ran. Throws `model_file_changed` if it read a
   * truncated part of a mapped file; all its results are invalid.
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
  /** BF16, and VBMI and VNNI */
  readonly avx512bf16: boolean;
  /** TILE, BF16 and INT8, and avx512bf16 */
  readonly amx: boolean;
  readonly neon: boolean;
  readonly dotprod: boolean;
}

/** How a type is packed. */
interface PackedForm {
  /** Format of the activations that a packed weight is multiplied with. */
  readonly activations: ActivationFormat;
  /** Rows that are interleaved. The last group of a matrix is filled up with zeros. */
  readonly groupRows: number;
  /** Columns of a cell: a packed matrix has a multiple of them. */
  readonly cellCols: number;
}

/** The addon's exports. The geometry of packed weights stands in native/cpu/kernels/packed.h alone. */
export interface KernelLibrary {
  createDevice(options: DeviceOptions): KernelDevice;
  cpuFeatures(): CpuFeatures;
  /**
   * `add(out, x, numRows, width)` and so on in the order of opcodes, to check that both sides of the boundary agree.
   */
  opSignatures(): readonly string[];
  /** Version of the layout that the operation `pack` writes: a pack of another version is of no use. */
  packedLayoutVersion(): number;
  /** undefined where the type has no packed form. */
  packedForm(type: WeightType): PackedForm | undefined;
  /** Bytes of a packed matrix; cols is a multiple of the type's cell. undefined where the type has no packed form. */
  packedByteLength(type: WeightType, rows: number, cols: number): number | undefined;
  /** Bytes from one row of `cols` activations to the next. */
  activationRowBytes(format: ActivationFormat, cols: number): number;
}
