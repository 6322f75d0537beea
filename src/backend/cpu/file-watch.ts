/**
 * Watches the files that weights are mapped from: a change to a mapped file would silently change the engine's answers.
 */

import type { FileHandle, KernelDevice } from "./library/kernels.js";
import type { PackCheck } from "./packs/pack-check.js";
import { type MappedFile, WatchedFile } from "./watched-file.js";

/** Interval between checks of sizes and dates, each of which costs a system call per file. */
const LOOK_EVERY_MS = 1000;

export class FileWatch {
  /** Mapped packs. Their dates say nothing: every start that uses a pack sets its date. */
  readonly #packs: FileHandle[] = [];
  readonly #checks: PackCheck[] = [];
  readonly #models: WatchedFile[] = [];
  /** Model files whose checksums are not complete yet. */
  readonly #unsummed: WatchedFile[] = [];
  #lastLookMs = Number.NEGATIVE_INFINITY;

  constructor(private readonly device: KernelDevice) {}

  /** @param check the integrity check to finish in the background; undefined if the pack is already verified */
  addPack(file: FileHandle, check: PackCheck | undefined): void {
    this.#packs.push(file);
    if (check !== undefined) this.#checks.push(check);
  }

  /**
   * Watches a model's files; call it once the weights are placed. Throws model_file_changed if a file changed since it
   * was mapped.
   */
  addModel(files: readonly MappedFile[]): void {
    const known = this.#withIgnoredDates();
    for (const file of files) {
      try {
        const watched = new WatchedFile(this.device, file);
        this.#models.push(watched);
        this.#unsummed.push(watched);
      } catch {
        // The file was removed or moved. Only its date can be checked then, by `device.requireUnchanged`.
      }
    }
    // Confirms that the dates just recorded in the watched files are still those from mapping.
    this.device.requireUnchanged(known);
  }

  /** Throws model_file_changed if a file has changed. */
  look(nowMs: number): void {
    if (nowMs - this.#lastLookMs < LOOK_EVERY_MS) return;
    this.#lastLookMs = nowMs;
    // Check sizes first: reading the lost pages of a truncated file would crash.
    this.device.requireUnchanged(this.#withIgnoredDates());
    for (const model of this.#models) model.look();
  }

  /** Files whose date `device` must ignore: it means nothing for packs, and `WatchedFile` checks it for models. */
  #withIgnoredDates(): readonly FileHandle[] {
    return [...this.#packs, ...this.#models.map(({ file }) => file)];
  }

  /**
   * Sums or verifies the next piece of a file; returns true while more remains. Throws pack_damaged and
   * model_file_changed.
   */
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
