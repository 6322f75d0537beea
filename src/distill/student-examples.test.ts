import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { fixture } from "../../test/helpers/fixtures.js";
import { createHfTokenizer } from "../text/hf/create-tokenizer.js";
import { ChatTemplate } from "../text/template/chat-template.js";
import type { AnsweredPrompt } from "./answers.js";
import { parsePrompts } from "./prompts.js";
import { endOfAnswer, examplesOf } from "./student-examples.js";

const folder = fixture("hf-tokenizers/qwen2");
const numTokens = (() => {
  const { model, added_tokens: added } = JSON.parse(readFileSync(join(folder, "tokenizer.json"), "utf8"));
  return (
    Math.max(...Object.values(model.vocab as Record<string, number>), ...added.map(({ id }: { id: number }) => id)) + 1
  );
})();
const tokenizer = createHfTokenizer(folder, numTokens);
const idOf = (special: string): number => tokenizer.encode(special, { addSpecial: false, parseSpecial: true })[0]!;

const CHATML =
  "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}" +
  "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n\n</think>\n\n{% endif %}";
const reader = { tokenizer, template: new ChatTemplate(CHATML) };

function answered(
  ...pairs: readonly (readonly [question: string, text: string, end?: "stop" | "length"])[]
): AnsweredPrompt[] {
  return pairs.map(([content, text, end = "stop"]) => {
    const [prompt] = parsePrompts(JSON.stringify({ messages: [{ role: "user", content }] }), "file");
    return { prompt: prompt!, answer: { id: prompt!.id, text, end, numPromptTokens: 1, numOutputTokens: 1 } };
  });
}

test("an example is the prompt that the engine computes, the answer, and the end of the turn", () => {
  const [example] = examplesOf(answered(["Two and two?", "4 <|im_end|> is text"]), reader, 1000).examples;
  const { ids, num_prompt: numPrompt } = example!;
  expect(tokenizer.decode(ids.slice(0, numPrompt), { keepSpecial: true })).toBe(
    "<|im_start|>user\nTwo and two?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
  );
  expect(tokenizer.decode(ids.slice(numPrompt), { keepSpecial: true })).toBe("4 <|im_end|> is text<|im_end|>");
  // An answer's words are text: only the turn's own end is a special token.
  expect(ids.slice(numPrompt).filter((id) => id === idOf("<|im_end|>"))).toHaveLength(1);
  expect(ids.at(-1)).toBe(idOf("<|im_end|>"));
});

test("a template without an end of turn ends answers with the end of the text", () => {
  const plain = new ChatTemplate("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}");
  expect(endOfAnswer({ tokenizer, template: plain })).toEqual([tokenizer.eosId]);
  const endless = {
    ...tokenizer,
    encode: tokenizer.encode.bind(tokenizer),
    eosId: undefined,
    stopIds: new Set<number>(),
  };
  expect(() => endOfAnswer({ tokenizer: endless, template: plain })).toThrow(/ends answers/);
});

test("answers that were cut off, and chats that are too long, are left out", () => {
  const items = answered(["Short?", "Yes"], ["Cut?", "And then", "length"], ["Long?", "very ".repeat(200)]);
  const { examples, numTooLong } = examplesOf(items, reader, 100);
  expect(examples).toHaveLength(1);
  expect(numTooLong).toBe(1);
});
