/**
 * Reads AWS's binary event streams (application/vnd.amazon.eventstream): frames of a prelude with its checksum,
 * headers, a payload and a checksum of all. Numbers are big-endian. Both checksums are compared, and lengths are
 * bounded before anything is kept.
 */
import { crc32 } from "node:zlib";
import { MillraceError } from "../../../core/errors.js";
import { ByteList } from "./byte-list.js";

interface AwsFrame {
  /** Headers of type string; headers of other types are skipped. */
  readonly headers: ReadonlyMap<string, string>;
  /** Valid until the reader gets more bytes. */
  readonly payload: Buffer;
}

const PRELUDE_BYTES = 12;
const CHECKSUM_BYTES = 4;
const LEAST_BYTES = PRELUDE_BYTES + CHECKSUM_BYTES;
/** AWS allows 24 MB of payload and 128 kB of headers. An event of a model has far less. */
const MAX_FRAME_BYTES = 4 * 2 ** 20;
const MAX_HEADER_BYTES = 128 * 1024;

function broken(expected: string, got: string | number): MillraceError {
  return new MillraceError("upstream_failed", `expected ${expected} in the provider's event stream, got ${got}`);
}

export class FrameReader {
  readonly #held = new ByteList();
  /** Bytes of the frame under way; undefined: its prelude is not complete. */
  #numWanted: number | undefined;

  /** @param take gets each frame in turn, even if the bytes after it are unreadable */
  push(chunk: Buffer, take: (frame: AwsFrame) => void): void {
    this.#held.append(chunk);
    while (this.#held.length >= (this.#numWanted ?? PRELUDE_BYTES)) {
      if (this.#numWanted === undefined) {
        this.#numWanted = lengthOf(this.#held.view());
        continue;
      }
      const frame = frameOf(this.#held.view().subarray(0, this.#numWanted));
      this.#held.drop(this.#numWanted);
      this.#numWanted = undefined;
      take(frame);
    }
  }

  /** Ends the stream. Throws in the middle of a frame. */
  end(): void {
    if (this.#held.length > 0) throw broken("whole frames", `${this.#held.length} bytes of one`);
  }
}

/** Length of a frame, from its prelude. */
function lengthOf(bytes: Buffer): number {
  const [total, headers] = [bytes.readUInt32BE(0), bytes.readUInt32BE(4)];
  const checksum = crc32(bytes.subarray(0, 8));
  if (bytes.readUInt32BE(8) !== checksum) throw broken(`the checksum ${checksum} of a prelude`, bytes.readUInt32BE(8));
  if (total < LEAST_BYTES || total > MAX_FRAME_BYTES)
    throw broken(`a frame of at most ${MAX_FRAME_BYTES} bytes`, total);
  if (headers > Math.min(MAX_HEADER_BYTES, total - LEAST_BYTES)) throw broken("headers within their frame", headers);
  return total;
}

function frameOf(bytes: Buffer): AwsFrame {
  const end = bytes.length - CHECKSUM_BYTES;
  const checksum = crc32(bytes.subarray(0, end));
  if (bytes.readUInt32BE(end) !== checksum)
    throw broken(`the checksum ${checksum} of a frame`, bytes.readUInt32BE(end));
  const headersEnd = PRELUDE_BYTES + bytes.readUInt32BE(4);
  const headers = headersOf(bytes.subarray(PRELUDE_BYTES, headersEnd));
  return { headers, payload: bytes.subarray(headersEnd, end) };
}

/**
 * Bytes of a header's value by its type: true, false, byte, short, integer, long; 6 and 7 have a length; timestamp,
 * UUID.
 */
const VALUE_BYTES: readonly (number | undefined)[] = [0, 0, 1, 2, 4, 8, undefined, undefined, 8, 16];
const STRING = 7;

function headersOf(bytes: Buffer): ReadonlyMap<string, string> {
  const headers = new Map<string, string>();
  let at = 0;
  const take = (numBytes: number): Buffer => {
    if (at + numBytes > bytes.length) throw broken("whole headers", "a part of one");
    at += numBytes;
    return bytes.subarray(at - numBytes, at);
  };
  while (at < bytes.length) {
    const name = take(take(1)[0]!).toString("utf8");
    const type = take(1)[0]!;
    if (type >= VALUE_BYTES.length) throw broken("a known type of a header", type);
    const value = take(VALUE_BYTES[type] ?? take(2).readUInt16BE(0));
    if (type === STRING) headers.set(name, value.toString("utf8"));
  }
  return headers;
}
