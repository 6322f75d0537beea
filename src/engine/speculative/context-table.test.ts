import fc from "fast-check";
import { expect, test } from "vitest";
import { CONTEXT_LENGTHS, ContextTable, hashContexts, LONGEST_CONTEXT } from "./context-table.js";

/** A table that has read `tokens`, and what it says comes next. */
function readAndFind(tokens: readonly number[], first = 0) {
  const text = Int32Array.from(tokens);
  const table = new ContextTable();
  const hashes = new Int32Array(CONTEXT_LENGTHS.length);
  text.forEach((token, end) => {
    table.learn(hashes, first, hashContexts(text, end, hashes), token);
  });
  return table.find(hashes, first, hashContexts(text, text.length, hashes));
}

/** How many of the last tokens before `end` are the text's last ones. */
function commonLength(tokens: readonly number[], end: number): number {
  let length = 0;
  while (length < end && tokens[end - 1 - length] === tokens.at(-1 - length)) length++;
  return length;
}

test("knows a successor of the longest context that stood there before, and none where no context did", () => {
  // Few enough contexts that hardly two of them meet in a slot.
  const texts = fc.array(fc.integer({ min: 0, max: 40 }), { minLength: 1, maxLength: 60 });
  let numExact = 0;
  let numAll = 0;
  fc.assert(
    fc.property(texts, (tokens) => {
      const lengths = tokens.slice(1).map((_, i) => commonLength(tokens, i + 1));
      const longest = Math.max(0, ...lengths);
      const found = readAndFind(tokens);
      if (longest === 0) expect(found).toBeUndefined();
      if (found === undefined) return;
      // Whatever is known did stand there: a token that followed that context somewhere.
      const length = CONTEXT_LENGTHS[found.order]!;
      const successors = lengths.flatMap((common, i) => (common >= length ? [tokens[i + 1]] : []));
      expect(successors).toContain(found.token);
      numAll++;
      if (CONTEXT_LENGTHS.filter((each) => each <= Math.min(longest, LONGEST_CONTEXT)).at(-1) === length) numExact++;
    }),
  );
  expect(numExact).toBeGreaterThan(0.95 * numAll);
});

test("counts what comes again and again, forgets half of it once something else comes, and then changes its mind", () => {
  const ofOne = (tokens: readonly number[]) => {
    const table = new ContextTable();
    for (const token of tokens) table.learn(Int32Array.of(7), 0, 1, token);
    return table.find(Int32Array.of(7), 0, 1);
  };
  expect(ofOne([2, 2, 2, 2, 2, 2, 3])).toEqual({ order: 0, token: 2, count: 3 });
  expect(ofOne([2, 2, 2, 2, 2, 2, 3, 3])).toEqual({ order: 0, token: 3, count: 1 });
  expect(ofOne([2, 3])).toEqual({ order: 0, token: 3, count: 1 });
  expect(ofOne(new Array<number>(1000).fill(9))).toEqual({ order: 0, token: 9, count: 255 });
});

test("keeps what it knows while it grows", () => {
  const table = new ContextTable();
  for (let i = 0; i < 20_000; i++) table.learn(Int32Array.of(Math.imul(i, 0x9e3779b1)), 0, 1, i);
  let numKnown = 0;
  for (let i = 0; i < 20_000; i++) {
    const found = table.find(Int32Array.of(Math.imul(i, 0x9e3779b1)), 0, 1);
    if (found === undefined) continue;
    expect(found.token).toBe(i);
    numKnown++;
  }
  expect(numKnown).toBe(table.numContexts);
  expect(numKnown).toBeGreaterThan(19_000);
});
