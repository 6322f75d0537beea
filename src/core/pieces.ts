/**
 * Bytes that arrive in pieces. A piece costs about 160 bytes of memory in addition to its own, and keeps its source
 * buffer
 * alive; a sender may send single bytes. So pieces are joined when they become many.
 */
const MOST_LOOSE = 1024;

export class Pieces {
  #joined: Buffer[] = [];
  #loose: Buffer[] = [];
  #numBytes = 0;

  /** Total bytes of all pieces. */
  get numBytes(): number {
    return this.#numBytes;
  }

  push(piece: Buffer): void {
    this.#numBytes += piece.length;
    if (this.#loose.push(piece) < MOST_LOOSE) return;
    this.#joined.push(Buffer.concat(this.#loose));
    this.#loose = [];
  }

  /** Takes all bytes out. A single piece is returned without a copy. */
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
