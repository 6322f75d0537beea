/** Detects whether a mapped model file still has the contents it was loaded with, even if its date has changed. */
import { closeSync, fstatSync, openSync } from "node:fs";
import { MillraceError } from "../../core/errors.js";
import { type FilePart, samplesOf } from "../../core/file-samples.js";
import type { FileHandle, KernelDevice } from "./library/kernels.js";
import { FILE_CHANGED_HINT } from "./library/load.js";
import { PIECE_BYTES } from "./packs/pieces.js";

export interface MappedFile {
  readonly file: FileHandle;
  readonly path: string;
  /** The ranges that weights read directly from the mapping. */
  readonly parts: readonly FilePart[];
}

/**
 * A write and a `touch` set the same date, so only the contents tell them apart. Every byte that weights read directly
 * from the mapping is compared; answers depend on no other byte of the file, since the rest was copied or packed when
 * the model was loaded. Samples of the whole file are compared too, so that copying another model over it is noticed
 * even if both share the mapped weights.
 *
 * Reference checksums are computed piece by piece after the start. They are valid because after each piece the file
 * still has its date from the start. Until all are known, a write cannot be told from a `touch`, so either ends the
 * engine.
 */
export class WatchedFile {
  readonly file: FileHandle;
  readonly #path: string;
  readonly #descriptor: number;
  readonly #pieces: readonly FilePart[];
  readonly #sums: string[] = [];
  #dateNs: bigint;

  /** Throws the file system's errors as they are. */
  constructor(
    private readonly device: KernelDevice,
    { file, path, parts }: MappedFile,
  ) {
    this.file = file;
    this.#path = path;
    // The descriptor keeps referring to the mapped file, even if another file is moved to this path.
    this.#descriptor = openSync(path, "r");
    const { size, mtimeNs } = fstatSync(this.#descriptor, { bigint: true });
    this.#dateNs = mtimeNs;
    this.#pieces = [...parts, ...samplesOf(Number(size))].flatMap(piecesOf);
  }

  /** Sums about PIECE_BYTES more of the file; returns false once all is summed. Throws model_file_changed. */
  step(): boolean {
    for (let numBytes = 0; numBytes < PIECE_BYTES && !this.#isKnown; ) {
      const piece = this.#pieces[this.#sums.length]!;
      this.#sums.push(this.#sum(piece));
      numBytes += piece.byteLength;
    }
    if (this.#date() !== this.#dateNs) throw this.#changed();
    return !this.#isKnown;
  }

  /**
   * Throws model_file_changed if the file has a new date and its contents differ, or cannot be compared yet. The
   * comparison runs to the end on the engine's thread, at the speed of memory, since a step in between could mix
   * weights of two models. It costs nothing without a new date.
   */
  look(): void {
    const dateNs = this.#date();
    if (dateNs === this.#dateNs) return;
    const isSame = this.#isKnown && this.#pieces.every((piece, index) => this.#sum(piece) === this.#sums[index]);
    if (!isSame) throw this.#changed();
    // Keep the date from before the comparison, so that the next look finds writes made during it.
    this.#dateNs = dateNs;
  }

  close(): void {
    closeSync(this.#descriptor);
  }

  get #isKnown(): boolean {
    return this.#sums.length === this.#pieces.length;
  }

  #date(): bigint {
    return fstatSync(this.#descriptor, { bigint: true }).mtimeNs;
  }

  #sum({ byteOffset, byteLength }: FilePart): string {
    return this.device.checksum(this.file, byteOffset, byteLength);
  }

  #changed(): MillraceError {
    const message = `expected ${this.#path} to stay unchanged while it is in use, got one that was written to`;
    return new MillraceError("model_file_changed", message, { hint: FILE_CHANGED_HINT });
  }
}

function piecesOf({ byteOffset, byteLength }: FilePart): readonly FilePart[] {
  const pieces: FilePart[] = [];
  for (let at = 0; at < byteLength; at += PIECE_BYTES) {
    pieces.push({ byteOffset: byteOffset + at, byteLength: Math.min(PIECE_BYTES, byteLength - at) });
  }
  return pieces;
}
