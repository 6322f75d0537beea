/** One of a model's mapped files: whether it still holds what it held when the model was loaded, whatever its date. */
import { closeSync, fstatSync, openSync } from "node:fs";
import { MillraceError } from "../../core/errors.js";
import type { FileHandle, KernelDevice } from "./library/kernels.js";
import { FILE_CHANGED_HINT } from "./library/load.js";
import { PIECE_BYTES } from "./packs/pieces.js";

/** Bytes of a file. */
export interface FilePart {
  readonly byteOffset: number;
  readonly byteLength: number;
}

export interface MappedFile {
  readonly file: FileHandle;
  readonly path: string;
  /** Those that weights read where they lie. */
  readonly parts: readonly FilePart[];
}

const SAMPLE_BYTES = 4096;
const NUM_SAMPLES = 64;

/**
 * A write and a `touch` set the same date, so only the bytes tell them apart. Compared is every byte that weights read where it lies: answers
 * depend on no other, since all else was copied or packed when the model was loaded. Samples from the whole file are compared as well, so that
 * another model which was copied over the file is noticed even where it shares those weights.
 *
 * The sums to compare with are taken piece by piece after the start. They are believed because the file has the date of the start after each
 * piece: whoever writes to the file before that ends the engine, and so does a `touch` in that time.
 */
export class WatchedFile {
  readonly file: FileHandle;
  readonly #path: string;
  readonly #descriptor: number;
  readonly #pieces: readonly FilePart[];
  readonly #sums: string[] = [];
  #dateNs: bigint;

  /** Throws what the file system throws. */
  constructor(
    private readonly device: KernelDevice,
    { file, path, parts }: MappedFile,
  ) {
    this.file = file;
    this.#path = path;
    // A file that is moved into the place of this one is not the one that is mapped, and changes nothing.
    this.#descriptor = openSync(path, "r");
    const { size, mtimeNs } = fstatSync(this.#descriptor, { bigint: true });
    this.#dateNs = mtimeNs;
    this.#pieces = [...parts, ...samplesOf(Number(size))].flatMap(piecesOf);
  }

  /** Sums about PIECE_BYTES more of the file; false when all is summed. Throws model_file_changed. */
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
   * Throws model_file_changed when the file has another date and other bytes. The engine's thread compares them in one go, at the speed of memory:
   * a step in between could answer from weights of two models. Only a new date costs this, and no other thread waits.
   */
  look(): void {
    const dateNs = this.#date();
    if (dateNs === this.#dateNs) return;
    const isSame = this.#isKnown && this.#pieces.every((piece, index) => this.#sum(piece) === this.#sums[index]);
    if (!isSame) throw this.#changed();
    // The date from before the comparison: what is written during it is found by the next look.
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
    const message = `expected ${this.#path} to stay as it was when it was opened, got one that was written to`;
    return new MillraceError("model_file_changed", message, { hint: FILE_CHANGED_HINT });
  }
}

/** The file's beginning, its end, and as much at equal distances between them. */
function samplesOf(fileBytes: number): readonly FilePart[] {
  if (fileBytes <= NUM_SAMPLES * SAMPLE_BYTES) return [{ byteOffset: 0, byteLength: fileBytes }];
  const distance = (fileBytes - SAMPLE_BYTES) / (NUM_SAMPLES - 1);
  return Array.from({ length: NUM_SAMPLES }, (_, i) => ({
    byteOffset: Math.floor(i * distance),
    byteLength: SAMPLE_BYTES,
  }));
}

function piecesOf({ byteOffset, byteLength }: FilePart): readonly FilePart[] {
  const pieces: FilePart[] = [];
  for (let at = 0; at < byteLength; at += PIECE_BYTES) {
    pieces.push({ byteOffset: byteOffset + at, byteLength: Math.min(PIECE_BYTES, byteLength - at) });
  }
  return pieces;
}
