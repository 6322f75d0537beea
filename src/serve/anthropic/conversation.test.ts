/** The template's input for Anthropic's messages, and the refused messages. */
import { describe, expect, it } from "vitest";
import { fakeAppOptions } from "../../../test/helpers/fake-server.js";
import type { AnthropicErrorBody } from "../../core/error-body.js";
import type { ChatTemplateInput } from "../../text/template/chat-template.js";
import { createApp } from "../app.js";
import type { UnknownFields } from "../http/context.js";

async function ask(fields: object, unknownFields: UnknownFields = "error") {
  const inputs: ChatTemplateInput[] = [];
  const chatTemplate = {
    render(input: ChatTemplateInput) {
      inputs.push(input);
      return input.messages.map(({ role, content }) => `[${role}] ${content}`).join("\n");
    },
  };
  const { engine, options } = fakeAppOptions({}, { chatTemplate, unknownFields });
  const body = JSON.stringify({ max_tokens: 2, ...fields });
  const response = await createApp(options).request("/v1/messages", { method: "POST", body });
  const json: unknown = await response.json();
  const promptIds = engine.submitted[0]?.promptIds ?? [];
  return { status: response.status, json, input: inputs[0], prompt: Buffer.from(Array.from(promptIds)).toString() };
}

async function refusal(fields: object, unknownFields?: UnknownFields): Promise<string> {
  const { status, json } = await ask(fields, unknownFields);
  expect(status).toBe(400);
  const { error } = json as AnthropicErrorBody;
  return `${error.details.error_code} ${error.message}`;
}

const user = (content: unknown) => ({ role: "user", content });
const assistant = (content: unknown) => ({ role: "assistant", content });
const text = (value: string) => ({ type: "text", text: value });

describe("messages", () => {
  it("of one role in a row are joined, and so are text blocks", async () => {
    const { input } = await ask({
      system: [text("be"), { ...text("brief"), cache_control: { type: "ephemeral" } }],
      messages: [user("a"), user([text("b"), text("c")]), assistant("d"), assistant([text("e")]), user("f")],
    });
    expect(input?.messages).toEqual([
      { role: "system", content: "be\nbrief" },
      { role: "user", content: "a\nb\nc" },
      { role: "assistant", content: "d\ne" },
      { role: "user", content: "f" },
    ]);
    expect(input?.addGenerationPrompt).toBe(true);
  });

  it("carry tool calls and results in the template's form", async () => {
    const { input } = await ask({
      messages: [
        user("weather?"),
        assistant([text("let me see"), { type: "tool_use", id: "t1", name: "weather", input: { city: "Bern" } }]),
        user([
          { type: "tool_result", tool_use_id: "t1", content: [text("rain"), text("9 degrees")] },
          { type: "tool_result", tool_use_id: "t2", content: "sun", is_error: false },
          text("and now?"),
        ]),
      ],
    });
    expect(input?.messages).toEqual([
      { role: "user", content: "weather?" },
      {
        role: "assistant",
        content: "let me see",
        tool_calls: [{ id: "t1", type: "function", function: { name: "weather", arguments: '{"city":"Bern"}' } }],
      },
      { role: "tool", content: "rain\n9 degrees", tool_call_id: "t1" },
      { role: "tool", content: "sun", tool_call_id: "t2" },
      { role: "user", content: "and now?" },
    ]);
  });

  it("pass earlier thoughts along with the text", async () => {
    const { input } = await ask({
      messages: [
        user("a"),
        assistant([
          { type: "thinking", thinking: "hm", signature: "x" },
          { type: "redacted_thinking", data: "y" },
          text("b"),
        ]),
        user("c"),
      ],
    });
    expect(input?.messages).toEqual([
      { role: "user", content: "a" },
      { role: "assistant", content: "b", reasoning_content: "hm" },
      { role: "user", content: "c" },
    ]);
  });

  it("may have documents and search results, whose text stands between tags", async () => {
    const document = { type: "document", title: "Foxes", context: null, source: { type: "text", data: "A fox." } };
    const parts = { type: "document", context: "old", source: { type: "content", content: [text("a"), text("b")] } };
    const found = {
      type: "search_result",
      source: "https://a.b",
      title: "T</title>",
      content: [text("c")],
      citations: {},
    };
    const { input } = await ask({
      messages: [
        user([document, parts, text("why?")]),
        assistant([{ type: "tool_use", id: "t1", name: "search", input: {} }]),
        user([{ type: "tool_result", tool_use_id: "t1", content: [found] }]),
      ],
    });
    expect(input?.messages.map(({ content }) => content)).toEqual([
      "<document>\n<title>Foxes</title>\nA fox.\n</document>\n" +
        "<document>\n<context>old</context>\na\nb\n</document>\nwhy?",
      "",
      "<search_result>\n<source>https://a.b</source>\n<title>T&lt;/title></title>\nc\n</search_result>",
    ]);
    const pdf = { type: "document", source: { type: "base64", media_type: "application/pdf", data: "" } };
    expect(await refusal({ messages: [user([pdf])] })).toContain(
      'messages[0].content[0].source.type: expected one of "text", "content", got "base64"',
    );
  });

  it("are refused block by block", async () => {
    expect(await refusal({ messages: [] })).toContain("empty_prompt");
    expect(await refusal({ messages: [assistant("")] })).toContain("empty_prompt");
    expect(await refusal({ messages: [user([{ type: "image", source: {} }])] })).toContain(
      'unsupported_field messages[0].content[0].type: expected "text", got "image"',
    );
    expect(await refusal({ messages: [user([{ type: "text" }])] })).toBe(
      "invalid_parameter messages[0].content[0].text: expected a string, got nothing",
    );
    expect(await refusal({ messages: [{ role: "tool", content: "a" }] })).toContain("messages[0].role");
    expect(await refusal({ messages: [assistant([{ type: "tool_result", tool_use_id: "t" }])] })).toContain(
      'expected "text", got "tool_result"',
    );
  });
});

describe("a last assistant message", () => {
  it("is continued", async () => {
    const { input, prompt } = await ask({ messages: [user("a"), assistant("The answer is")] });
    expect(input?.addGenerationPrompt).toBe(false);
    expect(prompt).toBe("[user] a\n[assistant] The answer is");
  });

  it("that is empty is dropped", async () => {
    const { input } = await ask({ messages: [user("a"), assistant("")] });
    expect(input?.messages).toEqual([{ role: "user", content: "a" }]);
    expect(input?.addGenerationPrompt).toBe(true);
  });

  it("that cannot be continued is refused", async () => {
    expect(await refusal({ messages: [user("a"), assistant("b ")] })).toContain("white space at its end");
    const call = { type: "tool_use", id: "t1", name: "weather", input: {} };
    expect(await refusal({ messages: [user("a"), assistant([call])] })).toContain("expected a tool_result");
  });
});

describe("fields", () => {
  const messages = [user("a")];

  it("without effect are accepted, others are refused", async () => {
    const neutral = { tools: [], tool_choice: { type: "auto" }, metadata: {}, service_tier: "auto", thinking: null };
    expect((await ask({ messages, ...neutral })).status).toBe(200);
    // Agents ask every model to think; this model does not mark its thoughts.
    const thinking = { type: "enabled", budget_tokens: 1024 };
    expect((await ask({ messages, thinking })).input?.kwargs).toEqual({});
    expect(await refusal({ messages, thinking: { type: "much" } })).toContain(
      'thinking.type: expected one of "disabled", "adaptive", "enabled", got "much"',
    );
    expect(await refusal({ messages, temperature: 1.5 })).toContain("expected a number in [0, 1], got 1.5");
    expect(await refusal({ messages, stop_sequences: "a" })).toContain("stop_sequences: expected up to 64");
    expect(await refusal({ messages, max_tokens: undefined })).toContain("max_tokens: expected an integer");
  });

  it("tell the template that thinking is disabled", async () => {
    expect((await ask({ messages, thinking: { type: "disabled" } })).input?.kwargs).toEqual({ enable_thinking: false });
    expect((await ask({ messages, thinking: { type: "adaptive" } })).input?.kwargs).toEqual({});
    expect((await ask({ messages })).input?.kwargs).toEqual({});
  });
});
