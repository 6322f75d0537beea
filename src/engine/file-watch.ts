/** Watches over the files that an engine has mapped: whoever changes them under it would change its answers. */
import type { Device, FileHandle } from "../kernels/kernels.js";
import type { PackCheck } from "./packs/pack-check.js";

/** Between two looks at sizes and dates, which take a system call for each file. */
const LOOK_EVERY_MS = 1000;

export class FileWatch {
  /** Other starts set the date of a pack that they use. */
  readonly #packs: FileHandle[] = [];
  readonly #checks: PackCheck[] = [];
  #lastLookMs = Number.NEGATIVE_INFINITY;

  /** @param check of a pack that is used before all of it has been looked at; undefined: all of it has */
  addPack(file: FileHandle, check: PackCheck | undefined): void {
    this.#packs.push(file);
    if (check !== undefined) this.#checks.push(check);
  }

  /** Throws model_file_changed when a file is not what it was. */
  look(device: Device, nowMs: number): void {
    if (nowMs - this.#lastLookMs < LOOK_EVERY_MS) return;
    this.#lastLookMs = nowMs;
    device.requireUnchanged(this.#packs);
  }

  /** Looks at a piece of what nobody has looked at yet; true when there is more. Throws pack_damaged. */
  tidy(): boolean {
    const [check] = this.#checks;
    if (check?.step() === false) this.#checks.shift();
    return this.#checks.length > 0;
  }
}
