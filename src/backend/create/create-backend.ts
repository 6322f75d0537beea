/** The one place that decides which backend computes. Everything outside `src/backend` knows it as a `Backend`. */
import type { Backend, BackendOptions } from "../backend.js";
import { createCpuBackend } from "../cpu/cpu-backend.js";
import { loadKernels } from "../cpu/library/load.js";
import { PackCache } from "../cpu/packs/pack-cache.js";

export type { CachedPack, PackCache } from "../cpu/packs/pack-cache.js";

/** Throws `kernels_missing`, `kernels_isa`, and `kernels_argument` for CPUs that the OS refuses. */
export function createBackend(options: Pick<BackendOptions, "numThreads"> & Partial<BackendOptions>): Backend {
  return createCpuBackend(options);
}

/** What the backend has kept in `folder` for later starts, to be listed and removed. Throws `kernels_missing`. */
export function openPackCache(folder: string): PackCache {
  return new PackCache({ folder, maxBytes: 0 }, loadKernels().packedLayoutVersion());
}
