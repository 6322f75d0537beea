/** Watches over the files that an engine has mapped: whoever changes them under it would change its answers. */

import type { FileHandle, KernelDevice } from "../backend/cpu/kernels.js";
import type { PackCheck } from "../backend/cpu/packs/pack-check.js";
import { WatchedFile } from "./watched-file.js";

/** Between two looks at sizes and dates, which take a system call for each file. */
const LOOK_EVERY_MS = 1000;

export class FileWatch {
  /** Other starts set the date of a pack that they use. */
  readonly #packs: FileHandle[] = [];
  readonly #checks: PackCheck[] = [];
  #models: readonly WatchedFile[] = [];
  #unsummed: WatchedFile[] = [];
  #lastLookMs = Number.NEGATIVE_INFINITY;

  /** @param check of a pack that is used before all of it has been looked at; undefined: all of it has */
  addPack(file: FileHandle, check: PackCheck | undefined): void {
    this.#packs.push(file);
    if (check !== undefined) this.#checks.push(check);
  }

  /** The models' files, after they are loaded. Throws model_file_changed when one is not what it was when it was mapped. */
  addModels(device: KernelDevice): void {
    const mapped = device.mappedFiles().filter(({ file }) => !this.#packs.includes(file));
    this.#models = mapped.flatMap((each) => {
      try {
        return [new WatchedFile(device, each)];
      } catch {
        // It was removed or moved: its date is all there is to go by, which `device` knows.
        return [];
      }
    });
    // The dates that the watched files have from now on are those of when they were mapped.
    device.requireUnchanged(this.#packs);
    this.#unsummed = [...this.#models];
  }

  /** Throws model_file_changed when a file is not what it was. */
  look(device: KernelDevice, nowMs: number): void {
    if (nowMs - this.#lastLookMs < LOOK_EVERY_MS) return;
    this.#lastLookMs = nowMs;
    // A file that is cut off has lost pages that must not be summed, so sizes come first.
    device.requireUnchanged([...this.#packs, ...this.#models.map(({ file }) => file)]);
    for (const model of this.#models) model.look();
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
