/**
 * Checks the tokenizers against llama.cpp's published vocabularies and vectors (`MILLRACE_FIXTURES` or
 * ../shared/fixtures).
 */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { computedMs } from "../../../test/helpers/computed-ms.js";
import { fixturesDir } from "../../../test/helpers/fixtures.js";
import { readGguf } from "../../formats/gguf/read.js";
import { createTokenizer } from "./create-tokenizer.js";
import type { Tokenizer } from "./tokenizer.js";

const root = fixturesDir();
const folder = join(root, "tokenizers");
const isPresent = existsSync(folder);
if (!isPresent) console.warn(`SKIPPED: tokenizer vectors, because ${folder} does not exist (set MILLRACE_FIXTURES)`);
const files = isPresent ? readdirSync(folder).filter((name) => name.endsWith(".gguf")) : [];

const tokenizerByPath = new Map<string, Tokenizer>();

function tokenizerOf(path: string): Tokenizer {
  const known = tokenizerByPath.get(path) ?? createTokenizer(readGguf(path).metadata);
  tokenizerByPath.set(path, known);
  return known;
}

interface ExpectedText {
  readonly text: string;
  /** Includes BOS if the model adds one. */
  readonly tokens: readonly number[];
}

describe.skipIf(!isPresent)("the fixture models' tokenizers (needs fixtures/tokenizers)", () => {
  const models = join(root, "models");
  const path = join(models, "expected.json");
  const expected = isPresent ? (JSON.parse(readFileSync(path, "utf8")) as Record<string, readonly ExpectedText[]>) : {};

  it.each(Object.entries(expected))("%s gives the expected ids", (name, texts) => {
    const tokenizer = createTokenizer(readGguf(join(models, `${name}.gguf`)).metadata);
    for (const { text, tokens } of texts) {
      expect(tokenizer.encode(text, { addSpecial: true, parseSpecial: false })).toEqual(tokens);
    }
  });
});

describe.skipIf(!isPresent)("llama.cpp's vocabularies (needs fixtures/tokenizers)", () => {
  it.each(files)("%s gives the expected ids and decodes them", (name) => {
    const path = join(folder, name);
    const tokenizer = tokenizerOf(path);
    const texts = readFileSync(`${path}.inp`, "utf8").split("\n__ggml_vocab_test__\n");
    // The separator also ends the file.
    if (texts.at(-1) === "") texts.pop();
    const expected = readFileSync(`${path}.out`, "utf8").replace(/\n$/, "").split("\n");
    expect(texts.length).toBe(expected.length);
    expect(texts.length).toBeGreaterThan(30);
    for (const [i, text] of texts.entries()) {
      const ids = tokenizer.encode(text, { addSpecial: false, parseSpecial: false });
      expect(ids.join(" "), JSON.stringify(text)).toBe(expected[i]!.trim());
      expect(tokenizer.decode(ids)).toBe(text);
    }
  });

  it.each([
    [
      "llama-bpe",
      "<|start_header_id|>user<|end_header_id|>\n\nHello<|eot_id|>",
      [128006, 882, 128007, 271, 9906, 128009],
    ],
    ["qwen2", "<|im_start|>user\nHi<|im_end|>", [151644, 872, 198, 13048, 151645]],
    ["phi-3", "<|user|>\nHello<|end|>\n<|assistant|>\n", [32010, 15043, 32007, 32001]],
    ["llama-spm", "<s>Hello</s>", [1, 15043, 2]],
  ])("%s parses the special tokens of a rendered chat", (name, text, ids) => {
    const tokenizer = tokenizerOf(join(folder, `ggml-vocab-${name}.gguf`));
    expect(tokenizer.encode(text, { addSpecial: false, parseSpecial: true })).toEqual(ids);
    const plain = tokenizer.encode(text, { addSpecial: false, parseSpecial: false });
    expect(tokenizer.decode(plain)).toBe(text);
    expect(plain.some((id) => tokenizer.isSpecial(id))).toBe(false);
    expect(tokenizer.stopIds.has(ids.at(-1)!)).toBe(name !== "phi-3");
  });

  it.each(files)("%s encodes a long text without spaces in far less than quadratic time", (name) => {
    const tokenizer = tokenizerOf(join(folder, name));
    let state = 1;
    let text = "";
    while (text.length < 2 ** 18) {
      state = Math.imul(state, 1103515245) + 12345;
      text += String.fromCharCode(97 + ((state >>> 16) % 26));
    }
    const start = computedMs();
    const ids = tokenizer.encode(text, { addSpecial: false, parseSpecial: true });
    // Encoding takes a quarter of a second on one idle core; quadratic time would be minutes. The margin is for loaded
    // machines.
    expect(computedMs() - start).toBeLessThan(20_000);
    expect(tokenizer.decode(ids)).toBe(text);
  });
});
