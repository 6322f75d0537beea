/** What each provider is asked for the same request of a client, field by field. Servers that refuse other fields: test/helpers/providers. */
import { describe, expect, test } from "vitest";
import { type ClientRequest, type Provider, type ProviderEngine, providerRequest } from "../provider.js";

const CHAT = "/v1/chat/completions";
const MESSAGES = "/v1/messages";
const PNG = "iVBORw0KGgo=";

function asked(
  engine: ProviderEngine,
  path: string,
  body: object,
  more: Partial<Provider> = {},
  model = "us.anthropic.claude:1",
) {
  const provider: Provider = {
    engine,
    basePath: "",
    maxTokensName: "max_completion_tokens",
    apiKey: "a-secret",
    aws: undefined,
    bedrockApi: "converse",
    apiVersion: undefined,
    thinking: "effort",
    dropsParams: false,
    defaultMaxTokens: 4096,
    ...more,
  };
  const request: ClientRequest = { path, body: { model: "m", ...body }, bytes: Buffer.alloc(0), headers: {} };
  const made = providerRequest(provider, "https://host", model, request, new Date(0));
  return {
    path: made.path,
    headers: made.headers,
    body: JSON.parse(made.body.toString()) as Record<string, unknown>,
    dropped: made.translation.head().headers,
  };
}

const parameters = { type: "object", properties: { q: { type: "string" } } };
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

const messages = {
  system: [{ type: "text", text: "Be brief.", cache_control: { type: "ephemeral" } }],
  messages: [
    {
      role: "user",
      content: [
        { type: "text", text: "What is this?" },
        { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } },
      ],
    },
    {
      role: "assistant",
      content: [
        { type: "thinking", thinking: "Hm.", signature: "sig" },
        { type: "text", text: "I look." },
        { type: "tool_use", id: "toolu_1", name: "look", input: { q: "x" } },
      ],
    },
    {
      role: "user",
      content: [
        {
          type: "tool_result",
          tool_use_id: "toolu_1",
          content: [{ type: "text", text: "no such thing" }],
          is_error: true,
        },
        { type: "text", text: "So?" },
      ],
    },
  ],
  max_tokens: 20_000,
  temperature: 0.3,
  stop_sequences: ["END"],
  tools: [{ name: "look", description: "Looks", input_schema: parameters, cache_control: { type: "ephemeral" } }],
  tool_choice: { type: "tool", name: "look" },
  thinking: { type: "enabled", budget_tokens: 6000 },
  metadata: { user_id: "u1" },
};

describe("chat completions", () => {
  test("to Anthropic", () => {
    const { path, headers, body } = asked("anthropic", CHAT, chat, {}, "claude-opus-4-6");
    expect([path, headers]).toEqual(["/v1/messages", { "anthropic-version": "2023-06-01", "x-api-key": "a-secret" }]);
    expect(body).toEqual({
      model: "claude-opus-4-6",
      max_tokens: 100,
      system: [
        { type: "text", text: "Be brief." },
        { type: "text", text: "Be kind." },
      ],
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "What is this?" },
            { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } },
          ],
        },
        {
          role: "assistant",
          content: [
            { type: "text", text: "I look." },
            { type: "tool_use", id: "call_1", name: "look", input: { q: "x" } },
          ],
        },
        {
          role: "user",
          content: [
            { type: "tool_result", tool_use_id: "call_1", content: [{ type: "text", text: "a cat" }] },
            { type: "text", text: "So?" },
          ],
        },
      ],
      tools: [{ name: "look", description: "Looks", input_schema: parameters }],
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

describe("messages", () => {
  test("to OpenAI", () => {
    const { path, body, dropped } = asked("openai", MESSAGES, messages, {}, "gpt-5.2");
    expect(path).toBe("/chat/completions");
    expect(dropped).toMatchObject({ "x-millrace-dropped-params": "cache_control" });
    expect(body).toEqual({
      model: "gpt-5.2",
      messages: [
        { role: "system", content: "Be brief." },
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
          tool_calls: [{ id: "toolu_1", type: "function", function: { name: "look", arguments: '{"q":"x"}' } }],
        },
        { role: "tool", tool_call_id: "toolu_1", content: "Error: no such thing" },
        { role: "user", content: "So?" },
      ],
      tools: [{ type: "function", function: { name: "look", description: "Looks", parameters } }],
      tool_choice: { type: "function", function: { name: "look" } },
      max_completion_tokens: 20_000,
      temperature: 0.3,
      stop: ["END"],
      reasoning_effort: "medium",
      user: "u1",
    });
    expect(asked("openai", MESSAGES, messages, { maxTokensName: "max_tokens" }).body).toHaveProperty(
      "max_tokens",
      20_000,
    );
  });

  test("to Bedrock, with its marks for the cache and its thoughts", () => {
    const { body } = asked("bedrock", MESSAGES, messages, { thinking: "budget" });
    expect(body).toEqual({
      system: [{ text: "Be brief." }, { cachePoint: { type: "default" } }],
      messages: [
        { role: "user", content: [{ text: "What is this?" }, { image: { format: "png", source: { bytes: PNG } } }] },
        {
          role: "assistant",
          content: [
            { reasoningContent: { reasoningText: { text: "Hm.", signature: "sig" } } },
            { text: "I look." },
            { toolUse: { toolUseId: "toolu_1", name: "look", input: { q: "x" } } },
          ],
        },
        {
          role: "user",
          content: [
            { toolResult: { toolUseId: "toolu_1", content: [{ text: "no such thing" }], status: "error" } },
            { text: "So?" },
          ],
        },
      ],
      inferenceConfig: { maxTokens: 20_000, temperature: 0.3, stopSequences: ["END"] },
      toolConfig: {
        tools: [
          { toolSpec: { name: "look", description: "Looks", inputSchema: { json: parameters } } },
          { cachePoint: { type: "default" } },
        ],
        toolChoice: { tool: { name: "look" } },
      },
      additionalModelRequestFields: { thinking: { type: "enabled", budget_tokens: 6000 } },
    });
  });

  test("to Claude's own API on Bedrock", () => {
    const { path, body } = asked("bedrock", MESSAGES, { ...messages, stream: true }, { bedrockApi: "invoke" });
    expect(path).toBe("/model/us.anthropic.claude%3A1/invoke-with-response-stream");
    expect(body).toEqual({ ...messages, anthropic_version: "bedrock-2023-05-31" });
  });

  test("thoughts of other models do not go to Claude, and its own do", () => {
    const thought = (signature: string) => ({ type: "thinking", thinking: "Hm.", signature });
    const content = [thought("sig"), thought(""), thought("millrace-call:xyz"), { type: "text", text: "x" }];
    const sent = {
      max_tokens: 5,
      messages: [
        { role: "user", content: "x" },
        { role: "assistant", content },
        { role: "user", content: "y" },
      ],
    };
    const { body } = asked("anthropic", MESSAGES, sent);
    expect((body.messages as { content: unknown }[])[1]!.content).toEqual([content[0], content[3]]);
  });

  test("a call's signature of Google's comes back as a thought's", () => {
    const content = [
      { type: "thinking", thinking: "", signature: "millrace-call:c2ln" },
      { type: "tool_use", id: "t", name: "f", input: {} },
    ];
    const sent = {
      max_tokens: 5,
      messages: [
        { role: "user", content: "x" },
        { role: "assistant", content },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "t", content: "{}" }] },
      ],
    };
    expect((asked("google", MESSAGES, sent).body.contents as unknown[])[1]).toEqual({
      role: "model",
      parts: [{ functionCall: { id: "t", name: "f", args: {} }, thoughtSignature: "c2ln" }],
    });
  });

  test.each([
    [
      "text, image or tool_result",
      "openai",
      { messages: [{ role: "user", content: [{ type: "document", source: {} }] }] },
    ],
    [
      "tools of the client",
      "openai",
      { messages: [{ role: "user", content: "x" }], tools: [{ type: "web_search_20250305", name: "web_search" }] },
    ],
    ["no mcp_servers", "google", { messages: [{ role: "user", content: "x" }], mcp_servers: [{}] }],
    [
      "the answer's beginning",
      "openai",
      {
        messages: [
          { role: "user", content: "x" },
          { role: "assistant", content: "It is" },
        ],
      },
    ],
    ["max_tokens to be", "bedrock", { messages: [{ role: "user", content: "x" }], max_tokens: null }],
  ] as const)("refused: %s for %s", (message, engine, body) => {
    expect(() => asked(engine, MESSAGES, { max_tokens: 5, ...body })).toThrow(message);
  });
});
