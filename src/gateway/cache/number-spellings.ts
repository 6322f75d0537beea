/**
 * Tells apart numbers that are equal here but written differently. Upstreams in Python copy `1.0` and `1` into a prompt
 * as written, for instance from the schema of a tool.
 */

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const MINUS = 0x2d;
const isDigit = (byte: number): boolean => byte >= 0x30 && byte <= 0x39;
/** Characters of a number, beside digits: "+", "-", ".", "E", "e". */
const isMark = (byte: number): boolean => byte === 0x2e || byte === MINUS || byte === 0x2b || (byte | 0x20) === 0x65;
/** Longer integers may not be written back as they were. */
const EXACT_DIGITS = 15;

/**
 * @param bytes JSON that `body` was parsed from
 * @returns a text that differs between requests with equal numbers in different spellings; "": JSON.stringify writes
 * every number as the request does
 */
export function spellingsOf(body: Readonly<Record<string, unknown>>, bytes: Uint8Array): string {
  const odd = oddNumbers(bytes);
  // Numbers are placed by their order in the bytes, so the order of the fields is part of the text.
  return odd === "" ? "" : JSON.stringify([Object.keys(body), odd]);
}

/** The numbers below the outermost fields with an unusual spelling, with their index among all numbers. */
function oddNumbers(bytes: Uint8Array): string {
  const odd: string[] = [];
  let depth = 0;
  let numNumbers = 0;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]!;
    if (byte === QUOTE) {
      for (i++; i < bytes.length && bytes[i] !== QUOTE; i++) if (bytes[i] === BACKSLASH) i++;
    }
    // Setting bit 5 maps "[" to "{" and "]" to "}"; no other byte in these places maps to them.
    else if ((byte | 0x20) === OPEN_BRACE) depth++;
    else if ((byte | 0x20) === CLOSE_BRACE) depth--;
    else if (depth > 1 && (byte === MINUS || isDigit(byte))) {
      const start = i;
      let isPlain = byte !== MINUS;
      for (; i + 1 < bytes.length; i++) {
        const next = bytes[i + 1]!;
        if (isMark(next)) isPlain = false;
        else if (!isDigit(next)) break;
      }
      numNumbers++;
      // Most numbers are short and plain, above all in lists of token ids.
      if (isPlain && i - start < EXACT_DIGITS) continue;
      const text = Buffer.from(bytes.subarray(start, i + 1)).toString("latin1");
      if (JSON.stringify(Number(text)) !== text) odd.push(`${numNumbers}:${text}`);
    }
  }
  return odd.join(" ");
}
