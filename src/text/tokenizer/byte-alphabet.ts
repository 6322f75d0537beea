/**
 * GPT-2's byte alphabet: a printable character for each of the 256 bytes, in which byte-level BPE vocabularies are
 * written.
 */

/** The bytes that represent themselves; the others are numbered upwards from U+0100. */
function isPrintable(byte: number): boolean {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

function makeAlphabet(): string[] {
  let numShifted = 0;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(isPrintable(byte) ? byte : 0x100 + numShifted++));
}

/** Character by byte. */
export const CHAR_BY_BYTE: readonly string[] = makeAlphabet();

const BYTE_BY_CHAR: ReadonlyMap<string, number> = new Map(CHAR_BY_BYTE.map((char, byte) => [char, byte]));

export function bytesToAlphabet(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += CHAR_BY_BYTE[byte]!;
  return text;
}

/** The bytes that a token text spells; undefined if it has a character outside the alphabet. */
export function alphabetToBytes(text: string): Uint8Array | undefined {
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) {
    const byte = BYTE_BY_CHAR.get(text[i]!);
    if (byte === undefined) return undefined;
    bytes[i] = byte;
  }
  return bytes;
}
