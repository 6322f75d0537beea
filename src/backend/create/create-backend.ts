/** Chooses the backend. All code outside `src/backend` sees it only as a `Backend`. */
import type { Backend, BackendOptions, RowEncoder } from "../backend.js";
import { createCpuBackend } from "../cpu/cpu-backend.js";
import { loadKernels } from "../cpu/library/load.js";
import { PackCache } from "../cpu/packs/pack-cache.js";
import { CpuRowEncoder } from "../cpu/row-encoder.js";

export type { CachedPack, PackCache } from "../cpu/packs/pack-cache.js";

/** Throws `kernels_missing`, `kernels_isa`, and, when the OS rejects a CPU of `cpuAffinity`, `kernels_argument`. */
export function createBackend(options: Pick<BackendOptions, "numThreads"> & Partial<BackendOptions>): Backend {
  return createCpuBackend(options);
}

/**
 * Opens the packed weights that the backend keeps in `folder` for later starts, to list and remove them. Throws
 * `kernels_missing`.
 */
export function openPackCache(folder: string): PackCache {
  return new PackCache({ folder, maxBytes: 0 }, loadKernels().packedLayoutVersion());
}

/** Throws `kernels_missing`. */
export const createRowEncoder = (numThreads: number): RowEncoder => new CpuRowEncoder(numThreads);
