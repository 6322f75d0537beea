/**
 * Reads a file line by line in slices of bounded size, so that neither a large file nor an endless line fills the
 * memory.
 */
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

/** The lines of `everyLineOf` that are not blank. */
export async function* linesOf(handle: FileHandle, maxLineBytes: number): AsyncGenerator<Line> {
  for await (const line of everyLineOf(handle, maxLineBytes)) if (!isBlank(line)) yield line;
}

/**
 * The lines of a file, without line breaks (\n or \r\n) and byte order mark. Blank lines are included: a file may have
 * no others, and a caller that yields after some lines must count them.
 *
 * @param maxLineBytes longer lines come without their bytes
 */
export async function* everyLineOf(handle: FileHandle, maxLineBytes: number): AsyncGenerator<Line> {
  const slice = Buffer.allocUnsafe(SLICE_BYTES);
  let parts: Buffer[] = [];
  let [numPartBytes, lineStart, number, position] = [0, 0, 1, 0];
  const add = (part: Buffer): void => {
    numPartBytes += part.length;
    // One byte more than the limit may be a carriage return.
    if (numPartBytes <= maxLineBytes + 1) parts.push(Buffer.from(part));
    else parts = [];
  };
  const take = (): Line => {
    const isKept = numPartBytes <= maxLineBytes + 1;
    const whole = parts.length === 1 ? parts[0]! : Buffer.concat(parts);
    const end = whole.at(-1) === RETURN ? whole.length - 1 : whole.length;
    const length = isKept ? end : numPartBytes;
    const line = { number, offset: lineStart, length };
    if (length > maxLineBytes) return { ...line, bytes: undefined };
    return { ...line, bytes: whole.subarray(0, end) };
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
      yield line;
    }
    add(slice.subarray(from, bytesRead));
    position += bytesRead;
  }
  if (numPartBytes > 0) yield take();
}

function next(slice: Buffer, from: number, end: number): number {
  const at = slice.subarray(0, end).indexOf(NEWLINE, from);
  return at;
}

export function isBlank({ bytes }: Line): boolean {
  return bytes?.every((byte) => byte === 0x20 || byte === 0x09) === true;
}
