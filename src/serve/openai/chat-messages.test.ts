import { describe, expect, it } from "vitest";
import { ask } from "../../../test/helpers/ask.js";
import { ChatTemplate } from "../../text/template/chat-template.js";

const turnsOf = (content: string): ChatTemplate =>
  new ChatTemplate(
    `{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' + ${content} + '<|im_end|>\\n' }}{%- endfor %}`,
  );
const asItIs = turnsOf("m.content");
const trimming = turnsOf("(m.content | trim)");
const thinking = turnsOf("(m.content | replace('</think>', '</think>\\n\\n'))");

const opened = (content: string) => ({
  messages: [
    { role: "user", content: "hi" },
    { role: "assistant", content },
  ],
  max_tokens: 4,
});
const OPENING = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n";

describe("the last message, continued", () => {
  it.each([
    ["a character that the template writes after it", "<", asItIs, "<"],
    ["a letter of the template's", "e", asItIs, "e"],
    ["white space at its end", "def f():\n    ", asItIs, "def f():\n    "],
    ["white space at its end, trimmed by the template", "\n def f():\n    ", trimming, "def f():\n    "],
    ["what the template goes on with in white space", "<think>hm</think>", thinking, "<think>hm</think>\n\n"],
  ])("%s", async (_, content, chatTemplate, continued) => {
    const body = { ...opened(content), continue_final_message: true };
    const { prompt } = await ask("/v1/chat/completions", body, {}, { chatTemplate });
    expect(prompt).toBe(OPENING + continued);
  });

  it.each(["<", "e"])("as a prefill of /v1/messages: %s", async (content) => {
    const { prompt } = await ask("/v1/messages", opened(content), {}, { chatTemplate: asItIs });
    expect(prompt).toBe(OPENING + content);
  });

  it.each([
    ["changes it", "one", turnsOf("(m.content | upper)")],
    ["changes a part of it", "one", turnsOf("(m.content | replace('one', 'two'))")],
    ["drops it", "one", turnsOf("''")],
    ["has nothing of it", " \n", asItIs],
  ])("is refused where the template %s", async (_, content, chatTemplate) => {
    const body = { ...opened(content), continue_final_message: true };
    const answer = await ask("/v1/chat/completions", body, {}, { chatTemplate });
    expect([answer.status, answer.body.error]).toMatchObject([
      400,
      { code: "template_failed", param: "continue_final_message" },
    ]);
  });
});
