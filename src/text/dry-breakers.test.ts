/** DRY's breakers as tokens, in a readable vocabulary, and compared with a search without shortcuts. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { AsyncTokenizer } from "./async-tokenizer.js";
import { dryBreakersOf } from "./dry-breakers.js";
import type { Tokenizer } from "./tokenizer/tokenizer.js";

/** Encodes a text as single characters of the vocabulary. */
function tokenizerOf(tokens: readonly string[]): Tokenizer {
  return {
    vocabSize: tokens.length,
    tokenBytes: (id: number) => Buffer.from(tokens[id]!),
    encode: (text: string) => [...text].map((character) => tokens.indexOf(character)),
  } as unknown as Tokenizer;
}

const TOKENS = ["", "a", "b", "c", "é", "ab", "xab", "abc", "bc", "b\n", "\n", "\n\n", "ca", "cab", "<a", "<b", "ééa"];

async function breakersOf(tokens: readonly string[], ...texts: readonly string[]) {
  const tokenizer = tokenizerOf(tokens);
  const breakers = await dryBreakersOf(tokenizer, new AsyncTokenizer(tokenizer), texts);
  return breakers.map(({ heads, tail }) => ({ heads: [...heads].map((id) => tokens[id]), tail }));
}

test("are every token that has the text in it", async () => {
  expect(await breakersOf(TOKENS, "\n")).toEqual([{ heads: ["b\n", "\n", "\n\n"], tail: [] }]);
  expect(await breakersOf(TOKENS, "é", "<")).toEqual([
    { heads: ["é", "ééa"], tail: [] },
    { heads: ["<a", "<b"], tail: [] },
  ]);
});

test("are tokens that end with its beginning, and the tokens of the rest behind them", async () => {
  expect(await breakersOf(TOKENS, "abc")).toEqual([
    { heads: ["abc"], tail: [] },
    { heads: ["a", "ca", "<a", "ééa"], tail: [2, 3] },
    { heads: ["ab", "xab", "cab"], tail: [3] },
  ]);
});

test("have tails of twenty tokens at most, and may be in no token at all", async () => {
  const [whole, first] = await breakersOf(TOKENS, "a".repeat(40));
  expect([whole, first!.heads, first!.tail]).toEqual([
    { heads: [], tail: [] },
    ["a", "ca", "<a", "ééa"],
    new Array(20).fill(1),
  ]);
});

test("are found as a search of every token finds them", async () => {
  const text = fc.string({ unit: fc.constantFrom("a", "b", "\n"), minLength: 1, maxLength: 4 });
  await fc.assert(
    fc.asyncProperty(fc.array(fc.oneof(text, fc.constant("")), { maxLength: 40 }), text, async (others, breaker) => {
      const tokens = ["a", "b", "\n", ...others];
      const found = await breakersOf(tokens, breaker);
      const wanted = [...breaker].map((_, i) => {
        const cut = i === 0 ? breaker : breaker.slice(0, i);
        const heads = tokens.filter((token) =>
          i === 0 ? token.includes(breaker) : token.endsWith(cut) && !token.includes(breaker),
        );
        const rest = i === 0 ? "" : breaker.slice(i);
        return { heads, tail: [...rest].map((character) => tokens.indexOf(character)) };
      });
      expect(found).toEqual(wanted.filter(({ heads, tail }) => heads.length > 0 || tail.length === 0));
    }),
    { seed: 214, numRuns: 300 },
  );
});

test("leave others a turn between each two beginnings of a text", async () => {
  let numTurns = 0;
  const count = () => {
    numTurns++;
    next = setImmediate(count);
  };
  let next = setImmediate(count);
  await breakersOf(TOKENS, "a".repeat(40));
  clearImmediate(next);
  expect(numTurns).toBeGreaterThanOrEqual(39);
});

test("of the same text are looked for once", async () => {
  const tokenizer = tokenizerOf(TOKENS);
  let numEncoded = 0;
  const encoder = new AsyncTokenizer({
    ...tokenizer,
    encode(text, options) {
      numEncoded++;
      return tokenizer.encode(text, options);
    },
  });
  const first = await dryBreakersOf(tokenizer, encoder, ["abc", "\n"]);
  expect(numEncoded).toBe(2);
  expect(await dryBreakersOf(tokenizer, encoder, ["\n", "abc"])).toEqual([...first.slice(3), ...first.slice(0, 3)]);
  expect(numEncoded).toBe(2);
  expect(await dryBreakersOf(tokenizer, encoder, ["abc", "\n", "abc", "\n"])).toEqual(first);
});
