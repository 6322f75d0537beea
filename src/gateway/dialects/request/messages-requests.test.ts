/** Providers' requests for messages, field by field. Servers that refuse other fields: test/helpers/providers. */
import { describe, expect, test } from "vitest";
import { asked, MESSAGES, PNG, parameters } from "../../../../test/helpers/providers/asked.js";

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
