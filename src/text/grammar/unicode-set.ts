/** The characters with a Unicode property, according to Node's version of Unicode. */
import { type CharacterRange, type CharacterSet, characterSet } from "./character-set.js";

/** Sets by escape. There are only some hundreds of properties, so the cache needs no bound. */
const known = new Map<string, CharacterSet>();

/** The first code points of the planes that contain characters of many kinds. */
const MIXED_PLANES = [0, 0x10000, 0x20000, 0x30000, 0xe0000];
/** Planes that are wholly empty or private, except the two code points that are never characters. */
const PLAIN_PLANES = [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16].map((plane) => plane * 0x10000);
/** The number of code points that one regular expression match examines. */
const BLOCK = 0x2000;
const PLANE = 0x10000;

/** @example unicodeSet("\\p{Lu}") // [[0x41, 0x5a], [0xc0, 0xd6], …] */
export function unicodeSet(property: string): CharacterSet {
  let set = known.get(property);
  if (set === undefined) {
    set = characterSet(rangesOf(new RegExp(`${property}+`, "gu")));
    known.set(property, set);
  }
  return set;
}

function rangesOf(run: RegExp): CharacterRange[] {
  const ranges: CharacterRange[] = [];
  for (const plane of MIXED_PLANES) {
    for (let first = plane; first < plane + PLANE; first += BLOCK) ranges.push(...runsIn(run, first));
  }
  for (const plane of PLAIN_PLANES) {
    const parts: CharacterRange[] = [
      [plane, plane + 0xfffd],
      [plane + 0xfffe, plane + 0xffff],
    ];
    ranges.push(...parts.filter(([first]) => String.fromCodePoint(first).search(run) === 0));
  }
  return ranges;
}

function runsIn(run: RegExp, first: number): CharacterRange[] {
  const points: number[] = [];
  // Surrogates are left out, because two adjacent halves would form another character.
  for (let point = first; point < first + BLOCK; point++) if (point < 0xd800 || point > 0xdfff) points.push(point);
  const text = String.fromCodePoint(...points);
  return [...text.matchAll(run)].map(({ 0: match, index }): CharacterRange => {
    const last = match.length - (match.codePointAt(match.length - 2)! > 0xffff ? 2 : 1);
    return [text.codePointAt(index)!, match.codePointAt(last)!];
  });
}
