/**
 * Bytes that arrive in pieces of any size: appending costs their number, and memory is at most twice the kept bytes.
 */

const FIRST_CAPACITY = 4096;

export class ByteList {
  #bytes = Buffer.alloc(0);
  #start = 0;
  #end = 0;

  get length(): number {
    return this.#end - this.#start;
  }

  append(piece: Uint8Array): void {
    if (this.#end + piece.length > this.#bytes.length) this.#makeRoom(piece.length);
    this.#bytes.set(piece, this.#end);
    this.#end += piece.length;
  }

  /** The bytes, valid until the next append. */
  view(): Buffer {
    return this.#bytes.subarray(this.#start, this.#end);
  }

  drop(numBytes: number): void {
    this.#start += Math.min(numBytes, this.length);
    if (this.length > 0) return;
    this.#start = 0;
    this.#end = 0;
  }

  /** Drops the bytes and their memory. */
  clear(): void {
    this.#bytes = Buffer.alloc(0);
    this.#start = 0;
    this.#end = 0;
  }

  #makeRoom(numBytes: number): void {
    const needed = this.length + numBytes;
    const target = needed <= this.#bytes.length / 2 ? this.#bytes : Buffer.alloc(Math.max(FIRST_CAPACITY, 2 * needed));
    target.set(this.view(), 0);
    this.#end = this.length;
    this.#start = 0;
    this.#bytes = target;
  }
}
