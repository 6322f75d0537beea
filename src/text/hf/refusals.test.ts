/** A faulty or unsupported tokenizer.json is refused with a code. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { fixture } from "../../../test/helpers/fixtures.js";
import { readHfChatTemplate } from "./chat-template.js";
import { createHfTokenizer } from "./create-tokenizer.js";

type Json = Record<string, unknown> & { model: Record<string, unknown>; added_tokens: Record<string, unknown>[] };

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "millrace-tokenizer-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

const SOUND = readFileSync(join(fixture("hf-tokenizers/llama2"), "tokenizer.json"), "utf8");
const NUM_TOKENS = 512;

function writeChanged(change: (json: Json) => void): void {
  const json = JSON.parse(SOUND) as Json;
  change(json);
  writeFileSync(join(folder, "tokenizer.json"), JSON.stringify(json));
}

const outcome = () => {
  try {
    createHfTokenizer(folder, NUM_TOKENS);
    return "accepted";
  } catch (thrown) {
    const { code, message } = thrown as { code: string; message: string };
    return `${code}: ${message}`;
  }
};

it("accepts the valid file that the cases below change", () => {
  writeChanged(() => {});
  expect(outcome()).toBe("accepted");
});

it("refuses a folder without a tokenizer.json", () => {
  expect(outcome()).toMatch(/^tokenizer_unsupported: .*a tokenizer\.json/);
});

describe("refuses", () => {
  it.each<[string, (json: Json) => void, RegExp]>([
    [
      "another model",
      ({ model }) => (model.type = "WordLevel"),
      /^tokenizer_unsupported: .*model\.type to be BPE, WordPiece, Unigram, got "WordLevel"/,
    ],
    [
      "word suffixes",
      ({ model }) => (model.end_of_word_suffix = "</w>"),
      /^tokenizer_unsupported: .*suffix to be empty/,
    ],
    ["no vocabulary", ({ model }) => delete model.vocab, /^tokenizer_corrupt: .*model\.vocab/],
    [
      "an id beyond the embedding",
      ({ model }) => (model.vocab = { a: 512 }),
      /^tokenizer_corrupt: .*in 0\.\.511.*got 512/,
    ],
    ["an id that is no integer", ({ model }) => (model.vocab = { a: "1" }), /^tokenizer_corrupt: .*token ids/],
    ["an id given twice", ({ model }) => (model.vocab = { a: 1, b: 1 }), /^tokenizer_corrupt: .*"b" and another for 1/],
    ["a merge of three", ({ model }) => (model.merges = [["a", "b", "c"]]), /^tokenizer_corrupt: .*merges\[0\]/],
    ["a merge without a space", ({ model }) => (model.merges = ["ab"]), /^tokenizer_corrupt: .*merges\[0\]/],
    ["merges of nothing known", ({ model }) => (model.merges = [["qq", "zz"]]), /^tokenizer_corrupt: .*no token/],
    [
      "an added token without text",
      ({ added_tokens }) => delete added_tokens[0]!.content,
      /^tokenizer_corrupt: .*added_tokens/,
    ],
    [
      "an added token on another's id",
      ({ added_tokens }) => (added_tokens[0]!.id = 300),
      /^tokenizer_corrupt: .*another for 300/,
    ],
    [
      "an unknown normalizer",
      (json) => (json.normalizer = { type: "Nmt" }),
      /^tokenizer_unsupported: .*normalizer\.type/,
    ],
    [
      "a long replacement",
      (json) => (json.normalizer = { type: "Replace", pattern: { String: "a" }, content: "x".repeat(17) }),
      /^tokenizer_unsupported: .*at most 16/,
    ],
    [
      "long words of WordPiece",
      ({ model }) => Object.assign(model, { type: "WordPiece", unk_token: "<unk>", max_input_chars_per_word: 1e6 }),
      /^tokenizer_unsupported: .*between 1 and 256, got 1000000/,
    ],
    [
      "long tokens of Unigram",
      (json) => {
        const vocab = [["a", 0] as const, ["b".repeat(257), 0] as const];
        json.added_tokens = [];
        json.model = { type: "Unigram", unk_id: 0, vocab };
      },
      /^tokenizer_corrupt: .*at most 256 characters, got 257 for token 1/,
    ],
    [
      "an unknown pre-tokenizer",
      (json) => (json.pre_tokenizer = { type: "Bert" }),
      /^tokenizer_unsupported: .*pre_tokenizer\.type/,
    ],
    [
      "a step after the bytes",
      (json) => (json.pre_tokenizer = { type: "Sequence", pretokenizers: [{ type: "ByteLevel" }, { type: "Digits" }] }),
      /^tokenizer_unsupported: .*ByteLevel at the end/,
    ],
    ["an unknown decoder", (json) => (json.decoder = { type: "CTC" }), /^tokenizer_unsupported: .*decoder\.type/],
    [
      "a value of another type",
      (json) => (json.model.merges = 5),
      /^model_config: .*tokenizer\.json: model\.merges to be an array/,
    ],
  ])("%s", (_, change, expected) => {
    writeChanged(change);
    expect(outcome()).toMatch(expected);
  });

  it("steps within steps without end", () => {
    const depth = 20_000;
    const steps = `${'{"type":"Sequence","normalizers":['.repeat(depth)}{"type":"NFC"}${"]}".repeat(depth)}`;
    writeFileSync(join(folder, "tokenizer.json"), `{"model":{"vocab":{"a":0},"merges":[]},"normalizer":${steps}}`);
    expect(outcome()).toMatch(/^tokenizer_corrupt: .*a few levels deep/);
  });

  it("an end token beyond the vocabulary", () => {
    writeChanged(() => {});
    writeFileSync(join(folder, "generation_config.json"), '{"eos_token_id":[2,600]}');
    expect(outcome()).toMatch(/^tokenizer_corrupt: .*eos_token_id in 0\.\.511, got 600/);
  });
});

it("a normalizer that makes texts endless is refused where it does", () => {
  const doubling = { type: "Replace", pattern: { String: "a" }, content: "aa" };
  writeChanged((json) => (json.normalizer = { type: "Sequence", normalizers: new Array(60).fill(doubling) }));
  const tokenizer = createHfTokenizer(folder, NUM_TOKENS);
  const encode = (text: string) => tokenizer.encode(text, { addSpecial: false, parseSpecial: false });
  expect(() => encode("a")).toThrow(expect.objectContaining({ code: "tokenizer_corrupt" }));
  expect(encode("b").length).toBeGreaterThan(0);
});

it("uses every end token that the configurations name", () => {
  writeChanged(() => {});
  writeFileSync(join(folder, "generation_config.json"), '{"eos_token_id":[2,300]}');
  writeFileSync(join(folder, "config.json"), '{"eos_token_id":7}');
  expect(createHfTokenizer(folder, NUM_TOKENS).stopIds).toEqual(new Set([2, 300, 7]));
});

it("leaves out added tokens that have no embedding", () => {
  writeChanged(({ added_tokens }) => added_tokens.push({ id: 512, content: "<image>", special: true }));
  expect(
    createHfTokenizer(folder, NUM_TOKENS).encode("<image>", { addSpecial: false, parseSpecial: true }).length,
  ).toBeGreaterThan(1);
});

describe("the chat template", () => {
  const settings = (value: object) => writeFileSync(join(folder, "tokenizer_config.json"), JSON.stringify(value));
  const rendered = () => readHfChatTemplate(folder)?.render({ messages: [], addGenerationPrompt: false });

  it("is undefined if no file has one", () => {
    expect(readHfChatTemplate(folder)).toBeUndefined();
  });

  it("is the default one of several", () => {
    settings({
      chat_template: [
        { name: "tool_use", template: "tools" },
        { name: "default", template: "plain{{ bos_token }}" },
      ],
      bos_token: { content: "<s>" },
    });
    expect(rendered()).toBe("plain<s>");
  });

  it("comes from the separate file if there is one", () => {
    settings({ chat_template: "old" });
    writeFileSync(join(folder, "chat_template.jinja"), "new");
    expect(rendered()).toBe("new");
  });

  it("for tools is in a folder of its own where transformers 5 wrote it", () => {
    writeFileSync(join(folder, "chat_template.jinja"), "plain");
    mkdirSync(join(folder, "additional_chat_templates"));
    writeFileSync(join(folder, "additional_chat_templates/tool_use.jinja"), "{{ tools | length }} tools");
    const tools = [{ type: "function", function: { name: "f", description: "" } }];
    expect(rendered()).toBe("plain");
    expect(readHfChatTemplate(folder)!.render({ messages: [], tools, addGenerationPrompt: false })).toBe("1 tools");
  });

  it("is refused if it is not a string", () => {
    settings({ chat_template: [{ name: "rag", template: "x" }] });
    expect(() => readHfChatTemplate(folder)).toThrow(expect.objectContaining({ code: "model_config" }));
  });
});
