/** Sets of Unicode characters, and their spelling in a grammar over bytes. */

/** First and last code point. */
export type CharacterRange = readonly [number, number];
/** Ascending, neither overlapping nor adjacent, without surrogates. */
export type CharacterSet = readonly CharacterRange[];

const MAX_CODE_POINT = 0x10ffff;
const FIRST_SURROGATE = 0xd800;
const LAST_SURROGATE = 0xdfff;

/** @example characterSet([[0x62, 0x63], [0x61, 0x61]]) // [[0x61, 0x63]] */
export function characterSet(ranges: readonly CharacterRange[]): CharacterSet {
  const sorted = ranges.flatMap(withoutSurrogates).sort((a, b) => a[0] - b[0]);
  const merged: [number, number][] = [];
  for (const [first, last] of sorted) {
    const before = merged.at(-1);
    if (before !== undefined && first <= before[1] + 1) before[1] = Math.max(before[1], last);
    else merged.push([first, last]);
  }
  return merged;
}

function withoutSurrogates([first, last]: CharacterRange): CharacterRange[] {
  const parts: CharacterRange[] = [
    [first, Math.min(last, FIRST_SURROGATE - 1)],
    [Math.max(first, LAST_SURROGATE + 1), last],
  ];
  if (last < FIRST_SURROGATE || first > LAST_SURROGATE) return [[first, last]];
  return parts.filter(([from, to]) => from <= to);
}

export function complement(set: CharacterSet): CharacterSet {
  const gaps: CharacterRange[] = [];
  let next = 0;
  for (const [first, last] of set) {
    if (first > next) gaps.push([next, first - 1]);
    next = last + 1;
  }
  if (next <= MAX_CODE_POINT) gaps.push([next, MAX_CODE_POINT]);
  return characterSet(gaps);
}

export function intersection(a: CharacterSet, b: CharacterSet): CharacterSet {
  return characterSet(
    a.flatMap(([first, last]) =>
      b
        .map(([from, to]): CharacterRange => [Math.max(first, from), Math.min(last, to)])
        .filter(([from, to]) => from <= to),
    ),
  );
}

export function includes(set: CharacterSet, codePoint: number): boolean {
  return set.some(([first, last]) => first <= codePoint && codePoint <= last);
}

/** The last code points whose UTF-8 form has one, two, three and four bytes. */
const LENGTH_LIMITS = [0x7f, 0x7ff, 0xffff, MAX_CODE_POINT];

/**
 * The set as alternatives of byte classes. The grammar engine treats a class's code points as bytes, so non-ASCII
 * characters are spelled byte by byte.
 * @example bytesOfSet([[0x61, 0x63], [0xe9, 0xe9]]) // "[\\x61-\\x63] | [\\xc3\\xc3] [\\xa9\\xa9]"
 */
export function bytesOfSet(set: CharacterSet): string {
  const ascii = intersection(set, [[0, 0x7f]]);
  const rest = intersection(set, [[0x80, MAX_CODE_POINT]]);
  const sequences = rest.flatMap(([first, last]) => splitByLength(first, last).flatMap(splitByBytes));
  const alternatives = sequences.map((classes) => classes.map((range) => `[${byteRange(range)}]`).join(" "));
  if (ascii.length > 0) alternatives.unshift(`[${ascii.map(byteRange).join("")}]`);
  return alternatives.join(" | ");
}

function byteRange([first, last]: CharacterRange): string {
  // The grammar engine would read a class that names a single byte once as a character.
  return first === last ? `${byteText(first)}${byteText(first)}` : `${byteText(first)}-${byteText(last)}`;
}

const byteText = (byte: number): string => `\\x${byte.toString(16).padStart(2, "0")}`;

function splitByLength(first: number, last: number): CharacterRange[] {
  const parts: CharacterRange[] = [];
  let from = first;
  for (const limit of LENGTH_LIMITS) {
    if (from > limit || from > last) continue;
    parts.push([from, Math.min(last, limit)]);
    from = limit + 1;
  }
  return parts;
}

/**
 * Sequences of byte ranges that together spell exactly the characters of the range; all characters have the same
 * length.
 */
function splitByBytes([first, last]: CharacterRange): CharacterRange[][] {
  const low = utf8(first);
  const high = utf8(last);
  for (let tail = 1; tail < low.length; tail++) {
    const span = 1 << (6 * tail);
    const firstBlock = Math.floor(first / span);
    if (firstBlock === Math.floor(last / span)) continue;
    if (first % span !== 0) {
      const end = (firstBlock + 1) * span - 1;
      return [...splitByBytes([first, end]), ...splitByBytes([end + 1, last])];
    }
    if ((last + 1) % span !== 0) {
      const start = Math.floor(last / span) * span;
      return [...splitByBytes([first, start - 1]), ...splitByBytes([start, last])];
    }
  }
  return [low.map((byte, i): CharacterRange => [byte, high[i]!])];
}

const encoder = new TextEncoder();
const utf8 = (codePoint: number): number[] => [...encoder.encode(String.fromCodePoint(codePoint))];
