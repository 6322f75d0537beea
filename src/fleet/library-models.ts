/** Finds models on the disk that are served without an entry in the file, whichever process pulled or removed them. */
import type { ModelLibrary, ServableModel } from "../core/model-library.js";
import type { AppliedConfig } from "./applied-config.js";

/** Time between two looks. */
const PAUSE_MS = 5000;

export class LibraryModels {
  #dueMs = 0;

  constructor(
    private readonly library: ModelLibrary | undefined,
    private readonly applied: AppliedConfig,
  ) {}

  /** Empty unless the configuration serves the library. */
  async found(): Promise<readonly ServableModel[]> {
    return this.applied.config.serveLibrary ? ((await this.library?.servable()) ?? []) : [];
  }

  isDue(): boolean {
    return this.applied.config.serveLibrary && performance.now() >= this.#dueMs;
  }

  async look(): Promise<void> {
    this.#dueMs = Number.POSITIVE_INFINITY;
    try {
      await this.applied.serveOnDemand(() => this.found());
    } finally {
      this.#dueMs = performance.now() + PAUSE_MS;
    }
  }
}
