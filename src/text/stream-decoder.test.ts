import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Metadata } from "../formats/gguf/metadata.js";
import type { GgufValue } from "../formats/gguf/types.js";
import { StreamDecoder } from "./stream-decoder.js";
import { createTokenizer } from "./tokenizer/create-tokenizer.js";
import type { Tokenizer } from "./tokenizer/tokenizer.js";

const WORDS = ["\u2581", "\u2581a", "é", "\u2581😀", "日本", "\ufeff"];
const TEXTS = [
  "<unk>",
  "<s>",
  "</s>",
  ...WORDS,
  ...Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`),
];
const FIRST_BYTE = TEXTS.length - 256;

function makeTokenizer(addsSpacePrefix: boolean): Tokenizer {
  const types = TEXTS.map((_, id) => (id === 0 ? 2 : id < 3 ? 3 : id < FIRST_BYTE ? 1 : 6));
  return createTokenizer(
    new Metadata(
      new Map<string, GgufValue>([
        ["tokenizer.ggml.model", "llama"],
        ["tokenizer.ggml.tokens", TEXTS],
        ["tokenizer.ggml.token_type", Int32Array.from(types)],
        ["tokenizer.ggml.scores", new Float32Array(TEXTS.length)],
        ["tokenizer.ggml.add_space_prefix", addsSpacePrefix],
      ]),
    ),
  );
}

function stream(decoder: StreamDecoder, ids: readonly number[]): string[] {
  return [...ids.map((id) => decoder.push(id)), decoder.flush()];
}

describe("StreamDecoder", () => {
  it.each([
    true,
    false,
  ])("adds up to decode() for any ids, broken UTF-8 included (space prefix %s)", (addsSpacePrefix) => {
    const tokenizer = makeTokenizer(addsSpacePrefix);
    const byteOf = (min: number, max: number): fc.Arbitrary<number> =>
      fc.integer({ min: FIRST_BYTE + min, max: FIRST_BYTE + max });
    const id = fc.oneof(
      fc.integer({ min: 0, max: TEXTS.length - 1 }),
      byteOf(0x80, 0xbf),
      byteOf(0xc0, 0xff),
      fc.integer({ min: 0, max: FIRST_BYTE }),
    );
    fc.assert(
      fc.property(fc.array(id, { maxLength: 30 }), fc.boolean(), (ids, keepSpecial) => {
        const pieces = stream(new StreamDecoder(tokenizer, { keepSpecial }), ids);
        expect(pieces.join("")).toBe(tokenizer.decode(ids, { keepSpecial }));
      }),
      { seed: 5, numRuns: 5000 },
    );
  });

  it("returns a character only when all its bytes have arrived", () => {
    const ids = [..."é😀"].flatMap((char) => [...new TextEncoder().encode(char)]).map((byte) => FIRST_BYTE + byte);
    expect(stream(new StreamDecoder(makeTokenizer(true)), ids)).toEqual(["", "é", "", "", "", "😀", ""]);
    expect(stream(new StreamDecoder(makeTokenizer(true)), ids.slice(0, -1))).toEqual(["", "é", "", "", "", "\ufffd"]);
  });

  it("drops the dummy prefix once, unless the ids continue a text", () => {
    const ids = [1, 4, 4];
    expect(stream(new StreamDecoder(makeTokenizer(true)), ids).join("")).toBe("a a");
    expect(stream(new StreamDecoder(makeTokenizer(true), { continuesText: true }), ids).join("")).toBe(" a a");
    expect(stream(new StreamDecoder(makeTokenizer(true), { keepSpecial: true }), ids).join("")).toBe("<s> a a");
    expect(stream(new StreamDecoder(makeTokenizer(false)), ids).join("")).toBe(" a a");
  });

  it("keeps the requested special tokens", () => {
    const keeping = (keptTokenIds: ReadonlySet<number>) =>
      stream(new StreamDecoder(makeTokenizer(false), { keptTokenIds }), [1, 4, 1]).join("");
    expect(keeping(new Set([1]))).toBe("<s> a<s>");
    expect(keeping(new Set([0]))).toBe(" a");
  });
});
