/** Reads a file line by line in slices of bounded size, so that neither a large file nor an endless line fills the memory. */
import type { FileHandle } from "node:fs/promises";

export interface Line {
  /** From 1; blank lines count. */
  readonly number: number;
  /** Where the line begins in the file, in bytes. */
  readonly offset: number;
  /** Without the line's end, in bytes. */
  readonly length: number;
  /** A copy of the line; undefined: it is longer than the limit. */
  readonly bytes: Buffer | undefined;
}

const SLICE_BYTES = 256 * 1024;
const NEWLINE = 0x0a;
const RETURN = 0x0d;
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/**
 * The lines of a file that are not blank, without their ends (\n or \r\n) and without a byte order mark.
 *
 * @param maxLineBytes longer lines come without their bytes
 */
export async function* linesOf(handle: FileHandle, maxLineBytes: number): AsyncGenerator<Line> {
  const slice = Buffer.allocUnsafe(SLICE_BYTES);
  let parts: Buffer[] = [];
  let [numPartBytes, lineStart, number, position] = [0, 0, 1, 0];
  const add = (part: Buffer): void => {
    numPartBytes += part.length;
    // One byte more than the limit may be a carriage return.
    if (numPartBytes <= maxLineBytes + 1) parts.push(Buffer.from(part));
    else parts = [];
  };
  const take = (): Line | undefined => {
    const isKept = numPartBytes <= maxLineBytes + 1;
    const whole = parts.length === 1 ? parts[0]! : Buffer.concat(parts);
    const end = whole.at(-1) === RETURN ? whole.length - 1 : whole.length;
    const length = isKept ? end : numPartBytes;
    const line = { number, offset: lineStart, length };
    if (length > maxLineBytes) return { ...line, bytes: undefined };
    const bytes = whole.subarray(0, end);
    return isBlank(bytes) ? undefined : { ...line, bytes };
  };
  for (;;) {
    const { bytesRead } = await handle.read(slice, 0, SLICE_BYTES, position);
    if (bytesRead === 0) break;
    let from = position === 0 && slice.subarray(0, 3).equals(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK.length : 0;
    if (position === 0) lineStart = from;
    for (let end = next(slice, from, bytesRead); end >= 0; end = next(slice, from, bytesRead)) {
      add(slice.subarray(from, end));
      const line = take();
      from = end + 1;
      [parts, numPartBytes, lineStart] = [[], 0, position + from];
      number++;
      if (line !== undefined) yield { ...line, number: number - 1 };
    }
    add(slice.subarray(from, bytesRead));
    position += bytesRead;
  }
  const last = numPartBytes > 0 ? take() : undefined;
  if (last !== undefined) yield last;
}

function next(slice: Buffer, from: number, end: number): number {
  const at = slice.subarray(0, end).indexOf(NEWLINE, from);
  return at;
}

function isBlank(bytes: Buffer): boolean {
  return bytes.every((byte) => byte === 0x20 || byte === 0x09);
}
