/** The formats that published templates reveal, and the parsing of calls in these formats. */
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

type Facts = readonly [file: string, takesTools: boolean, format: string | undefined, thoughts: string | undefined];

/** The models whose file is in the folder. */
const FACTS: readonly Facts[] = (
  [
    ["Qwen-Qwen2.5-7B-Instruct", true, "hermes", undefined],
    ["Qwen-Qwen3-0.6B", true, "hermes", "<think>"],
    ["meta-llama-Llama-3.3-70B-Instruct", true, "llama3_json", undefined],
    ["mistralai-Mistral-Nemo-Instruct-2407", true, "mistral", undefined],
    ["google-gemma-2-2b-it", false, undefined, undefined],
    ["microsoft-Phi-3.5-mini-instruct", false, undefined, undefined],
    ["HuggingFaceTB-SmolLM3-3B", false, undefined, "<think>"],
    ["GLM-4.6", true, "glm45", "<think>"],
    ["GLM-4.7-Flash", true, "glm45", "<think>"],
    ["Qwen3-Coder", true, "qwen3_coder", undefined],
    ["Qwen3.5-4B", true, "qwen3_coder", "<think>"],
    ["NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", true, "qwen3_coder", "<think>"],
    ["ByteDance-Seed-OSS", true, "seed_oss", "<seed:think>"],
    ["ibm-granite-granite-3.3-2B-Instruct", true, "granite", "<think>"],
    ["ibm-granite-granite-4.0", true, "hermes", undefined],
    ["mistralai-Ministral-3-14B-Reasoning-2512", true, "mistral", "[THINK]"],
    ["llama-cpp-microsoft-Phi-4-mini-instruct", true, "phi4_mini_json", undefined],
    ["allenai-Olmo-3", true, "olmo3", undefined],
    ["deepseek-ai-DeepSeek-V3.1", true, "deepseek_v31", "<think>"],
    ["deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", true, "deepseek_v3", "<think>"],
    ["moonshotai-Kimi-K2", true, "kimi_k2", undefined],
    ["moonshotai-Kimi-K2-Thinking", true, "kimi_k2", "<think>"],
    ["NVIDIA-Nemotron-Nano-v2", true, "nemotron_json", "<think>"],
    ["unsloth-MiniMax-M2", true, "minimax_m2", "<think>"],
  ] as const
).filter(([file]) => existsSync(join(folder, `${file}.jinja`)));

describe.skipIf(!isPresent)("published templates (needs fixtures/templates)", () => {
  it.each(FACTS)("%s", (file, takesTools, format, thoughts) => {
    const facts = readChatFormat({ tokenizer: fakeTokenizer, chatTemplate: load(file) });
    expect([facts.takesTools, facts.toolCalls?.name, facts.reasoningMarkers?.open]).toEqual([
      takesTools,
      format,
      thoughts,
    ]);
  });

  it.each(
    FACTS.filter(([file, takesTools]) => takesTools && load(file).printsCalls),
  )("%s: its own calls are read back", (file) => {
    const chatTemplate = load(file);
    const toolCalls = readChatFormat({ tokenizer: fakeTokenizer, chatTemplate }).toolCalls as ToolCallFormat;
    // The id of a conversation's first call.
    const id = toolCalls.templateCallId?.("abcdefghi", "weather", 0) ?? "abcdefghi";
    const call = { id, type: "function", function: { name: "weather", arguments: '{"city": "Paris"}' } };
    const messages = [
      { role: "user", content: "hi" },
      { role: "assistant", content: "", tool_calls: [call] },
    ];
    const text = chatTemplate.render({ messages, addGenerationPrompt: false });
    const opening = callOpening(toolCalls!, "weather");
    expect(text).toContain(opening);
    const parser = new ToolCallParser(toolCalls!, {
      tools: new Map([["weather", { properties: { city: { type: "string" } } }]]),
      isSingle: true,
    });
    expect([...parser.push(text.slice(text.indexOf(opening))), ...parser.flush()]).toEqual([
      { kind: "call", index: 0, name: "weather" },
      { kind: "arguments", index: 0, text: '{"city": "Paris"}' },
    ]);
  });
});
