/**
 * Tells apart numbers that are equal here and written differently. Upstreams in Python write `1.0` and `1` into a
 * prompt as they came, for instance from the schema of a tool.
 */

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const MINUS = 0x2d;
const isDigit = (byte: number): boolean => byte >= 0x30 && byte <= 0x39;
/** Signs that may stand in a number, beside digits: "+", "-", ".", "E", "e". */
const isMark = (byte: number): boolean => byte === 0x2e || byte === MINUS || byte === 0x2b || (byte | 0x20) === 0x65;
/** Longer integers may be written in another way than they are. */
const EXACT_DIGITS = 15;

/**
 * @param bytes JSON that `body` was parsed from
 * @returns a text that differs between requests whose numbers are equal but written differently; "": JSON.stringify
 * writes every number as it is in the request
 */
export function spellingsOf(body: Readonly<Record<string, unknown>>, bytes: Uint8Array): string {
  const odd = oddNumbers(bytes);
  // The places of numbers are those in the bytes, so the order of the fields is a part of them.
  return odd === "" ? "" : JSON.stringify([Object.keys(body), odd]);
}

/** The numbers below the outermost fields that are written in an odd way, with their places among all. */
function oddNumbers(bytes: Uint8Array): string {
  const odd: string[] = [];
  let depth = 0;
  let numNumbers = 0;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]!;
    if (byte === QUOTE) {
      for (i++; i < bytes.length && bytes[i] !== QUOTE; i++) if (bytes[i] === BACKSLASH) i++;
    }
    // "[" and "{", "]" and "}" differ in one bit, which nothing else in these places does.
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
