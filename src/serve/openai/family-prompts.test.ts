/** The input of some families' templates: ids, tools in the system message, calls as messages. */
import { describe, expect, it } from "vitest";
import { ask, writing } from "../../../test/helpers/ask.js";
import { deepseekOwnTemplate, glm4Template, kimiTemplate } from "../../../test/helpers/chat-templates.js";
import { ChatTemplate } from "../../text/template/chat-template.js";
import type { AppOptions } from "../http/context.js";

const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const weather = { name: "weather", description: "Weather of a city", parameters };
const tools = [{ type: "function", function: weather }];
const messages: object[] = [{ role: "user", content: "hi" }];

async function post(fields: object, text: string, overrides: Partial<AppOptions>) {
  const answer = await ask("/v1/chat/completions", { messages, ...fields }, writing(text), overrides);
  return { ...answer, choice: answer.body.choices?.[0] };
}

describe("calls", () => {
  it("of Kimi K2 have ids of their function and their number in the conversation, and so have results", async () => {
    const made = (id: string) => ({ id, type: "function", function: { name: "weather", arguments: "{}" } });
    const turns = [
      ...messages,
      { role: "assistant", content: null, tool_calls: [made("a"), made("b")] },
      { role: "tool", tool_call_id: "b", content: "rain" },
      { role: "tool", tool_call_id: "a", content: "sun" },
      { role: "assistant", content: null, tool_calls: [made("a")] },
      { role: "tool", tool_call_id: "a", content: "fog" },
      { role: "tool", tool_call_id: "other", content: "snow" },
    ];
    const forced = { tools, messages: turns, tool_choice: { type: "function", function: { name: "weather" } } };
    const { prompt, choice } = await post(forced, "{}<|tool_call_end|>", { chatTemplate: kimiTemplate });
    const ids = [...prompt.matchAll(/<\|tool_call_begin\|>(.*?)<|Return of (.*)\n(.*)</g)].map(
      ([, called, id, result]) => called ?? `${id} ${result}`,
    );
    expect(ids).toEqual([
      "functions.weather:0",
      "functions.weather:1",
      "functions.weather:1 rain",
      "functions.weather:0 sun",
      "functions.weather:2",
      "functions.weather:2 fog",
      "other snow",
      "functions.weather:3",
    ]);
    expect(choice.message.tool_calls[0].function).toEqual({ name: "weather", arguments: "{}" });
  });

  it("of GLM-4-0414 are messages with metadata, and their results observations", async () => {
    const chatTemplate = glm4Template;
    const made = (id: string, city: string) => ({
      id,
      type: "function",
      function: { name: "weather", arguments: `{"city": "${city}"}` },
    });
    const turns = [
      ...messages,
      { role: "assistant", content: "I look.", tool_calls: [made("a", "Rome"), made("b", "Oslo")] },
      { role: "tool", tool_call_id: "a", content: "sun" },
      { role: "tool", tool_call_id: "b", content: "fog" },
      { role: "assistant", content: null, tool_calls: [made("c", "Bonn")] },
      { role: "tool", tool_call_id: "c", content: "ice" },
    ];
    const answer = "weather\n{}<|assistant|>weather\n{}";
    const { prompt, choice } = await post({ tools, messages: turns }, answer, { chatTemplate });
    expect(prompt.slice(prompt.indexOf("<|user|>"))).toBe(
      [
        "<|user|>\nhi<|assistant|>\nI look.",
        '<|assistant|>weather\n{"city": "Rome"}<|assistant|>weather\n{"city": "Oslo"}',
        '<|observation|>\nsun<|observation|>\nfog<|assistant|>weather\n{"city": "Bonn"}<|observation|>\nice<|assistant|>',
      ].join(""),
    );
    expect(choice.message).toMatchObject({ content: null, tool_calls: [{}, {}] });
    const named = { type: "function", function: { name: "weather" } };
    for (const [tool_choice, opening, rest] of [
      [named, "weather\n", "{}"],
      ["required", "", "weather\n{}"],
    ] as const) {
      const forced = await post({ tools, tool_choice }, rest, { chatTemplate });
      expect(forced.prompt.endsWith(`<|assistant|>${opening}`)).toBe(true);
      expect(forced.grammar).toContain("city");
      expect(forced.choice.message).toMatchObject({ content: null, tool_calls: [{ function: { arguments: "{}" } }] });
    }
    const strict = [{ type: "function", function: { ...weather, strict: true } }];
    const { grammar } = await post({ tools: strict }, "ok", { chatTemplate });
    // A call, nothing, or a text after a line break.
    expect(grammar).toMatch(/= \(r\d+ \| "" \| \("\\U0000000a" r\d+\)\)/);
  });

  it("of Kimi K2 end a thought that has no end", async () => {
    const source = `{#- <think> #}${kimiTemplate.source}`;
    const call = "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>{}";
    const { choice } = await post({ tools }, `<think>hm\n${call}`, { chatTemplate: new ChatTemplate(source) });
    expect(choice.message).toMatchObject({
      content: null,
      reasoning: "hm",
      tool_calls: [{ function: { name: "weather", arguments: "{}" } }],
    });
    // A grammar holds the thought until its end, and leaves the opener in its text.
    const strict = [{ type: "function", function: { ...weather, strict: true } }];
    const held = await post({ tools: strict }, `<think>hm ${call}</think>ok`, {
      chatTemplate: new ChatTemplate(source),
    });
    expect(held.choice.message).toMatchObject({ content: "ok", reasoning: `hm ${call}` });
  });

  it("of DeepSeek have their tools in the system message where the template prints none", async () => {
    const chatTemplate = deepseekOwnTemplate;
    const call =
      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>";
    const { prompt, choice } = await post({ tools }, call, { chatTemplate });
    expect(prompt).toMatch(/^<\|system\|>## Tools\nYou have access to the following tools:\n\n### weather\n/);
    expect(prompt).toContain('\nDescription: Weather of a city\n\nParameters: {"type": "object", "properties": {');
    expect(prompt).toContain(
      "function<｜tool▁sep｜>tool_call_name\n```json\ntool_call_arguments\n```<｜tool▁call▁end｜>",
    );
    expect(choice.message.tool_calls[0].function).toEqual({ name: "weather", arguments: "{}" });
    const made = { id: "c1", type: "function", function: { name: "weather", arguments: "{}" } };
    const bare = { type: "function", function: { name: "now" } };
    const turns = [
      { role: "system", content: "Be brief." },
      ...messages,
      { role: "assistant", content: null, tool_calls: [made] },
      { role: "tool", tool_call_id: "c1", content: "sun" },
    ];
    const later = await post({ tools: [bare], messages: turns }, "ok", { chatTemplate });
    expect(later.prompt).toMatch(/^<\|system\|>Be brief.\n\n## Tools\n/);
    expect(later.prompt).toContain("### now\nDescription: \n\nParameters: {}\n");
    expect(later.prompt).toContain(`<|user|>hi<|assistant|>${call}<|tool|>sun<|assistant|>`);
    expect((await post({}, "ok", { chatTemplate })).prompt).toBe("<|user|>hi<|assistant|>");
    expect((await post({ tools, tool_choice: "none" }, call, { chatTemplate })).prompt).not.toContain("weather");
  });
});
