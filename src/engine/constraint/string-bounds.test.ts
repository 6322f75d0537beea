/** What is barred at a place of a string, token by token; schemas.test.ts has whole answers. */
import { describe, expect, test } from "vitest";
import { SIGNAL_TOKENS } from "../../text/grammar/string-length.js";
import { StringBounds, TokenLengths } from "./string-bounds.js";

const TEXTS = [
  "a",
  "abc",
  "abcdefghijkl",
  '"',
  'ab"',
  '"abcdefghi',
  '"abcd"',
  '","',
  "\\",
  "n",
  "\\n",
  "\\u00e9",
  "éé",
];
const TOKENS = TEXTS.map((text) => new Uint8Array(Buffer.from(text)));
const LENGTHS = new TokenLengths(TOKENS);
const NUM_LENGTHS = SIGNAL_TOKENS.length / 2;

function boundsAfter(output: readonly string[]): StringBounds {
  const bounds = new StringBounds(TOKENS, LENGTHS);
  for (const text of output) bounds.append(TEXTS.indexOf(text));
  return bounds;
}

/** The tokens that are left of all, where these bounds are signalled. */
function left(bounds: StringBounds, { min, max }: { readonly min?: number; readonly max?: number }): string[] {
  const mask = new Int32Array(LENGTHS.numWords + Math.ceil(SIGNAL_TOKENS.length / 32)).fill(-1, 0, LENGTHS.numWords);
  const places = [...(min === undefined ? [] : [min]), ...(max === undefined ? [] : [NUM_LENGTHS + max])];
  for (const place of places) mask[LENGTHS.numWords + (place >> 5)]! |= 1 << (place & 31);
  bounds.restrict(mask);
  return TEXTS.filter((_, id) => (mask[0]! >>> id) & 1);
}

const without = (...barred: readonly string[]): string[] => TEXTS.filter((text) => !barred.includes(text));
/** They may open strings that no grammar has counted so far. */
const IMMODEST = ['"abcdefghi', '"abcd"'];

describe("tokens are barred", () => {
  test("that open strings and go on for too long, everywhere", () => {
    expect(left(boundsAfter([]), {})).toEqual(without(...IMMODEST));
  });

  test("that would make a string too long, counted in characters", () => {
    const many = ["abc", "a", "\\u00e9", "\\n", "éé"];
    expect(left(boundsAfter(['"', ...many]), { max: 10 })).toEqual(without(...IMMODEST, "abc", "abcdefghijkl"));
    expect(left(boundsAfter(['"', ...many, "a", "a"]), { max: 10 })).toEqual(['"', '","']);
  });

  test("that would close a string too early", () => {
    expect(left(boundsAfter(['"', "abc", "abc"]), { min: 8, max: 100 })).toEqual(without(...IMMODEST, '"', '","'));
    expect(left(boundsAfter(['"', "abc", "abc"]), { min: 9 })).toEqual(without(...IMMODEST, '"', 'ab"', '","'));
  });

  test("that go on behind an escape near a bound, which they would change the meaning of", () => {
    const bounds = boundsAfter(['"', "abc", "abc", "abc"]);
    left(bounds, { max: 10 });
    bounds.append(TEXTS.indexOf("\\"));
    expect(left(bounds, {})).toEqual(["a", '"', "\\", "n"]);
  });

  test("no more when the string is closed", () => {
    const bounds = boundsAfter(['"', "abcdefghijkl"]);
    expect(left(bounds, { max: 12 })).toEqual(['"', '","']);
    bounds.append(TEXTS.indexOf('"'));
    expect(left(bounds, {})).toEqual(without(...IMMODEST));
  });

  test("as before when drafted tokens are taken back", () => {
    const bounds = boundsAfter(['"', "abc", "abc"]);
    const before = left(bounds, { max: 9 });
    const mark = bounds.mark();
    bounds.append(TEXTS.indexOf("abc"));
    expect(left(bounds, { max: 9 })).toEqual(['"', '","']);
    bounds.goTo(mark);
    expect(left(bounds, { max: 9 })).toEqual(before);
  });

  test("by bounds that one of several strings has", () => {
    const bounds = boundsAfter(['"', "abcdefghijkl"]);
    const mask = new Int32Array(LENGTHS.numWords + Math.ceil(SIGNAL_TOKENS.length / 32)).fill(-1, 0, LENGTHS.numWords);
    // At most ten characters, or thirteen to twenty.
    for (const place of [13, NUM_LENGTHS + 10, NUM_LENGTHS + 20])
      mask[LENGTHS.numWords + (place >> 5)]! |= 1 << (place & 31);
    bounds.restrict(mask);
    expect(TEXTS.filter((_, id) => (mask[0]! >>> id) & 1)).toEqual(without(...IMMODEST, '"', '","', "abcdefghijkl"));
  });
});
