/** Providers' requests for responses, field by field. Servers that refuse other fields: test/helpers/providers. */
import { describe, expect, test } from "vitest";
import { asked, asMessages, CHAT, PNG, parameters, RESPONSES } from "../../../../test/helpers/providers/asked.js";

const schema = { type: "object", properties: { a: { type: "number" } }, required: ["a"], additionalProperties: false };
const sealed = (kind: string, value: string) => ({
  type: "reasoning",
  id: "rs_1",
  summary: [{ type: "summary_text", text: "Hm." }],
  encrypted_content: `millrace-${kind}:${value}`,
});

/** Everything that all providers have. */
const responses = {
  instructions: "Be brief.",
  input: [
    { role: "developer", content: [{ type: "input_text", text: "Be kind." }] },
    {
      type: "message",
      role: "user",
      content: [
        { type: "input_text", text: "What is this?" },
        { type: "input_image", image_url: `data:image/png;base64,${PNG}`, detail: "auto" },
      ],
    },
    {
      id: "msg_1",
      type: "message",
      status: "completed",
      role: "assistant",
      content: [{ type: "output_text", text: "I look.", annotations: [], logprobs: [] }],
    },
    { id: "fc_1", type: "function_call", status: "completed", call_id: "call_1", name: "look", arguments: '{"q":"x"}' },
    { type: "function_call_output", call_id: "call_1", output: "a cat" },
    { role: "user", content: "So?" },
  ],
  max_output_tokens: 100,
  temperature: 0.3,
  top_p: 0.9,
  tools: [{ type: "function", name: "look", description: "Looks", parameters, strict: false }],
  tool_choice: "required",
  text: { format: { type: "json_schema", name: "cat", schema, strict: true }, verbosity: "medium" },
  reasoning: { effort: "high", summary: "auto" },
  include: ["reasoning.encrypted_content"],
  store: false,
  user: "u1",
  stream: true,
};

describe("responses", () => {
  test("to Anthropic", () => {
    const { path, headers, body, dropped } = asked("anthropic", RESPONSES, responses, {}, "claude-opus-4-6");
    expect([path, headers]).toEqual(["/v1/messages", { "anthropic-version": "2023-06-01", "x-api-key": "a-secret" }]);
    expect(dropped).not.toHaveProperty("x-millrace-dropped-params");
    expect(body).toEqual({
      model: "claude-opus-4-6",
      ...asMessages,
      tool_choice: { type: "any" },
      temperature: 0.3,
      top_p: 0.9,
      thinking: { type: "adaptive" },
      output_config: { effort: "high", format: { type: "json_schema", schema } },
      metadata: { user_id: "u1" },
      stream: true,
    });
  });

  test("to a host with chats only", () => {
    const { path, body } = asked("openai", RESPONSES, responses, { responses: "translate" }, "open-weights");
    expect(path).toBe("/chat/completions");
    expect(body).toEqual({
      model: "open-weights",
      messages: [
        {
          role: "system",
          content: [
            { type: "text", text: "Be brief." },
            { type: "text", text: "Be kind." },
          ],
        },
        {
          role: "user",
          content: [
            { type: "text", text: "What is this?" },
            { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } },
          ],
        },
        {
          role: "assistant",
          content: "I look.",
          tool_calls: [{ id: "call_1", type: "function", function: { name: "look", arguments: '{"q":"x"}' } }],
        },
        { role: "tool", tool_call_id: "call_1", content: "a cat" },
        { role: "user", content: "So?" },
      ],
      tools: [{ type: "function", function: { name: "look", description: "Looks", parameters } }],
      tool_choice: "required",
      max_completion_tokens: 100,
      temperature: 0.3,
      top_p: 0.9,
      response_format: { type: "json_schema", json_schema: { name: "cat", schema, strict: true } },
      reasoning_effort: "high",
      user: "u1",
      stream: true,
      stream_options: { include_usage: true },
    });
  });

  test("a text, to each other provider", () => {
    const body = { input: "Hi", max_output_tokens: 9 };
    expect(asked("google", RESPONSES, body, {}, "gemini").body).toEqual({
      contents: [{ role: "user", parts: [{ text: "Hi" }] }],
      generationConfig: { maxOutputTokens: 9 },
    });
    const messages = [{ role: "user", content: [{ text: "Hi" }] }];
    expect(asked("bedrock", RESPONSES, body).body).toEqual({ messages, inferenceConfig: { maxTokens: 9 } });
    const invoked = asked("bedrock", RESPONSES, body, { bedrockApi: "invoke" }).body;
    expect(invoked).toMatchObject({ anthropic_version: "bedrock-2023-05-31", max_tokens: 9 });
    expect(asked("azure", RESPONSES, body, { responses: "translate" }).path).toBe("/openai/v1/chat/completions");
  });

  test("as they are to OpenAI, without what another provider's answers brought", () => {
    const own = { type: "reasoning", id: "rs_2", summary: [], encrypted_content: "gAAAA" };
    const input = [{ role: "user", content: "x" }, sealed("thought", ""), own];
    const body = { ...responses, previous_response_id: "resp_1", input };
    const { path, body: sent } = asked("openai", RESPONSES, body, {}, "gpt-5.2");
    expect(path).toBe("/responses");
    expect(sent).toEqual({ ...body, model: "gpt-5.2", input: [input[0], own] });
    expect(asked("azure", RESPONSES, body).path).toBe("/openai/v1/responses");
    const counted = asked("openai", `${RESPONSES}/input_tokens`, body);
    expect([counted.path, counted.body.input]).toEqual(["/responses/input_tokens", sent.input]);
    const { path: older } = asked("azure", `${RESPONSES}/input_tokens`, body, { apiVersion: "2025-04-01-preview" });
    expect(older).toBe("/openai/responses/input_tokens?api-version=2025-04-01-preview");
  });

  test("a client's choice of a function, and no calls at once", () => {
    const choice = { ...responses, tool_choice: { type: "function", name: "look" }, parallel_tool_calls: false };
    const { body } = asked("anthropic", RESPONSES, choice);
    expect(body.tool_choice).toEqual({ type: "tool", name: "look", disable_parallel_tool_use: true });
  });

  test("an object without a schema, where the provider has that", () => {
    const body = { input: "JSON!", text: { format: { type: "json_object" } } };
    const chat = asked("openai", RESPONSES, body, { responses: "translate" }).body;
    expect(chat.response_format).toEqual({ type: "json_object" });
    expect(asked("google", RESPONSES, body).body.generationConfig).toEqual({ responseMimeType: "application/json" });
    expect(() => asked("anthropic", RESPONSES, body)).toThrow("expected a json_schema, or no format, for anthropic");
  });

  test.each([
    [{ effort: "none", summary: "auto" }, { type: "disabled" }],
    [{ summary: "detailed" }, { type: "adaptive" }],
    [{}, undefined],
  ])("reasoning of %j", (reasoning, thinking) => {
    expect(asked("anthropic", RESPONSES, { input: "x", reasoning }).body.thinking).toEqual(thinking);
  });

  test("what does not change the answer is left out and listed", () => {
    const hints = {
      metadata: { a: "b" },
      prompt_cache_key: "k",
      safety_identifier: "s",
      service_tier: "flex",
      client_metadata: { installation: "i" },
      max_tool_calls: 3,
      truncation: "auto",
      store: true,
    };
    const idle = { background: false, top_logprobs: 0, metadata: null, previous_response_id: null };
    const { dropped } = asked("anthropic", RESPONSES, { input: "x", ...hints });
    expect(dropped).toMatchObject({ "x-millrace-dropped-params": Object.keys(hints).join(", ") });
    const none = asked("anthropic", RESPONSES, { input: "x", ...idle, truncation: "disabled", service_tier: "auto" });
    expect(none.dropped).not.toHaveProperty("x-millrace-dropped-params");
  });

  test("the vendor's own tools are left out where the operator allows it, and the functions beside them stay", () => {
    const tools = [{ type: "web_search" }, ...responses.tools, { type: "custom", name: "apply_patch" }];
    const body = { ...responses, tools, tool_choice: "auto" };
    expect(() => asked("anthropic", RESPONSES, body)).toThrow("expected tools of type function for anthropic");
    const { body: sent, dropped } = asked("anthropic", RESPONSES, body, { dropsParams: true });
    expect(sent.tools).toEqual([{ name: "look", description: "Looks", input_schema: parameters }]);
    expect(dropped).toMatchObject({ "x-millrace-dropped-params": "tools[0].type, tools[2].type" });
    const only = { input: "x", tools: [{ type: "web_search" }], tool_choice: "auto" };
    const chat = asked("openai", RESPONSES, only, { responses: "translate", dropsParams: true }).body;
    expect(Object.keys(chat)).toEqual(["model", "messages"]);
  });

  test.each([
    ["no conversation", "unsupported_field", "conversation", { conversation: "conv_1" }],
    ["no background", "unsupported_field", "background", { background: true }],
    ["no prompt", "unsupported_field", "prompt", { prompt: { id: "p" } }],
    ["no top_logprobs", "unsupported_field", "top_logprobs", { top_logprobs: 2 }],
    [
      'no "message.output_text.logprobs"',
      "unsupported_field",
      "include",
      { include: ["message.output_text.logprobs"] },
    ],
    ["no text.verbosity", "unsupported_field", "text.verbosity", { text: { verbosity: "low" } }],
    ["no reasoning.mode", "unsupported_field", "reasoning.mode", { reasoning: { mode: "pro" } }],
    ["one function as tool_choice", "unsupported_field", "tool_choice", { tool_choice: { type: "web_search" } }],
    [
      "no items of type web_search_call",
      "unsupported_field",
      "input[1].type",
      {
        input: [
          { role: "user", content: "x" },
          { type: "web_search_call", id: "ws_1" },
        ],
      },
    ],
    [
      "text or input_image",
      "unsupported_field",
      "input[0].content[0].type",
      { input: [{ role: "user", content: [{ type: "input_file", file_id: "f" }] }] },
    ],
    [
      "the image or its address",
      "unsupported_field",
      "input[0].content[0].image_url",
      { input: [{ role: "user", content: [{ type: "input_image", file_id: "f" }] }] },
    ],
    ["a text or a list", "invalid_parameter", "input", { input: [] }],
    ["a text or a list", "invalid_parameter", "input", { input: undefined }],
    ["the role of a message", "invalid_parameter", "input[0].role", { input: [{ content: "x" }] }],
    [
      "the JSON of an object",
      "invalid_parameter",
      "input[1].arguments",
      {
        input: [
          { content: "x", role: "user" },
          { type: "function_call", call_id: "c", name: "f", arguments: "[]" },
        ],
      },
    ],
    ["a JSON Schema", "invalid_parameter", "text.format.schema", { text: { format: { type: "json_schema" } } }],
    ["at least 1", "invalid_parameter", "max_output_tokens", { max_output_tokens: 0 }],
  ])("refused: %s", (message, code, param, body) => {
    const ask = () => asked("anthropic", RESPONSES, { input: "x", ...body });
    expect(ask).toThrow(message);
    expect(ask).toThrow(expect.objectContaining({ code, param }));
  });

  test.each(["__proto__", "__defineGetter__", "toString"])("a field named %s is one of no meaning", (name) => {
    const named = JSON.parse(`{"${name}":1}`) as object;
    const refusal = (param: string) => expect.objectContaining({ code: "unsupported_field", param });
    expect(() => asked("anthropic", RESPONSES, { input: "x", ...named })).toThrow(refusal(name));
    const messages = [{ role: "user", content: "x" }];
    expect(() => asked("anthropic", CHAT, { messages, ...named })).toThrow(refusal(name));
    expect(() => asked("anthropic", RESPONSES, { input: "x", include: [named] })).toThrow(refusal("include"));
  });

  test("an image by its address, and an assistant's first word, are refused by the client's own name for them", () => {
    const image = { type: "input_image", image_url: "https://example.com/cat.png" };
    const ask = () => asked("google", RESPONSES, { input: [{ role: "user", content: [image] }] });
    expect(ask).toThrow(expect.objectContaining({ code: "unsupported_field", param: "input" }));
    const first = () => asked("anthropic", RESPONSES, { input: [{ role: "assistant", content: "x" }] });
    expect(first).toThrow(expect.objectContaining({ code: "unsupported_field", param: "input" }));
  });

  test("arguments keep to the limits of a body, although they stand in a string", () => {
    const call = { type: "function_call", call_id: "c", name: "f" };
    const args = `${'{"a":'.repeat(6000)}1${"}".repeat(6000)}`;
    const ask = () =>
      asked("anthropic", RESPONSES, {
        input: [
          { role: "user", content: "x" },
          { ...call, arguments: args },
        ],
      });
    expect(ask).toThrow(expect.objectContaining({ code: "invalid_json" }));
  });

  test("paths beside them stay unknown to other APIs", () => {
    expect(() => asked("google", "/v1/responses/compact", { input: "x" })).toThrow("a path that google has");
    const count = (responses: "pass" | "translate") =>
      asked("openai", "/v1/responses/input_tokens", { input: "x" }, { responses });
    expect(count("pass").path).toBe("/responses/input_tokens");
    expect(() => count("translate")).toThrow(
      expect.objectContaining({ code: "not_found", hint: expect.stringContaining("read `usage` in an answer") }),
    );
  });
});
