import fc from "fast-check";
import { expect, test, vi } from "vitest";
import type { RequestBody } from "../../gateway/request.js";
import { TextKeySource } from "./key-source.js";

const source = new TextKeySource();
const chat = (...contents: string[]): RequestBody => ({
  messages: contents.map((content, i) => ({ role: i % 2 === 0 ? "user" : "assistant", content })),
});
const sharedBlocks = (a: readonly number[], b: readonly number[]): number => {
  let n = 0;
  while (n < a.length && a[n] === b[n]) n++;
  return n;
};

test("a conversation's next turn begins with the blocks of its previous turn", () => {
  const first = source.keysOf(chat("x".repeat(1000), "y".repeat(300)));
  const next = source.keysOf(chat("x".repeat(1000), "y".repeat(300), "and then?"));
  // The last block of the shorter prompt ends with the bracket that closes its list.
  expect(sharedBlocks(first.keys, next.keys)).toBeGreaterThanOrEqual(first.keys.length - 1);
  expect(first.keys.length).toBe(Math.floor(first.numBlocks));
});

test("the keys depend on texts, roles and tools, but not on sampling", () => {
  const keys = (body: RequestBody) => source.keysOf(body).keys;
  const body = chat("tell me of mills ".repeat(20));
  expect(keys({ ...body, temperature: 1, max_tokens: 3 })).toEqual(keys(body));
  expect(keys({ ...body, tools: [{ type: "function", function: { name: "f" } }] })[0]).not.toBe(keys(body)[0]);
  expect(keys({ ...body, cache_salt: "s" })[0]).not.toBe(keys(body)[0]);
  expect(keys({ prompt: "tell me of mills ".repeat(20) })[0]).not.toBe(keys(body)[0]);
});

test("texts share exactly the complete blocks that they have in common", () => {
  const text = fc.string({ unit: fc.constantFrom("a", "b", "é", "水"), maxLength: 600 });
  fc.assert(
    fc.property(text, text, text, (common, a, b) => {
      const [one, two] = [source.keysOf({ prompt: common + a }), source.keysOf({ prompt: common + b })];
      const bytes = [common + a, common + b].map((prompt) => Buffer.from(`prompt:${prompt}`));
      let equal = 0;
      while (equal < bytes[0]!.length && bytes[0]![equal] === bytes[1]![equal]) equal++;
      expect(sharedBlocks(one.keys, two.keys)).toBe(Math.min(Math.floor(equal / 128), one.keys.length));
      expect(one.keys).toHaveLength(Math.floor(bytes[0]!.length / 128));
      expect(one.numBlocks).toBeCloseTo(bytes[0]!.length / 128);
    }),
  );
});

test("only the first mebibyte of a prompt is hashed, but the whole prompt is counted", () => {
  const { keys, numBlocks } = source.keysOf({ ...chat("z".repeat(3 << 20)), system: "w".repeat(100) });
  expect(keys).toHaveLength(8192);
  expect(numBlocks).toBeGreaterThan(3 * 8192);
});

test("only the hashed part of a long conversation is serialised, and its keys are those of its beginning", () => {
  const turn = "tell me of mills ".repeat(4000);
  const stringify = vi.spyOn(JSON, "stringify");
  const many = source.keysOf(chat(...Array.from({ length: 80 }, () => turn)));
  const numWritten = stringify.mock.results.reduce((sum, { value }) => sum + String(value).length, 0);
  stringify.mockRestore();
  expect(numWritten).toBeLessThan(2 << 20);
  const few = source.keysOf(chat(...Array.from({ length: 20 }, () => turn)));
  expect(many.keys).toEqual(few.keys);
  expect(many.keys).toHaveLength(8192);
  expect(many.numBlocks / few.numBlocks).toBeCloseTo(4, 1);
});

test("of a list of ids the first 65,536 are hashed; of a list of prompts the first 64, up to 1,024 ids each", () => {
  const whole = (changed?: number) => Int32Array.from({ length: 70_000 }, (_, i) => (i === changed ? 7 : 1));
  const keysOf = (prompt: unknown) => source.keysOf({ prompt }).keys;
  expect(keysOf(whole(65_536))).toEqual(keysOf(whole()));
  // The last block ends within the last ids.
  expect(keysOf(whole(65_400))).not.toEqual(keysOf(whole()));
  const lists = (changedList?: number, changedId?: number) =>
    Array.from({ length: 66 }, (_, list) =>
      Int32Array.from({ length: 1100 }, (_, i) => (list === changedList && i === changedId ? 7 : 1)),
    );
  expect(keysOf(lists(64, 0))).toEqual(keysOf(lists()));
  expect(keysOf(lists(63, 0))).not.toEqual(keysOf(lists()));
  expect(keysOf(lists(0, 1024))).toEqual(keysOf(lists()));
  expect(keysOf(lists(0, 1023))).not.toEqual(keysOf(lists()));
});
