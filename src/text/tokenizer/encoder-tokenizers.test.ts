/**
 * Tokenizers of encoders: a GGUF file produces the same ids as the tokenizer.json that it was made from, and damaged
 * normalisations are refused safely.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { fixture } from "../../../test/helpers/fixtures.js";
import { TestRng } from "../../../test/helpers/rng.js";
import { readGguf } from "../../formats/gguf/read.js";
import { arr, bool, f32, str, u32, type WritableValue, writeGguf } from "../../formats/gguf/write.js";
import { charsmapNormalizer } from "./charsmap.js";
import { createTokenizer } from "./create-tokenizer.js";
import { TOKEN_TYPE } from "./vocabulary.js";

interface TokenizerJson {
  readonly model: { readonly vocab: Record<string, number> | [string, number][] };
  readonly added_tokens: readonly { readonly id: number; readonly content: string }[];
  readonly normalizer: { readonly normalizers: readonly { readonly precompiled_charsmap?: string }[] };
}

interface Expected {
  readonly samples: readonly { readonly text: string; readonly ids: number[]; readonly plain: number[] }[];
  readonly pairs: readonly { readonly texts: [string, string]; readonly ids: number[]; readonly types: number[] }[];
}

const folder = mkdtempSync(join(tmpdir(), "millrace-encoder-tokenizers-"));
afterAll(() => rmSync(folder, { recursive: true }));

const readJson = <T>(name: string, file: string): T =>
  JSON.parse(readFileSync(join(fixture(`hf-tokenizers/${name}`), file), "utf8")) as T;

function tokenizerOf(metadata: Record<string, WritableValue>) {
  const path = join(folder, "vocab.gguf");
  writeGguf(path, { metadata: { "general.architecture": str("bert"), ...metadata }, tensors: [] });
  return createTokenizer(readGguf(path).metadata);
}

const key = (name: string) => `tokenizer.ggml.${name}`;

/** The form of llama.cpp's converter: a mark before tokens that begin a word, and no mark before continuing ones. */
function bertMetadata(name: string): Record<string, WritableValue> {
  const { model, added_tokens } = readJson<TokenizerJson>(name, "tokenizer.json");
  const special = new Set(added_tokens.map(({ content }) => content));
  const entries = Object.entries(model.vocab as Record<string, number>).sort(([, a], [, b]) => a - b);
  const texts = entries.map(([text]) => {
    // Such a file cannot distinguish its own marks from those of the text.
    if (special.has(text) || text.includes("\u2581")) return text.replaceAll("\u2581", "<mark>");
    return text.startsWith("##") ? text.slice(2) : `\u2581${text}`;
  });
  const idOf = (text: string) => u32(entries.findIndex(([each]) => each === text));
  return {
    [key("model")]: str("bert"),
    [key("tokens")]: arr("string", texts),
    [key("token_type")]: arr(
      "i32",
      entries.map(([text]) => (special.has(text) ? TOKEN_TYPE.control : TOKEN_TYPE.normal)),
    ),
    [key("unknown_token_id")]: idOf("[UNK]"),
    [key("bos_token_id")]: idOf("[CLS]"),
    [key("seperator_token_id")]: idOf("[SEP]"),
  };
}

function t5Metadata(name: string): Record<string, WritableValue> {
  const { model, added_tokens, normalizer } = readJson<TokenizerJson>(name, "tokenizer.json");
  const entries = model.vocab as [string, number][];
  const special = new Set(added_tokens.map(({ content }) => content));
  const charsmap = normalizer.normalizers.find((each) => each.precompiled_charsmap)!.precompiled_charsmap!;
  return {
    [key("model")]: str("t5"),
    [key("tokens")]: arr(
      "string",
      entries.map(([text]) => text),
    ),
    [key("scores")]: arr(
      "f32",
      entries.map(([, score]) => score),
    ),
    [key("token_type")]: arr(
      "i32",
      entries.map(([text]) => (special.has(text) ? TOKEN_TYPE.control : TOKEN_TYPE.normal)),
    ),
    [key("precompiled_charsmap")]: arr("u8", [...Buffer.from(charsmap, "base64")]),
    [key("unknown_token_id")]: u32(3),
    [key("bos_token_id")]: u32(0),
    [key("eos_token_id")]: u32(2),
  };
}

describe.each([
  ["bert", bertMetadata],
  ["xlm_roberta", t5Metadata],
] as const)("%s in a GGUF file", (name, metadataOf) => {
  const tokenizer = tokenizerOf(metadataOf(name));
  const { samples, pairs } = readJson<Expected>(name, "expected.json");

  // In a file with marks, U+2581 is a space; and the longest word has 100 characters in all GGUF files.
  it.each(samples.filter(({ text }) => !text.includes("\u2581") && !text.startsWith("aaaa")))("encodes $text", ({
    text,
    ids,
    plain,
  }) => {
    expect(tokenizer.encode(text, { addSpecial: false, parseSpecial: true })).toEqual(plain);
    expect(tokenizer.encode(text, { addSpecial: true, parseSpecial: true })).toEqual(ids);
  });

  it.each(pairs)("joins $texts", ({ texts, ids, types }) => {
    const { before, between, after, numBetweenOfFirst } = tokenizer.pair!;
    const [a, b] = texts.map((text) => tokenizer.encode(text, { addSpecial: false, parseSpecial: true }));
    expect([...before, ...a!, ...between, ...b!, ...after]).toEqual(ids);
    if (types.includes(1)) expect(before.length + a!.length + numBetweenOfFirst).toBe(types.indexOf(1));
  });
});

describe("WordPiece in a GGUF file", () => {
  it("keeps case and accents where the file says so", () => {
    const metadata = bertMetadata("bert");
    const kept = tokenizerOf({
      ...metadata,
      [key("normalizer.lowercase")]: bool(false),
      [key("normalizer.strip_accents")]: bool(false),
    });
    const changed = tokenizerOf(metadata);
    const options = { addSpecial: false, parseSpecial: false };
    expect(changed.encode("HELLO caf\u00e9", options)).toEqual(changed.encode("hello cafe", options));
    expect(kept.encode("HELLO", options)).not.toEqual(kept.encode("hello", options));
  });

  it.each([
    ["unknown_token_id", u32(100_000), /unknown_token_id in 0\.\.\d+/],
    ["seperator_token_id", u32(100_000), /seperator_token_id in 0\.\.\d+/],
    ["tokens", arr("string", ["a", "a"]), /distinct token texts/],
    ["scores", arr("f32", [1]), /scores to have \d+ entries/],
  ] as const)("refuses a wrong %s", (name, value, message) => {
    expect(() => tokenizerOf({ ...bertMetadata("bert"), [key(name)]: value })).toThrow(message);
  });

  it("decodes words with spaces between them", () => {
    const tokenizer = tokenizerOf(bertMetadata("bert"));
    const ids = tokenizer.encode("hello again", { addSpecial: true, parseSpecial: false });
    expect(tokenizer.decode(ids)).toBe("hello again");
  });
});

describe.each([
  ["bert", bertMetadata],
  ["xlm_roberta", t5Metadata],
] as const)("%s with damaged metadata", (name, metadataOf) => {
  it("is refused with a code, or encodes and decodes", () => {
    const sound = metadataOf(name);
    const numTokens = tokenizerOf(sound).vocabSize;
    const rng = new TestRng(6);
    const flags = [
      "add_bos_token",
      "add_eos_token",
      "add_space_prefix",
      "remove_extra_whitespaces",
      "normalizer.lowercase",
    ];
    const keys = [...Object.keys(sound), ...["cls_token_id", "pre", "scores", ...flags].map(key)];
    const values = [
      ...[0, 5, numTokens, 2 ** 32 - 1].map(u32),
      ...[Number.NaN, -1, 0.5].map(f32),
      ...["", "bert", "t5", "llama", "gpt2"].map(str),
      bool(true),
      bool(false),
      arr("string", []),
      arr("string", ["a", "\u2581a", "[UNK]", ""]),
      arr("f32", new Array<number>(numTokens).fill(Number.POSITIVE_INFINITY)),
      arr("i32", new Array<number>(numTokens).fill(6)),
      arr("u8", [4, 0, 0, 0, 0, 1, 0, 0]),
    ];
    const outcomes = { accepted: 0, refused: 0 };
    for (let round = 0; round < 200; round++) {
      const changed: Record<string, WritableValue> = { ...sound };
      for (let i = rng.int(1, 2); i > 0; i--)
        changed[keys[rng.int(0, keys.length - 1)]!] = values[rng.int(0, values.length - 1)]!;
      try {
        const tokenizer = tokenizerOf(changed);
        const ids = tokenizer.encode("It's na\u00efve\ud800 \u4f60\n\u0001 [SEP] </s>", {
          addSpecial: true,
          parseSpecial: true,
        });
        for (const id of ids) expect(id).toSatisfy((value: number) => value >= 0 && value < tokenizer.vocabSize);
        expect(typeof tokenizer.decode(ids)).toBe("string");
        outcomes.accepted++;
      } catch (thrown) {
        expect(thrown).toMatchObject({ code: expect.stringMatching(/^(tokenizer_\w+|gguf_metadata)$/) });
        outcomes.refused++;
      }
    }
    expect(Math.min(outcomes.accepted, outcomes.refused)).toBeGreaterThan(20);
  });
});

describe("Unigram in a GGUF file", () => {
  it("refuses scores that are missing or no numbers", () => {
    const { [key("scores")]: _, ...without } = t5Metadata("xlm_roberta");
    expect(() => tokenizerOf(without)).toThrow(/a score for each token/);
    const length = (readJson<TokenizerJson>("xlm_roberta", "tokenizer.json").model.vocab as unknown[]).length;
    const infinite = arr("f32", new Array<number>(length).fill(Number.NEGATIVE_INFINITY));
    expect(() => tokenizerOf({ ...t5Metadata("xlm_roberta"), [key("scores")]: infinite })).toThrow(/to be numbers/);
  });
});

describe("a compiled normalisation", () => {
  const { normalizer } = readJson<TokenizerJson>("xlm_roberta", "tokenizer.json");
  const sound = Buffer.from(
    normalizer.normalizers.find((each) => each.precompiled_charsmap)!.precompiled_charsmap!,
    "base64",
  );

  it("of damaged bytes is refused, or gives some text in finite time", () => {
    const rng = new TestRng(3);
    const text =
      "caf\u00e9 e\u0301 \u212aelvin\r\n\u00bd \ufb01x \u1100\u1161 \u2026\u200b\u{1f469}\u200d\u{1f469} " + "plain";
    let numRefused = 0;
    for (let round = 0; round < 2000; round++) {
      const bytes = Uint8Array.from(sound.subarray(0, rng.int(0, 3) === 0 ? rng.int(0, sound.length) : sound.length));
      for (let i = rng.int(1, 8); i > 0 && bytes.length > 0; i--) bytes[rng.int(0, bytes.length - 1)] = rng.int(0, 255);
      try {
        expect(typeof charsmapNormalizer(bytes)(text)).toBe("string");
      } catch (thrown) {
        expect(thrown).toMatchObject({ code: "tokenizer_corrupt" });
        numRefused++;
      }
    }
    expect(numRefused).toBeGreaterThan(50);
  });

  it("that makes long texts of characters is refused", () => {
    const long = Buffer.concat([sound.subarray(0, 4 + sound.readUInt32LE(0)), Buffer.alloc(300, "x")]);
    expect(() => charsmapNormalizer(long)).toThrow(/at most 256 bytes, got 300/);
  });

  it("treats characters of one cluster together, and ASCII before a combining mark with it", () => {
    const normalize = charsmapNormalizer(sound);
    expect(normalize("e\u0301")).toBe("\u00e9");
    expect(normalize("ae\u0301e")).toBe("a\u00e9e");
    expect(normalize("\u212a and \u212a")).toBe("K and K");
    expect(normalize("")).toBe("");
  });
});
