/**
 * Providers' requests for chat completions, field by field. Servers that refuse other fields: test/helpers/providers.
 */
import { describe, expect, test } from "vitest";
import { asked, asMessages, CHAT, PNG, parameters } from "../../../../test/helpers/providers/asked.js";
import { ofChat } from "../../ollama/request.js";

const schema = { type: "object", properties: { a: { type: "number" } }, required: ["a"], additionalProperties: false };

/** Everything that all providers have. */
const chat = {
  messages: [
    { role: "system", content: "Be brief." },
    { role: "developer", content: [{ type: "text", text: "Be kind." }] },
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
  max_tokens: 100,
  temperature: 0.3,
  top_p: 0.9,
  stop: ["END"],
  tools: [{ type: "function", function: { name: "look", description: "Looks", parameters } }],
  tool_choice: "required",
  response_format: { type: "json_schema", json_schema: { name: "cat", schema, strict: true } },
  reasoning_effort: "high",
  user: "u1",
  stream: true,
};

describe("chat completions", () => {
  test("to Anthropic", () => {
    const { path, headers, body } = asked("anthropic", CHAT, chat, {}, "claude-opus-4-6");
    expect([path, headers]).toEqual(["/v1/messages", { "anthropic-version": "2023-06-01", "x-api-key": "a-secret" }]);
    expect(body).toEqual({
      model: "claude-opus-4-6",
      ...asMessages,
      tool_choice: { type: "any" },
      temperature: 0.3,
      top_p: 0.9,
      stop_sequences: ["END"],
      thinking: { type: "adaptive" },
      output_config: { effort: "high", format: { type: "json_schema", schema } },
      metadata: { user_id: "u1" },
      stream: true,
    });
  });

  test("to Google", () => {
    const { path, headers, body } = asked("google", CHAT, chat, {}, "gemini-3.5-flash");
    expect([path, headers]).toEqual([
      "/v1beta/models/gemini-3.5-flash:streamGenerateContent?alt=sse",
      { "x-goog-api-key": "a-secret" },
    ]);
    expect(body).toEqual({
      systemInstruction: { parts: [{ text: "Be brief." }, { text: "Be kind." }] },
      contents: [
        { role: "user", parts: [{ text: "What is this?" }, { inlineData: { mimeType: "image/png", data: PNG } }] },
        {
          role: "model",
          parts: [
            { text: "I look." },
            {
              functionCall: { id: "call_1", name: "look", args: { q: "x" } },
              thoughtSignature: "skip_thought_signature_validator",
            },
          ],
        },
        {
          role: "user",
          parts: [{ functionResponse: { id: "call_1", name: "look", response: { result: "a cat" } } }, { text: "So?" }],
        },
      ],
      tools: [{ functionDeclarations: [{ name: "look", description: "Looks", parametersJsonSchema: parameters }] }],
      toolConfig: { functionCallingConfig: { mode: "ANY" } },
      generationConfig: {
        maxOutputTokens: 100,
        temperature: 0.3,
        topP: 0.9,
        stopSequences: ["END"],
        responseMimeType: "application/json",
        responseJsonSchema: schema,
        thinkingConfig: { thinkingLevel: "high", includeThoughts: true },
      },
    });
  });

  test("to Bedrock", () => {
    const { path, headers, body, dropped } = asked("bedrock", CHAT, chat);
    expect([path, headers]).toEqual([
      "/model/us.anthropic.claude%3A1/converse-stream",
      { authorization: "Bearer a-secret" },
    ]);
    expect(dropped).toMatchObject({ "x-millrace-dropped-params": "user" });
    expect(body).toEqual({
      system: [{ text: "Be brief." }, { text: "Be kind." }],
      messages: [
        { role: "user", content: [{ text: "What is this?" }, { image: { format: "png", source: { bytes: PNG } } }] },
        {
          role: "assistant",
          content: [{ text: "I look." }, { toolUse: { toolUseId: "call_1", name: "look", input: { q: "x" } } }],
        },
        {
          role: "user",
          content: [{ toolResult: { toolUseId: "call_1", content: [{ text: "a cat" }] } }, { text: "So?" }],
        },
      ],
      inferenceConfig: { maxTokens: 100, temperature: 0.3, topP: 0.9, stopSequences: ["END"] },
      toolConfig: {
        tools: [{ toolSpec: { name: "look", description: "Looks", inputSchema: { json: parameters } } }],
        toolChoice: { any: {} },
      },
      additionalModelRequestFields: { thinking: { type: "adaptive" }, output_config: { effort: "high" } },
      outputConfig: {
        textFormat: { type: "json_schema", structure: { jsonSchema: { name: "cat", schema: JSON.stringify(schema) } } },
      },
    });
  });

  test("to OpenAI and Azure the body goes as it is, with counts asked for", () => {
    const sent = { ...chat, unheard_of: { a: [1] }, logprobs: true };
    const openai = asked("openai", CHAT, sent, {}, "gpt-5.2");
    expect([openai.path, openai.headers]).toEqual(["/chat/completions", { authorization: "Bearer a-secret" }]);
    expect(openai.body).toEqual({ ...sent, model: "gpt-5.2", stream_options: { include_usage: true } });
    const dated = asked("azure", CHAT, chat, { apiVersion: "2024-10-21" }, "my deployment");
    expect([dated.path, dated.headers]).toEqual([
      "/openai/deployments/my%20deployment/chat/completions?api-version=2024-10-21",
      { "api-key": "a-secret" },
    ]);
    expect(asked("azure", CHAT, chat).path).toBe("/openai/v1/chat/completions");
    expect(asked("openai", "/v1/embeddings", { input: [new Int32Array([1, 2])] }).body).toMatchObject({
      input: [[1, 2]],
    });
    expect(asked("openai", CHAT, { ...chat, stream: false }).body).not.toHaveProperty("stream_options");
  });

  test.each([
    "anthropic",
    "google",
    "bedrock",
    "openai",
  ] as const)("Ollama's defaults are no fields for %s", (engine) => {
    const penalties = { repeat_last_n: 64, repeat_penalty: 1, presence_penalty: 0 };
    const filters = { typical_p: 1, min_p: 0, top_n_sigma: -1, xtc_probability: 0, xtc_threshold: 0.1 };
    const range = { dynatemp_range: 0, dynatemp_exponent: 1 };
    const dry = { dry_multiplier: 0, dry_base: 1.75, dry_allowed_length: 2, dry_sequence_breakers: [":"] };
    const options = { ...penalties, ...filters, ...range, ...dry, dry_penalty_last_n: -1 };
    const ask = (given: object) =>
      asked(engine, CHAT, ofChat({ messages: [{ role: "user", content: "x" }], options: given }));
    const [plain, ollama] = [ask({ presence_penalty: 0 }), ask(options)];
    expect([ollama.body, ollama.dropped]).toEqual([plain.body, plain.dropped]);
  });

  test.each([
    ["typical_p", { typical_p: 0.9 }],
    ["top_n_sigma", { top_n_sigma: 1 }],
    ["repeat_last_n", { repeat_last_n: 64, frequency_penalty: 0.5 }],
    ["xtc_probability", { xtc_probability: 0.5, xtc_threshold: 0.1 }],
    ["dynatemp_exponent", { dynatemp_exponent: 1, dynatemp_range: 0.5 }],
    ["dry_base", { dry_base: 2, dry_multiplier: 0.8 }],
  ])("a sampler that is on is refused: %s", (param, body) => {
    const messages = [{ role: "user", content: "x" }];
    const ask = () => asked("google", CHAT, { messages, ...body });
    expect(ask).toThrow(expect.objectContaining({ code: "unsupported_field", param }));
  });

  test("a budget of thought follows the effort, within max_tokens, and not in the middle of a loop without thoughts", () => {
    const budget = { thinking: "budget" } as const;
    const simple = { messages: [{ role: "user", content: "x" }], reasoning_effort: "medium" };
    expect(asked("anthropic", CHAT, { ...simple, max_tokens: 20_000 }, budget).body).toMatchObject({
      thinking: { type: "enabled", budget_tokens: 8192 },
    });
    expect(asked("anthropic", CHAT, { ...simple, max_tokens: 3000 }, budget).body).toMatchObject({
      thinking: { budget_tokens: 2999 },
    });
    const tight = asked("anthropic", CHAT, { ...simple, max_tokens: 1000 }, budget);
    expect(tight.body).not.toHaveProperty("thinking");
    expect(tight.dropped).toMatchObject({ "x-millrace-dropped-params": "reasoning_effort" });
    const loop = { messages: chat.messages.slice(0, 5), tools: chat.tools, reasoning_effort: "low", max_tokens: 9000 };
    expect(asked("anthropic", CHAT, loop, budget).body).not.toHaveProperty("thinking");
    expect(asked("google", CHAT, { ...simple, reasoning_effort: "none" }, budget).body).toMatchObject({
      generationConfig: { thinkingConfig: { thinkingBudget: 0 } },
    });
    expect(asked("anthropic", CHAT, { ...simple, reasoning_effort: "none" }).body).toMatchObject({
      thinking: { type: "disabled" },
    });
  });

  test("max_tokens where a provider insists on it, one call at a time, long ids", () => {
    const long = `call_${"x".repeat(60)}`;
    const body = {
      messages: [
        { role: "user", content: "x" },
        {
          role: "assistant",
          content: null,
          tool_calls: [{ id: long, type: "function", function: { name: "f", arguments: "" } }],
        },
        { role: "tool", tool_call_id: long, content: "y" },
      ],
      tools: [{ type: "function", function: { name: "f" } }],
      parallel_tool_calls: false,
    };
    const made = asked("anthropic", CHAT, body).body as { messages: { content: Record<string, unknown>[] }[] };
    expect(made).toMatchObject({
      max_tokens: 4096,
      tool_choice: { type: "auto", disable_parallel_tool_use: true },
      tools: [{ input_schema: { type: "object", properties: {} } }],
    });
    const [, call, result] = made.messages.map(({ content }) => content[0]!);
    expect(call!.id).toMatch(/^call_[0-9a-f]{24}$/);
    expect(result!.tool_use_id).toBe(call!.id);
  });

  test.each([
    ["a first message of the user", "anthropic", { messages: [{ role: "assistant", content: "x" }] }],
    [
      "images in base64",
      "google",
      { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "https://x/y.png" } }] }] },
    ],
    [
      "images in base64",
      "bedrock",
      { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "https://x/y.png" } }] }] },
    ],
    [
      "text or image_url",
      "anthropic",
      { messages: [{ role: "user", content: [{ type: "input_audio", input_audio: {} }] }] },
    ],
    [
      "system messages before all others",
      "anthropic",
      {
        messages: [
          { role: "user", content: "x" },
          { role: "system", content: "y" },
        ],
      },
    ],
    ["no parallel_tool_calls", "google", { ...chat, parallel_tool_calls: false }],
    [
      "a result of a call in the conversation",
      "google",
      {
        messages: [
          { role: "user", content: "x" },
          { role: "tool", tool_call_id: "lost", content: "y" },
        ],
      },
    ],
    [
      "the JSON of an object",
      "anthropic",
      {
        messages: [
          { role: "user", content: "x" },
          { role: "assistant", tool_calls: [{ id: "a", type: "function", function: { name: "f", arguments: "[1" } }] },
        ],
      },
    ],
    ["tools of type function", "anthropic", { ...chat, tools: [{ type: "custom", custom: { name: "x" } }] }],
    ["messages to be a list of at least one", "anthropic", { messages: [] }],
    ["temperature to be a number", "google", { ...chat, temperature: "hot" }],
  ] as const)("refused: %s for %s", (message, engine, body) => {
    expect(() => asked(engine, CHAT, body)).toThrow(message);
  });
});
