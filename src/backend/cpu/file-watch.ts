/** Watches over the files that weights are mapped from: a file that somebody changes under the engine would change its answers. */

import type { FileHandle, KernelDevice } from "./library/kernels.js";
import type { PackCheck } from "./packs/pack-check.js";
import { type MappedFile, WatchedFile } from "./watched-file.js";

/** Between two looks at sizes and dates, which take a system call for each file. */
const LOOK_EVERY_MS = 1000;

export class FileWatch {
  /** Other starts set the date of a pack that they use. */
  readonly #packs: FileHandle[] = [];
  readonly #checks: PackCheck[] = [];
  readonly #models: WatchedFile[] = [];
  readonly #unsummed: WatchedFile[] = [];
  #lastLookMs = Number.NEGATIVE_INFINITY;

  constructor(private readonly device: KernelDevice) {}

  /** @param check of a pack that is used before all of it has been looked at; undefined: all of it has */
  addPack(file: FileHandle, check: PackCheck | undefined): void {
    this.#packs.push(file);
    if (check !== undefined) this.#checks.push(check);
  }

  /** A model's files, after its weights are placed. Throws model_file_changed when one is not what it was when it was mapped. */
  addModel(files: readonly MappedFile[]): void {
    const known = this.#ofOwnDates();
    for (const file of files) {
      try {
        const watched = new WatchedFile(this.device, file);
        this.#models.push(watched);
        this.#unsummed.push(watched);
      } catch {
        // It was removed or moved: its date is all there is to go by, which `device` knows.
      }
    }
    // The dates that the watched files have from now on are those of when they were mapped.
    this.device.requireUnchanged(known);
  }

  /** Throws model_file_changed when a file is not what it was. */
  look(nowMs: number): void {
    if (nowMs - this.#lastLookMs < LOOK_EVERY_MS) return;
    this.#lastLookMs = nowMs;
    // A file that is cut off has lost pages that must not be summed, so sizes come first.
    this.device.requireUnchanged(this.#ofOwnDates());
    for (const model of this.#models) model.look();
  }

  /** Those whose dates say nothing, or are looked at here. */
  #ofOwnDates(): readonly FileHandle[] {
    return [...this.#packs, ...this.#models.map(({ file }) => file)];
  }

  /** Looks at a piece of what nobody has looked at yet; true when there is more. Throws pack_damaged and model_file_changed. */
  tidy(): boolean {
    const [model] = this.#unsummed;
    if (model !== undefined) {
      if (!model.step()) this.#unsummed.shift();
      return this.#unsummed.length + this.#checks.length > 0;
    }
    const [check] = this.#checks;
    if (check?.step() === false) this.#checks.shift();
    return this.#checks.length > 0;
  }

  close(): void {
    for (const model of this.#models) model.close();
  }
}
