import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { computedMs } from "../../../test/helpers/computed-ms.js";
import { PRE_TOKENIZERS } from "./pre-tokenizer-table.js";
import { findPreTokenizer, splitWords } from "./pre-tokenizers.js";

/** The words, separated by |. */
function splits(pre: string, words: string): void {
  const expected = words.split("|");
  expect(splitWords(expected.join(""), findPreTokenizer(pre))).toEqual(expected);
}

describe("splitWords", () => {
  it.each([
    ["gpt-2", "It|'s| you|'ll|,| I|'|VE"],
    ["llama-bpe", "It|'s| you|'ll|,| I|'VE"],
    ["llama-bpe", "a|'\u017f|t"],
    ["qwen2", "don|'t|'T|'RE"],
    ["tekken", "don|'t| DON|'T"],
    ["gpt-4o", "don't| DON'T| Camel|Case"],
    ["deepseek-v3", "don|'t| _|foo"],
    ["kimi-k2", "don't| _|foo"],
  ])("%s cuts contractions: %s", splits);

  it.each([
    ["gpt-2", "1234| 567|x"],
    ["llama-bpe", "123|4| |567|8|x"],
    ["qwen2", "1|2|3| |4|½|Ⅻ"],
    ["qwen35", "1|2| |3"],
    ["starcoder", "1|2| |3|a"],
    ["smollm", "1|2"],
    ["falcon", "123|456|7"],
    ["deepseek-llm", "1234| |567"],
    ["deepseek-coder", "1|2| |3"],
    ["deepseek-v3", "123|4| |56"],
    ["kimi-k2", "123|4| |56"],
    ["tekken", "1|2"],
    ["gpt-4o", "123|4"],
    ["default", "123|456|7"],
    ["seed-coder", "1|2"],
    ["viking", "a|1|2"],
    ["bloom", "a12"],
    ["minicpm5", "123|4"],
  ])("%s groups digits: %s", splits);

  it.each([
    ["gpt-2", "a|  | b|\n|\n|c|\t|d|   "],
    ["gpt-2", "a|\n| b"],
    ["llama-bpe", "a|  | b|\n\n|c|\td|   "],
    ["llama-bpe", "a| \n\n| | b|.\n\n|c"],
    ["llama-bpe", "x|\r\n\r\n|y|\u0085\u0085|\u3000y"],
    ["qwen2", "def| f|():\n|   | return| x"],
    ["deepseek-llm", "a|\n|\n| b|   "],
    ["deepseek-llm", "a|  |1"],
    ["deepseek-coder", "a|\r|\n|  | b"],
    ["bailingmoe", "a|\n\n|b"],
    ["seed-coder", "a|.|\n\n|b"],
    ["deepseek-v3", "a|\n\n| | b"],
  ])("%s cuts white space: %s", splits);

  it.each([
    ["gpt-2", "我想|,|日本語|。"],
    ["llama-bpe", "我想在apple工作"],
    ["llama-bpe", "我想|。ok"],
    ["deepseek-llm", "ok|我想|。|ok"],
    ["deepseek-v3", "ok|我想かな|한국"],
    ["kimi-k2", "ok|我想|。ok"],
    ["kimi-k2", "ok|我想|かな한국"],
    ["deepseek-coder", "ok|我想"],
    ["qwen35", "कि| कि"],
    ["qwen2", "क|ि| क|ि"],
    ["gpt-4o", "कि| ABCdef| abc|DEF"],
    ["tekken", "HTML| Html|Page| üm|Laut"],
  ])("%s cuts scripts and cases: %s", splits);

  it.each([
    ["gpt-2", "a|://|b| !!"],
    ["llama-bpe", "a|://|b| !!\n|(c|)"],
    ["gpt-4o", "a|://|b|.//\n"],
    ["falcon", "a|://|b| |!!<=>| c"],
    ["deepseek-v3", "a|://|b| !!.|x|.x"],
    ["deepseek-llm", "a|://|b| !!"],
    ["bloom", "a://b| ,|c|.| d"],
  ])("%s cuts punctuation: %s", splits);

  it("keeps every character, for every pre-tokenizer and any text", () => {
    const char = fc.oneof(
      fc.constantFrom(" ", "\n", "\r", "\t", "'", "s", "A", "1", ".", "日", "😀", "\u0301"),
      fc.string({ unit: "binary", minLength: 1, maxLength: 1 }),
    );
    const text = fc.array(char, { maxLength: 30 }).map((chars) => chars.join(""));
    for (const preTokenizer of new Set(PRE_TOKENIZERS.values())) {
      fc.assert(
        fc.property(text, (value) => {
          const words = splitWords(value, preTokenizer);
          expect(words.join("")).toBe(value);
          expect(words).not.toContain("");
        }),
        { seed: 9, numRuns: 60 },
      );
    }
  });

  it("splits long runs of one kind without a retry at each position", () => {
    for (const preTokenizer of new Set(PRE_TOKENIZERS.values())) {
      for (const unit of [" ", "a", "A", "1", "日", "!", "\n", "\u0301"]) {
        const text = `${unit.repeat(100_000)}1x`;
        const start = computedMs();
        expect(splitWords(text, preTokenizer).join("")).toBe(text);
        // Linear time takes milliseconds; quadratic time would take a minute.
        expect(computedMs() - start).toBeLessThan(10_000);
      }
    }
  });
});
