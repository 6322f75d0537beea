/** The CPU as a backend: kernel threads, the calling one among them, in memory that the host sees. A program has run when `submit` returns. */
import type { Backend, BackendDescription, HostArrays, HostBuffer } from "../backend.js";
import type { BufferHandle } from "../handles.js";
import type { Program } from "../program.js";
import type { DeviceOptions, KernelDevice, KvBytes } from "./kernels.js";
import { loadKernels } from "./load.js";

const ARRAYS = { i32: Int32Array, f32: Float32Array, f64: Float64Array };

/** Throws `kernels_missing` and `kernels_isa`. */
export function createCpuBackend(options: DeviceOptions): CpuBackend {
  return new CpuBackend(loadKernels().createDevice(options));
}

export class CpuBackend implements Backend {
  readonly description: BackendDescription;

  constructor(readonly kernels: KernelDevice) {
    const { isa, numThreads } = kernels;
    this.description = { isa, numThreads };
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

  kvBytes(): KvBytes {
    return this.kernels.kvBytes();
  }

  destroy(): void {
    this.kernels.destroy();
  }
}

const bytesOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);
