/**
 * Bytes that arrive in pieces. A piece costs some 160 bytes of memory beside its own, and holds the buffer that it came
 * in; a sender may send a byte at a time. So pieces are joined when there are many of them.
 */
const MOST_LOOSE = 1024;

export class Pieces {
  #joined: Buffer[] = [];
  #loose: Buffer[] = [];
  #numBytes = 0;

  /** Bytes of all pieces together. */
  get numBytes(): number {
    return this.#numBytes;
  }

  push(piece: Buffer): void {
    this.#numBytes += piece.length;
    if (this.#loose.push(piece) < MOST_LOOSE) return;
    this.#joined.push(Buffer.concat(this.#loose));
    this.#loose = [];
  }

  /** Takes all bytes out. A single piece comes as it is. */
  take(): Buffer {
    const pieces = [...this.#joined, ...this.#loose];
    const bytes = pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces, this.#numBytes);
    this.clear();
    return bytes;
  }

  clear(): void {
    this.#joined = [];
    this.#loose = [];
    this.#numBytes = 0;
  }
}
