/** Looks at every byte of a mapped pack, a piece at a time: what a failing disk or a careless program did to it is not computed with for long. */
import { createHash } from "node:crypto";
import { rmSync } from "node:fs";
import { MillraceError } from "../../../core/errors.js";
import type { FileHandle, KernelDevice } from "../library/kernels.js";
import { packedByteLength } from "../library/packing.js";
import type { FoundPack } from "./pack-cache.js";
import type { PackedMatrix } from "./pack-file.js";
import { pieces } from "./pieces.js";

/** The sum of a matrix, of the sums of its pieces in turn. */
export function matrixSum(pieceSums: readonly string[]): string {
  return createHash("sha256").update(pieceSums.join(" ")).digest("hex").slice(0, 32);
}

export class PackCheck {
  readonly #looking: Generator<void, void>;

  constructor(
    private readonly device: KernelDevice,
    readonly file: FileHandle,
    private readonly pack: FoundPack,
  ) {
    this.#looking = this.#lookAtAll();
  }

  /** Looks at the next piece; false when all have been looked at. Throws pack_damaged, after which the pack is gone, and model_file_changed. */
  step(): boolean {
    return this.#looking.next().done !== true;
  }

  *#lookAtAll(): Generator<void, void> {
    for (const matrix of this.pack.table.matrices) {
      if (matrix.byteOffset !== undefined) yield* this.#lookAt(matrix, matrix.byteOffset);
    }
  }

  *#lookAt({ name, type, rows, cols, sum }: PackedMatrix, byteOffset: number): Generator<void, void> {
    const sums: string[] = [];
    let at = byteOffset;
    for (const [, numRows] of pieces(type, rows, cols)) {
      const numBytes = packedByteLength(type, numRows, cols)!;
      sums.push(this.device.checksum(this.file, at, numBytes));
      at += numBytes;
      yield;
    }
    if (matrixSum(sums) === sum) return;
    const { path } = this.pack;
    rmSync(path, { force: true });
    throw new MillraceError("pack_damaged", `expected ${path} to hold what was written into it, got another ${name}`, {
      hint: "It has been removed: the next start packs the model anew. If this happens again, check the disk.",
    });
  }
}
