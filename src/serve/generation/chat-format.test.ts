/** What published templates show of their models, and that calls as they write them are read back. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { fakeTokenizer } from "../../../test/helpers/fake-tokenizer.js";
import { fixturesDir } from "../../../test/helpers/fixtures.js";
import { callOpening, type ToolCallFormat } from "../../text/answer/call-format.js";
import { ToolCallParser } from "../../text/answer/tool-call-parser.js";
import { ChatTemplate } from "../../text/template/chat-template.js";
import { readChatFormat } from "./chat-format.js";

const root = fixturesDir();
const folder = join(root, "templates");
const isPresent = existsSync(folder);
if (!isPresent)
  console.warn(
    `SKIPPED: formats of published chat templates, because ${folder} does not exist (set MILLRACE_FIXTURES)`,
  );

function load(file: string): ChatTemplate {
  return new ChatTemplate(readFileSync(join(folder, `${file}.jinja`), "utf8"), { bosToken: "<s>", eosToken: "</s>" });
}

type Facts = readonly [file: string, takesTools: boolean, format: string | undefined, hasReasoning: boolean];

const FACTS: readonly Facts[] = [
  ["Qwen-Qwen2.5-7B-Instruct", true, "hermes", false],
  ["Qwen-Qwen3-0.6B", true, "hermes", true],
  ["meta-llama-Llama-3.3-70B-Instruct", true, "llama3_json", false],
  ["mistralai-Mistral-Nemo-Instruct-2407", true, "mistral", false],
  ["google-gemma-2-2b-it", false, undefined, false],
  ["microsoft-Phi-3.5-mini-instruct", false, undefined, false],
];

describe.skipIf(!isPresent)("published templates (needs fixtures/templates)", () => {
  it.each(FACTS)("%s", (file, takesTools, format, hasReasoning) => {
    const facts = readChatFormat({ tokenizer: fakeTokenizer, chatTemplate: load(file) });
    expect({ ...facts, toolCalls: facts.toolCalls?.name }).toMatchObject({
      takesTools,
      toolCalls: format,
      hasReasoning,
    });
  });

  it.each(FACTS.filter(([, takesTools]) => takesTools))("%s: its own calls are read back", (file) => {
    const chatTemplate = load(file);
    const toolCalls = readChatFormat({ tokenizer: fakeTokenizer, chatTemplate }).toolCalls as ToolCallFormat;
    const call = { id: "abcdefghi", type: "function", function: { name: "weather", arguments: '{"city": "Paris"}' } };
    const messages = [
      { role: "user", content: "hi" },
      { role: "assistant", content: "", tool_calls: [call] },
    ];
    const text = chatTemplate.render({ messages, addGenerationPrompt: false });
    const opening = callOpening(toolCalls!, "weather");
    expect(text).toContain(opening);
    const parser = new ToolCallParser(toolCalls!, { toolNames: new Set(["weather"]), isSingle: true });
    expect([...parser.push(text.slice(text.indexOf(opening))), ...parser.flush()]).toEqual([
      { kind: "call", index: 0, name: "weather" },
      { kind: "arguments", index: 0, text: '{"city": "Paris"}' },
    ]);
  });
});
