/**
 * A bounds-checked cursor over the head of a file: reads little-endian scalars and strings through one buffered window,
 * never past the limits.
 */
import { readSync } from "node:fs";
import { MillraceError } from "../../core/errors.js";
import { MAX_HEADER_BYTES } from "./limits.js";

const INITIAL_WINDOW_BYTES = 1024 * 1024;
const TWO_TO_32 = 4_294_967_296;
/** Above this high word a 64-bit integer is no longer a safe JavaScript integer. */
const MAX_SAFE_HIGH_WORD = 0x1f_ffff;

export class HeaderReader {
  #window: Buffer;
  #view: DataView;
  /** File offset of the window's first byte. */
  #windowStart = 0;
  /** Valid bytes in the window. */
  #windowLength = 0;
  /** Next byte to read, relative to the window. */
  #position = 0;

  constructor(
    readonly path: string,
    readonly fileBytes: number,
    private readonly fd: number,
  ) {
    this.#window = Buffer.allocUnsafe(Math.min(INITIAL_WINDOW_BYTES, Math.max(fileBytes, 1)));
    this.#view = viewOf(this.#window);
  }

  /** Absolute offset of the next byte. */
  get offset(): number {
    return this.#windowStart + this.#position;
  }

  get remainingBytes(): number {
    return this.fileBytes - this.offset;
  }

  /** Refuses unless `numBytes` more bytes exist and stay within the header limit. */
  expectBytes(numBytes: number, what: string): void {
    if (numBytes > this.remainingBytes) {
      throw new MillraceError(
        "gguf_truncated",
        `expected ${numBytes} bytes for ${what} at byte ${this.offset}, got the end of the file at byte ${this.fileBytes}`,
        { hint: `${this.path} is incomplete or its lengths are wrong; download or convert it again` },
      );
    }
    if (this.offset + numBytes > MAX_HEADER_BYTES) {
      throw new MillraceError(
        "gguf_limit",
        `expected the header to end within ${MAX_HEADER_BYTES} bytes, got ${what} reaching byte ${this.offset + numBytes}`,
        { hint: `${this.path} is corrupt: no model needs a header this large` },
      );
    }
  }

  u8(what: string): number {
    this.#fill(1, what);
    const value = this.#view.getUint8(this.#position);
    this.#position += 1;
    return value;
  }

  u32(what: string): number {
    this.#fill(4, what);
    const value = this.#view.getUint32(this.#position, true);
    this.#position += 4;
    return value;
  }

  /** Scalars for which the caller knows size and decoding. */
  scalar<T>(numBytes: number, what: string, decode: (view: DataView, position: number) => T): T {
    this.#fill(numBytes, what);
    const value = decode(this.#view, this.#position);
    this.#position += numBytes;
    return value;
  }

  /** An unsigned 64-bit count, length or offset; one that is not a safe integer cannot be true of any file. */
  size(what: string): number {
    this.#fill(8, what);
    const low = this.#view.getUint32(this.#position, true);
    const high = this.#view.getUint32(this.#position + 4, true);
    if (high > MAX_SAFE_HIGH_WORD) {
      throw new MillraceError(
        "gguf_corrupt",
        `expected ${what} below 2^53 at byte ${this.offset}, got 0x${high.toString(16)}${low.toString(16).padStart(8, "0")}`,
        { hint: `${this.path} is corrupt; download or convert it again` },
      );
    }
    this.#position += 8;
    return high * TWO_TO_32 + low;
  }

  /** A length-prefixed UTF-8 string. Ill-formed sequences become U+FFFD, as vocabularies in the wild contain some. */
  string(maxBytes: number, what: string): string {
    const start = this.offset;
    const numBytes = this.size(what);
    if (numBytes > maxBytes) {
      // A length beyond the file says "damaged" more plainly than one beyond a limit.
      this.expectBytes(numBytes, what);
      throw new MillraceError(
        "gguf_limit",
        `expected ${what} of at most ${maxBytes} bytes at byte ${start}, got ${numBytes}`,
        {
          hint: `${this.path} is corrupt; download or convert it again`,
        },
      );
    }
    this.#fill(numBytes, what);
    const begin = this.#position;
    this.#position += numBytes;
    return this.#window.toString("utf8", begin, this.#position);
  }

  /** Copies the next bytes into `target`, which the caller allocated after `expectBytes`. */
  bytes(target: Uint8Array, what: string): void {
    this.expectBytes(target.length, what);
    let numCopied = 0;
    while (numCopied < target.length) {
      const numNext = Math.min(target.length - numCopied, this.#window.length);
      this.#fill(numNext, what);
      target.set(this.#window.subarray(this.#position, this.#position + numNext), numCopied);
      this.#position += numNext;
      numCopied += numNext;
    }
  }

  /** Makes the next `numBytes` contiguous in the window. */
  #fill(numBytes: number, what: string): void {
    if (this.#position + numBytes <= this.#windowLength) return;
    this.expectBytes(numBytes, what);
    const rest = this.#window.subarray(this.#position, this.#windowLength);
    const target = numBytes > this.#window.length ? Buffer.allocUnsafe(numBytes) : this.#window;
    target.set(rest, 0);
    if (target !== this.#window) this.#view = viewOf(target);
    this.#window = target;
    this.#windowStart += this.#position;
    this.#position = 0;
    this.#windowLength = rest.length;
    this.#readUntil(numBytes, what);
  }

  #readUntil(numBytes: number, what: string): void {
    while (this.#windowLength < numBytes) {
      const fileOffset = this.#windowStart + this.#windowLength;
      const numRead = readSync(
        this.fd,
        this.#window,
        this.#windowLength,
        this.#window.length - this.#windowLength,
        fileOffset,
      );
      if (numRead === 0) {
        throw new MillraceError(
          "gguf_truncated",
          `expected ${numBytes} bytes for ${what} at byte ${this.#windowStart}, got the end of the file at byte ${fileOffset}`,
          { hint: `${this.path} became shorter while it was read` },
        );
      }
      this.#windowLength += numRead;
    }
  }
}

function viewOf(buffer: Buffer): DataView {
  return new DataView(buffer.buffer, buffer.byteOffset, buffer.byteLength);
}
