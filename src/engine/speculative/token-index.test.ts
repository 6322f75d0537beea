import fc from "fast-check";
import { expect, test } from "vitest";
import { MAX_MATCH, SEPARATOR, TokenIndex } from "./token-index.js";

const indexOf = (tokens: readonly number[], gram: number) => {
  const index = new TokenIndex(gram);
  for (const token of tokens) index.append(token);
  return index;
};

/** Every place where at least `gram` of the tail's last tokens stand and something follows, newest first. */
function expected(tokens: readonly number[], tail: readonly number[], gram: number) {
  const places: { end: number; length: number }[] = [];
  for (let end = tokens.length - 1; end >= gram; end--) {
    let length = 0;
    while (length < Math.min(MAX_MATCH, end, tail.length) && tokens[end - 1 - length] === tail.at(-1 - length))
      length++;
    if (length >= gram) places.push({ end, length });
  }
  return places;
}

test("finds every place where the tail stood before, newest first, as a plain search does", () => {
  const texts = fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 200 });
  fc.assert(
    fc.property(texts, texts, fc.integer({ min: 1, max: 4 }), (tokens, tail, gram) => {
      const found = indexOf(tokens, gram).find(Int32Array.from(tail), tail.length, Number.POSITIVE_INFINITY);
      expect(found).toEqual(expected(tokens, tail, gram));
    }),
  );
});

test("stays right while it grows past its first capacity", () => {
  const tokens = Array.from({ length: 5000 }, (_, i) => (i * i) % 977);
  const index = indexOf(tokens, 3);
  const tail = Int32Array.from(tokens.slice(1200, 1230));
  expect(index.find(tail, tail.length, 1000)).toEqual(expected(tokens, [...tail], 3));
});

test("never matches across a separator, looks at no more places than it may, and needs a whole gram", () => {
  const index = indexOf([1, 2, SEPARATOR, 3, 1, 2, 3, 9], 2);
  expect(index.find(Int32Array.of(2, 3), 2, 10)).toEqual([{ end: 7, length: 2 }]);
  expect(indexOf([5, 5, 5, 5, 5, 5], 2).find(Int32Array.of(5, 5), 2, 2).length).toBeLessThanOrEqual(2);
  expect(index.find(Int32Array.of(2), 1, 10)).toEqual([]);
});
