import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fixture } from "../../../test/helpers/fixtures.js";
import { MillraceError } from "../../core/errors.js";
import { Metadata } from "../../formats/gguf/metadata.js";
import type { GgufValue } from "../../formats/gguf/types.js";
import { CHAR_BY_BYTE } from "./byte-alphabet.js";
import { createTokenizer } from "./create-tokenizer.js";
import type { Tokenizer } from "./tokenizer.js";

const NORMAL = 1;
const UNKNOWN = 2;
const CONTROL = 3;
const USER_DEFINED = 4;
const BYTE = 6;

type Token = readonly [text: string, type: number, score?: number];
type Entries = Readonly<Record<string, GgufValue>>;

function tokenizerOf(model: string, tokens: readonly Token[], more: Entries = {}): Tokenizer {
  const entries: Entries = {
    "tokenizer.ggml.model": model,
    "tokenizer.ggml.tokens": tokens.map(([text]) => text),
    "tokenizer.ggml.token_type": Int32Array.from(tokens, ([, type]) => type),
    "tokenizer.ggml.scores": Float32Array.from(tokens, ([, , score]) => score ?? 0),
    ...more,
  };
  return createTokenizer(new Metadata(new Map(Object.entries(entries))));
}

const BYTE_TOKENS: readonly Token[] = CHAR_BY_BYTE.map((char) => [char, NORMAL]);
const GPT2_WORDS: readonly Token[] = [
  ["he", NORMAL],
  ["ll", NORMAL],
  ["hell", NORMAL],
  ["hello", NORMAL],
  ["Ġhe", NORMAL],
  ["<|bos|>", CONTROL],
  ["<|im_end|>", NORMAL],
  ["<tool>", USER_DEFINED],
  ["<tool>x", CONTROL],
  ["Ã©", NORMAL],
];
const GPT2_MERGES = ["h e", "l l", "he ll", "hell o", "Ġ he", "Ã ©"];
const id = (text: string): number => [...BYTE_TOKENS, ...GPT2_WORDS].findIndex(([other]) => other === text);

function gpt2(more: Entries = {}): Tokenizer {
  return tokenizerOf("gpt2", [...BYTE_TOKENS, ...GPT2_WORDS], {
    "tokenizer.ggml.pre": "gpt-2",
    "tokenizer.ggml.merges": GPT2_MERGES,
    "tokenizer.ggml.bos_token_id": id("<|bos|>"),
    ...more,
  });
}

const PLAIN = { addSpecial: false, parseSpecial: false };
const PARSED = { addSpecial: false, parseSpecial: true };

describe("byte-level BPE", () => {
  it("merges by rank and falls back to bytes", () => {
    const tokenizer = gpt2();
    expect(tokenizer.encode("hello hehe", PLAIN)).toEqual([id("hello"), id("Ġhe"), id("he")]);
    expect(tokenizer.encode("é日", PLAIN)).toEqual([id("Ã©"), ...[0xe6, 0x97, 0xa5].map((byte) => byte)]);
    expect(tokenizer.encode("", PLAIN)).toEqual([]);
  });

  it("encodes a word that is a token as a whole only if the pre-tokenizer says so", () => {
    const merges = GPT2_MERGES.filter((merge) => merge !== "hell o");
    expect(gpt2({ "tokenizer.ggml.merges": merges }).encode("hello", PLAIN)).toEqual([id("hell"), id("o")]);
    expect(gpt2({ "tokenizer.ggml.merges": merges, "tokenizer.ggml.pre": "llama-bpe" }).encode("hello", PLAIN)).toEqual(
      [id("hello")],
    );
  });

  it("parses control tokens only when asked, user-defined ones always, the longest first", () => {
    const tokenizer = gpt2();
    expect(tokenizer.encode("he<|bos|>he", PARSED)).toEqual([id("he"), id("<|bos|>"), id("he")]);
    expect(tokenizer.encode("<|bos|>", PLAIN)).not.toContain(id("<|bos|>"));
    expect(tokenizer.encode("<tool>x<tool>", PARSED)).toEqual([id("<tool>x"), id("<tool>")]);
    expect(tokenizer.encode("<tool>x", PLAIN)).toEqual([id("<tool>"), id("x")]);
  });

  it("treats known stop texts as control tokens that end a generation", () => {
    const tokenizer = gpt2();
    expect([...tokenizer.stopIds]).toEqual([id("<|im_end|>")]);
    expect(tokenizer.isSpecial(id("<|im_end|>"))).toBe(true);
    expect(tokenizer.encode("<|im_end|>", PLAIN)).not.toContain(id("<|im_end|>"));
    expect(tokenizer.encode("<|im_end|>", PARSED)).toEqual([id("<|im_end|>")]);
    const withIds = gpt2({ "tokenizer.ggml.eos_token_id": 5, "tokenizer.ggml.eot_token_id": 6 });
    expect(new Set(withIds.stopIds)).toEqual(new Set([5, 6, id("<|im_end|>")]));
  });

  it("adds BOS and EOS according to the metadata, otherwise according to the pre-tokenizer", () => {
    const special = { addSpecial: true, parseSpecial: false };
    const bos = id("<|bos|>");
    expect(gpt2().encode("he", special)).toEqual([id("he")]);
    expect(gpt2({ "tokenizer.ggml.pre": "llama-bpe" }).encode("he", special)).toEqual([bos, id("he")]);
    const both = gpt2({
      "tokenizer.ggml.add_bos_token": true,
      "tokenizer.ggml.add_eos_token": true,
      "tokenizer.ggml.eos_token_id": 7,
    });
    expect(both.encode("he", special)).toEqual([bos, id("he"), 7]);
    expect(both.encode("", special)).toEqual([bos, 7]);
    expect(gpt2({ "tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.add_bos_token": false }).addsBos).toBe(false);
  });

  it("leaves special tokens out of decoded text unless they are kept", () => {
    const ids = [id("<|bos|>"), id("Ġhe"), id("<tool>")];
    expect(gpt2().decode(ids)).toBe(" he<tool>");
    expect(gpt2().decode(ids, { keepSpecial: true })).toBe("<|bos|> he<tool>");
  });

  it("encoding and decoding return any text unchanged for every pre-tokenizer family", () => {
    for (const pre of [
      "gpt-2",
      "llama-bpe",
      "qwen2",
      "qwen35",
      "deepseek-llm",
      "deepseek-coder",
      "deepseek-v3",
      "falcon",
      "starcoder",
      "tekken",
      "gpt-4o",
      "bloom",
      "default",
    ]) {
      const tokenizer = gpt2({ "tokenizer.ggml.pre": pre });
      fc.assert(
        fc.property(fc.string({ unit: "binary", maxLength: 30 }), (text) => {
          expect(tokenizer.decode(tokenizer.encode(text, PLAIN))).toBe(text);
        }),
        { seed: 3, numRuns: 50 },
      );
    }
  });

  it("encodes lone surrogates as U+FFFD", () => {
    expect(gpt2().decode(gpt2().encode("a\ud800b\udc00", PARSED))).toBe("a\ufffdb\ufffd");
  });

  it("refuses ids outside the vocabulary", () => {
    for (const bad of [-1, 1.5, id("Ã©") + 1, Number.NaN]) {
      expect(() => gpt2().decode([bad])).toThrow(expect.objectContaining({ code: "token_out_of_range" }));
    }
  });
});

const SPM_TOKENS: readonly Token[] = [
  ["<unk>", UNKNOWN],
  ["<s>", CONTROL],
  ["</s>", CONTROL],
  ...Array.from({ length: 256 }, (_, byte): Token => [`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`, BYTE]),
  ["\u2581", NORMAL, -9],
  ["a", NORMAL, -10],
  ["b", NORMAL, -11],
  ["ab", NORMAL, -3],
  ["\u2581a", NORMAL, -2],
  ["bb", NORMAL, -3],
  ["\u2581\u2581", NORMAL, -1],
  ["<x>", USER_DEFINED],
  ["<|end|>", CONTROL],
];
const spmId = (text: string): number => SPM_TOKENS.findIndex(([other]) => other === text);
const spm = (more: Entries = {}): Tokenizer => tokenizerOf("llama", SPM_TOKENS, more);

describe("SentencePiece BPE", () => {
  it("merges the best score first, the leftmost of equals, with a space before the text", () => {
    const [space, a, b, spaceA, ab, bb] = ["\u2581", "a", "b", "\u2581a", "ab", "bb"].map(spmId);
    expect(spm().encode("ab", PLAIN)).toEqual([spaceA, b]);
    expect(spm({ "tokenizer.ggml.add_space_prefix": false }).encode("abb", PLAIN)).toEqual([ab, b]);
    expect(spm({ "tokenizer.ggml.add_space_prefix": false }).encode("bbb a", PLAIN)).toEqual([bb, b, spaceA]);
    expect(spm().encode("  a", PLAIN)).toEqual([spmId("\u2581\u2581"), spaceA]);
    expect(spm().encode("", PLAIN)).toEqual([]);
    expect(spm({ "tokenizer.ggml.add_space_prefix": false }).encode("a ", PLAIN)).toEqual([a, space]);
  });

  it("encodes characters without a token as bytes", () => {
    expect(spm().encode("é", PLAIN)).toEqual([spmId("\u2581"), spmId("<0xC3>"), spmId("<0xA9>")]);
    expect(spm().encode("<0x41>", PLAIN)).not.toContain(spmId("<0x41>"));
    expect(spm().decode(spm().encode("é a日😀", PLAIN))).toBe("é a日😀");
  });

  it("puts a space before each stretch of text between special tokens, as llama.cpp does", () => {
    expect(spm().encode("a<s>a<x>a", PARSED)).toEqual(["\u2581a", "<s>", "\u2581a", "<x>", "\u2581a"].map(spmId));
    expect(spm().encode("a<x>", PLAIN)).toEqual([spmId("\u2581a"), spmId("<x>")]);
  });

  it("adds BOS by default and removes one leading space when decoding", () => {
    const ids = spm().encode("a a", { addSpecial: true, parseSpecial: false });
    expect(ids).toEqual([1, spmId("\u2581a"), spmId("\u2581a")]);
    expect(spm().decode(ids)).toBe("a a");
    expect([spm().bosId, spm().eosId, spm().stopIds.has(2)]).toEqual([1, 2, true]);
  });

  it("lets Phi-3's special tokens absorb the white space after them", () => {
    const phi3 = spm({ "general.architecture": "phi3" });
    expect(phi3.encode("<|end|>\n a", PARSED)).toEqual([spmId("<|end|>"), spmId("\u2581a")]);
    expect(phi3.encode("<s>\n", PARSED)).toEqual([1, spmId("\u2581"), spmId("<0x0A>")]);
    expect(spm().encode("<|end|> a", PARSED)).not.toEqual(phi3.encode("<|end|> a", PARSED));
  });

  it("gives the same ids with and without a token that spans words, which forbids encoding words alone", () => {
    const spanning = tokenizerOf("llama", [...SPM_TOKENS, ["zz\u2581zz", NORMAL, -1]]);
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom("a", "b", " ", "é"), maxLength: 25 }), (text) => {
        expect(spanning.encode(text, PLAIN)).toEqual(spm().encode(text, PLAIN));
      }),
      { seed: 2, numRuns: 500 },
    );
  });
});

describe("BPE over the characters of lines (Gemma 4)", () => {
  const bytes = Array.from({ length: 256 }, (_, byte): Token => {
    return [`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`, BYTE];
  });
  const words = ["h", "i", "\u2581", "\n", "hi", "\u2581hi", "\n\n\n", "\u2581\u2581"].map(
    (text): Token => [text, NORMAL],
  );
  const tokens: readonly Token[] = [
    ["<bos>", CONTROL],
    ["<turn|>", CONTROL],
    ['<|"|>', USER_DEFINED],
    ...words,
    ...bytes,
  ];
  const idOf = (text: string) => tokens.findIndex(([other]) => other === text);
  const gemma4 = (more: Entries = {}) =>
    tokenizerOf("gemma4", tokens, {
      "tokenizer.ggml.merges": ["h i", "\u2581 hi", "\u2581 \u2581"],
      "tokenizer.ggml.bos_token_id": 0,
      ...more,
    });
  const idsOf = (...texts: readonly string[]) => texts.map(idOf);

  it("merges by rank, marks spaces, and falls back to bytes", () => {
    expect(gemma4().encode("hi hi", PLAIN)).toEqual(idsOf("hi", "\u2581hi"));
    expect(gemma4().encode("  hi", PLAIN)).toEqual(idsOf("\u2581", "\u2581hi"));
    expect(gemma4().encode("hé", PLAIN)).toEqual(idsOf("h", "<0xC3>", "<0xA9>"));
    expect(gemma4().decode(gemma4().encode(" hi  é\n\nhi", PLAIN))).toBe(" hi  é\n\nhi");
  });

  it("gives a character whose bytes have no tokens the unknown token, where there is one", () => {
    const some: readonly Token[] = [...tokens.filter(([, type]) => type !== BYTE), ["<unk>", CONTROL]];
    const idsWith = (more: Entries) =>
      tokenizerOf("gemma4", some, { "tokenizer.ggml.merges": ["h i"], ...more }).encode("hñh", PLAIN);
    const [h, unknown] = [idOf("h"), some.length - 1];
    expect(idsWith({})).toEqual([h, h]);
    expect(idsWith({ "tokenizer.ggml.unknown_token_id": unknown })).toEqual([h, unknown, h]);
  });

  it("takes a run of line breaks whole where it is a token, though no merge leads to it", () => {
    expect(gemma4().encode("hi\n\n\nhi", PLAIN)).toEqual(idsOf("hi", "\n\n\n", "hi"));
    expect(gemma4().encode("\n\n", PLAIN)).toEqual(idsOf("\n", "\n"));
    expect(gemma4().encode("\n\n\n\n", PLAIN)).toEqual(idsOf("\n", "\n", "\n", "\n"));
  });

  it("begins with BOS even where the file denies it, and stops at the end of a turn", () => {
    const denied = gemma4({ "tokenizer.ggml.add_bos_token": false });
    const ids = denied.encode('hi<|"|><turn|>', { addSpecial: true, parseSpecial: true });
    expect(ids).toEqual(idsOf("<bos>", "hi", '<|"|>', "<turn|>"));
    expect([...denied.stopIds]).toContain(idOf("<turn|>"));
  });

  it("has the ids of Hugging Face's tokenizers for the same vocabulary and merges", () => {
    const folder = fixture("hf-tokenizers/gemma");
    const json = JSON.parse(readFileSync(join(folder, "tokenizer.json"), "utf8")) as {
      model: { vocab: Record<string, number>; merges: [string, string][] };
      added_tokens: { id: number; content: string; special: boolean }[];
    };
    const { samples } = JSON.parse(readFileSync(join(folder, "expected.json"), "utf8")) as {
      samples: { text: string; plain: number[] }[];
    };
    const all: Token[] = [];
    for (const [text, at] of Object.entries(json.model.vocab)) {
      all[at] = [text, /^<0x[0-9A-F]{2}>$/.test(text) ? BYTE : NORMAL];
    }
    for (const { id: at, content, special } of json.added_tokens) all[at] = [content, special ? CONTROL : USER_DEFINED];
    const merges = json.model.merges.map((pair) => pair.join(" "));
    const tokenizer = tokenizerOf("gemma4", all, { "tokenizer.ggml.merges": merges });
    // Gemma's own merges join no line break with another character; the fixture's do.
    const isLikeGemma = ({ text }: { text: string }) => !text.includes("\n");
    const compared = samples.filter(isLikeGemma);
    expect(compared.length).toBeGreaterThan(10);
    for (const { text, plain } of compared) {
      expect(tokenizer.encode(text, { addSpecial: false, parseSpecial: true }), JSON.stringify(text)).toEqual(plain);
    }
  });
});

describe("broken or unknown tokenizers", () => {
  function codeOf(action: () => unknown): string {
    try {
      action();
    } catch (thrown) {
      if (thrown instanceof MillraceError) return thrown.code;
      throw thrown;
    }
    return "none";
  }

  it.each<[string, Entries]>([
    ["a model it does not know", { "tokenizer.ggml.model": "rwkv" }],
    ["a pre-tokenizer it does not know", { "tokenizer.ggml.pre": "martian" }],
  ])("are refused because of %s", (_, more) => {
    expect(codeOf(() => gpt2(more))).toBe("tokenizer_unsupported");
  });

  it.each<[string, Entries]>([
    ["no tokens", { "tokenizer.ggml.tokens": [] }],
    [
      "the same text twice",
      { "tokenizer.ggml.tokens": [...BYTE_TOKENS, ...GPT2_WORDS].map(([text], i) => (i === 5 ? "he" : text)) },
    ],
    ["too few types", { "tokenizer.ggml.token_type": Int32Array.of(1, 1) }],
    ["a type out of range", { "tokenizer.ggml.token_type": new Int32Array(266).fill(9) }],
    ["too few scores", { "tokenizer.ggml.scores": Float32Array.of(1) }],
    ["scores that are not numbers", { "tokenizer.ggml.scores": new Float32Array(266).fill(Number.NaN) }],
    ["a BOS id out of range", { "tokenizer.ggml.bos_token_id": 266 }],
    ["an EOT id out of range", { "tokenizer.ggml.eot_token_id": 4_294_967_295 }],
    ["EOS asked for and not named", { "tokenizer.ggml.add_eos_token": true }],
    ["a merge without a space", { "tokenizer.ggml.merges": ["he"] }],
    ["a merge without a second part", { "tokenizer.ggml.merges": ["he "] }],
    ["merges of another vocabulary", { "tokenizer.ggml.merges": ["h e", "xy z", "q rs"] }],
  ])("refuses %s", (_, more) => {
    expect(codeOf(() => gpt2(more))).toBe("tokenizer_corrupt");
  });

  it("refuses missing merges, missing scores and byte tokens that name no byte", () => {
    const bare = (model: string): string => {
      const tokens = BYTE_TOKENS.map(([text]) => text);
      const entries = new Map<string, GgufValue>([
        ["tokenizer.ggml.model", model],
        ["tokenizer.ggml.tokens", tokens],
      ]);
      return codeOf(() => createTokenizer(new Metadata(entries)));
    };
    expect(bare("gpt2")).toBe("tokenizer_corrupt");
    expect(bare("llama")).toBe("tokenizer_corrupt");
    expect(bare("gemma4")).toBe("tokenizer_corrupt");
    expect(codeOf(() => tokenizerOf("llama", [...SPM_TOKENS, ["<0xGG>", BYTE]]))).toBe("tokenizer_corrupt");
  });
});
