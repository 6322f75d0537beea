/** Infill tokens are recognised by their spelling in published models, unless they are plain text. */
import { expect, it } from "vitest";
import { infillTokensByText } from "./infill-tokens.js";
import { TOKEN_TYPE } from "./vocabulary.js";

const vocabularyOf = (texts: readonly string[], type: number) => ({
  idByText: new Map(texts.map((text, id) => [text, id])),
  types: new Uint8Array(texts.length).fill(type),
});

it.each([
  [["a", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"], { prefix: 1, suffix: 2, middle: 3 }],
  [["<fim_suffix>", "<fim_middle>", "<fim_prefix>"], { prefix: 2, suffix: 0, middle: 1 }],
  [["<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"], { prefix: 0, suffix: 1, middle: 2 }],
  [
    ["<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<file_sep>", "<repo_name>"],
    { prefix: 0, suffix: 1, middle: 2, repository: 4, file: 3 },
  ],
  [["<fim_suffix>", "<fim_prefix>"], undefined],
  [["a"], undefined],
])("%j", (texts, expected) => {
  expect(infillTokensByText(vocabularyOf(texts, TOKEN_TYPE.control))).toEqual(expected);
  expect(infillTokensByText(vocabularyOf(texts, TOKEN_TYPE.normal))).toBeUndefined();
});
