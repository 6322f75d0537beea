/**
 * The CPU backend: native kernel threads, the calling thread among them, on memory that the host can address. `submit`
 * returns only after the program has run.
 */
import { availableMemory } from "../../core/available-memory.js";
import { formatBytes } from "../../core/quantities.js";
import type {
  AnyWeight,
  Backend,
  BackendDescription,
  BackendOptions,
  HostArrays,
  HostBuffer,
  KvBytes,
  LoadReport,
  ProductInputs,
  WeightSet,
} from "../backend.js";
import type { BufferHandle, WeightHandle, WeightStackHandle } from "../handles.js";
import { type ActivationFormat, KV_OCTET, type KvType } from "../ops.js";
import { kvEntryBytes, type Program } from "../program.js";
import { FileWatch } from "./file-watch.js";
import type { Isa, KernelDevice } from "./library/kernels.js";
import { loadKernels } from "./library/load.js";
import { PackCache } from "./packs/pack-cache.js";
import { RoundedInputs } from "./product-inputs.js";
import { WeightPacker } from "./weight-packer.js";

type CpuOptions = Pick<BackendOptions, "numThreads"> &
  Partial<BackendOptions> & {
    /** Forces an instruction set. */
    readonly isa?: Isa;
    /** Bytes of memory left for the model; absent: as the machine says. */
    readonly freeBytes?: number;
  };

/**
 * Share of the memory that is left beside mapped weights, however large they are: mapped pages give way to other
 * memory.
 */
const SHARE_BESIDE_MAPPED = 1 / 4;

const ARRAYS = { i32: Int32Array, f32: Float32Array, f64: Float64Array };

/** Throws `kernels_missing`, `kernels_isa`, and, when the OS rejects a CPU of `cpuAffinity`, `kernels_argument`. */
export function createCpuBackend(options: CpuOptions): CpuBackend {
  const { numThreads, isa, cpuAffinity, shareKvReads, packCache, activationDtype = "auto" } = options;
  const library = loadKernels();
  const device = library.createDevice({
    numThreads,
    ...(isa === undefined ? {} : { isa }),
    ...(shareKvReads === undefined ? {} : { sharesKvReads: shareKvReads }),
  });
  if (cpuAffinity !== undefined) device.pinThreads(cpuAffinity);
  const cache = packCache && new PackCache(packCache, library.packedLayoutVersion());
  return new CpuBackend(device, { activationDtype, cache }, options.freeBytes ?? availableMemory());
}

interface Packing {
  readonly activationDtype: BackendOptions["activationDtype"];
  readonly cache: PackCache | undefined;
}

class CpuBackend implements Backend {
  readonly description: BackendDescription;
  readonly kvBlockMultiple = KV_OCTET;
  /**
   * From nine rows on, kernels read weights more than once or unpack them first (native/cpu/kernels/linear_packed.cc):
   * a jump in the cost.
   */
  readonly stepCostRows = [1, 2, 4, 8, 9, 16, 32];
  readonly #files: FileWatch;
  /** Activation format that each packed weight, or stack of them, needs. */
  readonly #formats = new Map<AnyWeight, ActivationFormat>();
  #freeBytes: number;

  constructor(
    private readonly kernels: KernelDevice,
    private readonly packing: Packing,
    freeBytes: number,
  ) {
    this.#freeBytes = freeBytes;
    const { isa, numThreads } = kernels;
    this.description = { isa, numThreads };
    this.#files = new FileWatch(kernels);
  }

  freeBytes(): number {
    return this.#freeBytes;
  }

  kvEntryBytes(kvType: KvType, headDim: number): number {
    return kvEntryBytes(kvType, headDim);
  }

  allocate(byteLength: number): BufferHandle {
    return this.kernels.allocate(byteLength);
  }

  input<Type extends keyof HostArrays>(type: Type, length: number): HostBuffer<Type> {
    const buffer = this.kernels.allocate(Math.max(1, length) * ARRAYS[type].BYTES_PER_ELEMENT);
    const values = new ARRAYS[type](this.kernels.view(buffer), 0, length);
    return { buffer, values: values as HostArrays[Type] };
  }

  output<Type extends keyof HostArrays>(type: Type, length: number): HostBuffer<Type> {
    return this.input(type, length);
  }

  release(buffer: BufferHandle): void {
    this.kernels.release(buffer);
  }

  async read(buffer: BufferHandle, byteOffset: number, target: ArrayBufferView): Promise<void> {
    this.kernels.read(buffer, byteOffset, bytesOf(target));
  }

  write(buffer: BufferHandle, byteOffset: number, source: ArrayBufferView): void {
    this.kernels.write(buffer, byteOffset, bytesOf(source));
  }

  async submit({ words, numWords }: Program): Promise<void> {
    this.kernels.submit(words, numWords);
  }

  async place(weights: WeightSet, report: LoadReport): Promise<readonly WeightHandle[]> {
    const freeBytes = this.#freeBytes;
    const packer = new WeightPacker(
      this.kernels,
      weights,
      { ...this.packing, report, freeBytes },
      this.#files,
      this.#formats,
    );
    const placed = packer.place();
    if (packer.numMappedBytes > freeBytes) {
      const [size, left] = [packer.numMappedBytes, Math.max(0, freeBytes)].map(formatBytes);
      report.note(
        `the weights (${size}) are larger than the memory that is left (${left}): each step reads from disk what it needs and memory does not hold`,
      );
    }
    const numLeft = freeBytes - packer.numOwnBytes;
    this.#freeBytes = Math.max(numLeft - packer.numMappedBytes, Math.floor(numLeft * SHARE_BESIDE_MAPPED));
    return placed;
  }

  stack(weights: readonly WeightHandle[]): WeightStackHandle {
    const stack = this.kernels.createWeightStack(weights);
    const format = this.#formats.get(weights[0]!);
    if (format !== undefined) this.#formats.set(stack, format);
    return stack;
  }

  productInputs(maxRows: number): ProductInputs {
    return new RoundedInputs(this.kernels, this.#formats, maxRows);
  }

  checkFiles(nowMs: number): void {
    this.#files.look(nowMs);
  }

  tidy(): boolean {
    return this.#files.tidy();
  }

  kvBytes(): KvBytes {
    return this.kernels.kvBytes();
  }

  destroy(): void {
    this.#files.close();
    this.kernels.destroy();
  }
}

const bytesOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);
