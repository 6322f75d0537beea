/** The CPU as a backend: kernel threads, and memory that host and kernels share. */
import type { Backend, BackendDescription } from "../backend.js";
import type { BufferHandle } from "../handles.js";
import type { DeviceOptions, KernelDevice, KvBytes } from "./kernels.js";
import { loadKernels } from "./load.js";

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

  release(buffer: BufferHandle): void {
    this.kernels.release(buffer);
  }

  read(buffer: BufferHandle, byteOffset: number, target: Uint8Array): void {
    this.kernels.read(buffer, byteOffset, target);
  }

  write(buffer: BufferHandle, byteOffset: number, source: Uint8Array): void {
    this.kernels.write(buffer, byteOffset, source);
  }

  submit(program: Float64Array, numWords: number): void {
    this.kernels.submit(program, numWords);
  }

  kvBytes(): KvBytes {
    return this.kernels.kvBytes();
  }

  destroy(): void {
    this.kernels.destroy();
  }
}
