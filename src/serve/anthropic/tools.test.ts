/** Tools and thinking in Anthropic's messages: refusals, the template's input, and the answer. */
import { describe, expect, it } from "vitest";
import { ask, writing } from "../../../test/helpers/ask.js";
import { strangeToolTemplate, thinkingTemplate, toolTemplate } from "../../../test/helpers/chat-templates.js";
import { chatMl } from "../../../test/helpers/fake-server.js";
import type { AppOptions } from "../http/context.js";

const input_schema = { type: "object", properties: {} };
const tool = (name: string, rest: object = {}) => ({ name, input_schema, ...rest });
const tools = [tool("weather", { description: "Weather", strict: true, cache_control: {} }), tool("now")];
const messages = [{ role: "user", content: "hi" }];
const CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>';

async function post(fields: object, answer = "ok", overrides: Partial<AppOptions> = {}, path = "/v1/messages") {
  const options = { chatTemplate: toolTemplate, ...overrides };
  const counted = path === "/v1/messages" ? { max_tokens: 500 } : {};
  return ask(path, { messages, ...counted, ...fields }, writing(answer), options);
}

const UNSUPPORTED = "unsupported_field";
const plain = { chatTemplate: chatMl };

type Refusal = readonly [name: string, fields: object, message: string, code?: string, overrides?: Partial<AppOptions>];

const REFUSALS: readonly Refusal[] = [
  [
    "a tool of the provider",
    { tools: [{ type: "bash_20250124", name: "bash" }] },
    'tools[0].type: expected "custom"',
    UNSUPPORTED,
  ],
  ["a tool without a schema", { tools: [{ name: "f" }] }, "tools[0].input_schema: expected an object"],
  [
    "a strict schema that cannot be kept",
    { tools: [{ name: "f", strict: true, input_schema: { type: "object", patternProperties: { "(?<=a)b": true } } }] },
    "tools[0].input_schema: at #: expected no lookbehind",
  ],
  ["a name with a space", { tools: [tool("a b")] }, "tools[0].name: expected a name"],
  ["a name twice", { tools: [...tools, tool("now")] }, 'tools[2].name: expected names that differ, got "now" twice'],
  ["a deferred tool", { tools: [tool("f", { defer_loading: true })] }, "tools[0].defer_loading"],
  ["an unknown part", { tools: [tool("f", { colour: 1 })] }, '"tools[0].colour"', "unknown_field"],
  ["129 tools", { tools: Array.from({ length: 129 }, (_, i) => tool(`f${i}`)) }, "tools: expected at most 128"],
  ["a strange choice", { tools, tool_choice: { type: "required" } }, 'tool_choice.type: expected one of "auto", "any"'],
  [
    "a choice of an unknown tool",
    { tools, tool_choice: { type: "tool", name: "x" } },
    "tool_choice: expected the name",
  ],
  ["a required call without tools", { tool_choice: { type: "any" } }, "tool_choice: expected tools beside it"],
  ["tools for a template without", { tools }, "tools: expected a model", UNSUPPORTED, plain],
  [
    "tools in an unknown format",
    { tools },
    "tools: expected a model",
    UNSUPPORTED,
    { chatTemplate: strangeToolTemplate },
  ],
  ["thoughts without an end", { thinking: { type: "enabled" } }, "thinking.budget_tokens: expected an integer"],
];

describe("refusals", () => {
  it.each(REFUSALS)("%s", async (...refusal) => {
    const [, fields, message, code = "invalid_parameter", overrides = {}] = refusal as unknown as Refusal;
    const { status, body, fake } = await post(fields, "", overrides);
    expect(body).toMatchObject({ type: "error", error: { details: { error_code: code } } });
    expect(body.error.message).toContain(message);
    expect(body.error.message).toMatch(/expected .*got /);
    expect(status).toBe(400);
    expect(fake.engine.submitted).toHaveLength(0);
  });
});

describe("tools", () => {
  it("are passed to the template in its own form, and count_tokens counts them", async () => {
    const { prompt } = await post({ tools });
    const shown = { name: "weather", description: "Weather", parameters: input_schema };
    expect(JSON.parse(prompt.split("\n")[0]!)).toEqual([
      { type: "function", function: shown },
      { type: "function", function: { name: "now", parameters: input_schema } },
    ]);
    const { body } = await post({ tools }, "", {}, "/v1/messages/count_tokens");
    expect(body.input_tokens).toBeGreaterThan(prompt.length - 50);
  });

  it("are called in blocks next to the text", async () => {
    const { body } = await post({ tools }, `I look.\n${CALL}\n${CALL}`);
    const block = {
      type: "tool_use",
      id: expect.stringMatching(/^toolu_[0-9a-f]{32}$/),
      name: "weather",
      input: { city: "Paris" },
      caller: { type: "direct" },
    };
    expect(body.content).toEqual([{ type: "text", text: "I look." }, block, block]);
    expect(body.stop_reason).toBe("tool_use");
    expect(body.content[1].id).not.toBe(body.content[2].id);
  });

  it("are called at most once if the request says so", async () => {
    const choice = { type: "auto", disable_parallel_tool_use: true };
    const { body } = await post({ tools, tool_choice: choice }, `${CALL}${CALL}`);
    expect(body.content).toHaveLength(1);
    expect(body.stop_reason).toBe("tool_use");
  });

  it("can be forced", async () => {
    const any = await post({ tools, tool_choice: { type: "any" } });
    expect(any.prompt).toMatch(/assistant\n<tool_call>\n[^<]*$/);
    expect(any.grammar).toContain('"now\\"');
    const answer = ' {"city": "Rome"}}\n</tool_call>';
    const named = await post({ tools, tool_choice: { type: "tool", name: "weather" } }, answer);
    expect(named.prompt).toContain('"weather"');
    expect(named.body.content).toMatchObject([{ type: "tool_use", name: "weather", input: { city: "Rome" } }]);
  });

  it("are neither shown to the model nor called with tool_choice none", async () => {
    const { prompt, body } = await post({ tools, tool_choice: { type: "none" } }, CALL);
    expect(prompt).not.toContain("weather");
    expect(body).toMatchObject({ content: [{ type: "text", text: CALL }], stop_reason: "end_turn" });
  });

  it("report an answer that was cut off and one that a stop sequence ended", async () => {
    const cut = await post({ tools, max_tokens: CALL.length - 20 }, CALL);
    expect(cut.body).toMatchObject({
      content: [{ type: "tool_use", input: { city: "P" } }],
      stop_reason: "max_tokens",
    });
    const stopped = await post({ tools, stop_sequences: ["is"] }, CALL);
    expect(stopped.body).toMatchObject({ content: [{ input: { city: "Par" } }], stop_reason: "stop_sequence" });
  });
});

describe("thinking", () => {
  const thinking = { chatTemplate: thinkingTemplate };

  it("is a separate block, and its tokens are counted", async () => {
    const asked = { thinking: { type: "enabled", budget_tokens: 1024, display: "summarized" } };
    const { body, prompt } = await post(asked, "hm\n</think>\n\nyes", thinking);
    expect(prompt.endsWith("<think>\n")).toBe(true);
    expect(body.content).toEqual([
      { type: "thinking", thinking: "hm", signature: "" },
      { type: "text", text: "yes" },
    ]);
    expect(body.usage.output_tokens_details).toEqual({ thinking_tokens: "hm\n</think>".length });
  });

  it("comes before calls and is passed back to the template with them", async () => {
    const { body } = await post({ tools, thinking: { type: "adaptive" } }, `hm</think>${CALL}`, thinking);
    expect(body.content).toMatchObject([{ type: "thinking", thinking: "hm" }, { type: "tool_use" }]);
    const result = { type: "tool_result", tool_use_id: body.content[1].id, content: "sunny" };
    const turns = [...messages, { role: "assistant", content: body.content }, { role: "user", content: [result] }];
    const { prompt } = await post({ tools, messages: turns }, "", thinking);
    expect(prompt).toContain(`<think>hm</think>CALL ${body.content[1].id} weather {"city": "Paris"}`);
    expect(prompt).toContain(`sunny FOR ${body.content[1].id}`);
  });

  it("is empty if the request omits it", async () => {
    const { body } = await post({ thinking: { type: "adaptive", display: "omitted" } }, "hm</think>yes", thinking);
    expect(body.content).toEqual([
      { type: "thinking", thinking: "", signature: "" },
      { type: "text", text: "yes" },
    ]);
  });

  it("is disabled in the template", async () => {
    const { body, prompt } = await post({ thinking: { type: "disabled" } }, "yes", thinking);
    expect(prompt.endsWith("<think></think>")).toBe(true);
    expect(body.content).toEqual([{ type: "text", text: "yes" }]);
  });
});
