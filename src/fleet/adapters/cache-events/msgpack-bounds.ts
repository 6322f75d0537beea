/**
 * Bounds the memory for decoding a MessagePack message. A decoder reserves an array as long as its header says, so that
 * a message of a few bytes could reserve gigabytes. Here every value of every list must be present before decoding
 * starts.
 */

/** vLLM's batches have five levels; most of their values are tokens. */
const MAX_DEPTH = 16;
const MAX_VALUES = 1 << 20;

/**
 * Bytes after the header of a value without a length, from header 0xc0 on: nil, false, true, floats, integers. 0xc1 is
 * no header.
 */
const FIXED_BYTES: Readonly<Record<number, number>> = Object.fromEntries([
  ...[0xc0, 0xc2, 0xc3].map((header) => [header, 0]),
  ...[0xca, 0xce, 0xd2].map((header) => [header, 4]),
  ...[0xcb, 0xcf, 0xd3].map((header) => [header, 8]),
  ...[0xcc, 0xd0].map((header) => [header, 1]),
  ...[0xcd, 0xd1].map((header) => [header, 2]),
]);

/**
 * Throws for a message that is cut, has more values or levels than a batch of events, or has extension types, which
 * vLLM never sends.
 */
export function expectBoundedMessage(bytes: Buffer): void {
  let at = 0;
  let numValues = 0;
  /** The length in the next 1, 2 or 4 bytes. */
  const length = (width: number): number => {
    at += width;
    return bytes.readUIntBE(at - width, width);
  };
  const skipBytes = (count: number): void => {
    at += count;
  };
  const skipValues = (count: number, depth: number): void => {
    if (depth > MAX_DEPTH) throw new RangeError(`expected at most ${MAX_DEPTH} levels of lists, got more`);
    for (let i = 0; i < count; i++) skipValue(depth);
  };
  const skipValue = (depth: number): void => {
    if (++numValues > MAX_VALUES) throw new RangeError(`expected at most ${MAX_VALUES} values, got more`);
    const header = length(1);
    if (header < 0x80 || header >= 0xe0) return;
    if (header < 0x90) skipValues(2 * (header & 0x0f), depth + 1);
    else if (header < 0xa0) skipValues(header & 0x0f, depth + 1);
    else if (header < 0xc0) skipBytes(header & 0x1f);
    else if (header >= 0xc4 && header <= 0xc6) skipBytes(length(1 << (header - 0xc4)));
    else if (header >= 0xd9 && header <= 0xdb) skipBytes(length(1 << (header - 0xd9)));
    else if (header === 0xdc || header === 0xdd) skipValues(length(header === 0xdc ? 2 : 4), depth + 1);
    else if (header === 0xde || header === 0xdf) skipValues(2 * length(header === 0xde ? 2 : 4), depth + 1);
    else {
      const numBytes = FIXED_BYTES[header];
      if (numBytes === undefined) throw new RangeError(`expected a value, got the header 0x${header.toString(16)}`);
      skipBytes(numBytes);
    }
  };
  skipValue(0);
  if (at !== bytes.length) throw new RangeError(`expected a message of ${at} bytes, got ${bytes.length}`);
}
