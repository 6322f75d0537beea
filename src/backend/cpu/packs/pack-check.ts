/** Verifies a mapped pack piece by piece, so that damage by a failing disk or another program is soon found. */
import { createHash } from "node:crypto";
import { rmSync } from "node:fs";
import { MillraceError } from "../../../core/errors.js";
import type { FileHandle, KernelDevice } from "../library/kernels.js";
import { packedByteLength } from "../library/packing.js";
import type { FoundPack } from "./pack-cache.js";
import type { PackedMatrix } from "./pack-file.js";
import { pieces } from "./pieces.js";

/** Checksum of a matrix, derived from the checksums of its pieces in order. */
export function matrixSum(pieceSums: readonly string[]): string {
  return createHash("sha256").update(pieceSums.join(" ")).digest("hex").slice(0, 32);
}

export class PackCheck {
  readonly #verification: Generator<void, void>;

  constructor(
    private readonly device: KernelDevice,
    readonly file: FileHandle,
    private readonly pack: FoundPack,
  ) {
    this.#verification = this.#verifyAll();
  }

  /**
   * Verifies the next piece; returns false once all are verified. Throws pack_damaged, having removed the pack, and
   * model_file_changed.
   */
  step(): boolean {
    return this.#verification.next().done !== true;
  }

  *#verifyAll(): Generator<void, void> {
    for (const matrix of this.pack.table.matrices) {
      if (matrix.byteOffset !== undefined) yield* this.#verify(matrix, matrix.byteOffset);
    }
  }

  *#verify({ name, type, rows, cols, sum }: PackedMatrix, byteOffset: number): Generator<void, void> {
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
    throw new MillraceError(
      "pack_damaged",
      `expected ${path} to hold the bytes written to it, got a different ${name}`,
      {
        hint: "The pack has been removed; the next start packs the model again. If this happens again, check the disk.",
      },
    );
  }
}
