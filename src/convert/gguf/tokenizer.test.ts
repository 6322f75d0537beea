import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { fixture } from "../../../test/helpers/fixtures.js";
import { createHfTokenizer } from "../../text/hf/create-tokenizer.js";
import { tokenizerMetadata } from "./tokenizer.js";

test("a file says that it finds added tokens within words, where a folder's stand alone", () => {
  const folder = fixture("hf-tokenizers/single_words");
  const { size } = JSON.parse(readFileSync(join(folder, "expected.json"), "utf8")) as { size: number };
  const { notes } = tokenizerMetadata(folder, createHfTokenizer(folder, size), "llama");
  expect(notes).toContain("the file's added tokens are found within words, too");
});
