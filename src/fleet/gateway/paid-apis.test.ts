/**
 * Paid APIs behind the gateway, with the official clients of both dialects: complete answers, streams and tool loops.
 */
import type Anthropic from "@anthropic-ai/sdk";
import type OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startAnthropicServer } from "../../../test/helpers/providers/anthropic-server.js";
import { startBedrockServer } from "../../../test/helpers/providers/bedrock-server.js";
import { type Gateway, startGateway } from "../../../test/helpers/providers/gateway.js";
import { startGoogleServer } from "../../../test/helpers/providers/google-server.js";
import { startOpenaiServer } from "../../../test/helpers/providers/openai-server.js";
import type { ProviderServer } from "../../../test/helpers/providers/provider-server.js";

const KEY = "sk-test-0123456789abcdef";
const AWS = {
  accessKeyId: "AKIDEXAMPLE0000",
  secretAccessKey: "wJalrXUtnFEMI/K7MDENG",
  region: "us-east-1",
  sessionToken: "IQoJb3JpZ2lu",
};
const CLAUDE = "us.anthropic.claude-opus-4-6-v1:0";

const servers: Record<string, ProviderServer> = {};
let gateway: Gateway;

beforeAll(async () => {
  servers.openai = await startOpenaiServer({ keys: [KEY] });
  servers.compatible = await startOpenaiServer({ keys: [KEY], showsReasoning: true });
  servers.azure = await startOpenaiServer({ keys: [KEY], azureVersion: "2024-10-21" });
  servers.anthropic = await startAnthropicServer({ keys: [KEY] });
  servers.google = await startGoogleServer({ keys: [KEY] });
  servers.bedrock = await startBedrockServer(AWS);
  const signed = {
    "access-key-id": AWS.accessKeyId,
    "secret-access-key": AWS.secretAccessKey,
    "session-token": AWS.sessionToken,
    "aws-region": AWS.region,
  };
  const at = (name: string) => servers[name]!.url;
  gateway = await startGateway({
    models: [
      {
        name: "openai",
        engine: "openai",
        provider: { responses: "translate" },
        attach: [{ url: `${at("openai")}/v1`, "api-key": KEY, "model-name": "gpt-5.2" }],
      },
      {
        name: "compatible",
        engine: "openai",
        provider: { responses: "translate" },
        attach: [{ url: at("compatible"), probe: false, "api-key": KEY }],
      },
      {
        name: "azure",
        engine: "azure",
        provider: { "api-version": "2024-10-21", responses: "translate" },
        attach: [{ url: at("azure"), "api-key": KEY, "model-name": "gpt-deployed" }],
      },
      {
        name: "anthropic",
        engine: "anthropic",
        attach: [{ url: at("anthropic"), "api-key": KEY, "model-name": "claude-opus-4-6" }],
      },
      {
        name: "google",
        engine: "google",
        attach: [{ url: at("google"), "api-key": KEY, "model-name": "gemini-3.5-flash" }],
      },
      { name: "bedrock", engine: "bedrock", attach: [{ url: at("bedrock"), ...signed, "model-name": CLAUDE }] },
      {
        name: "bedrock-key",
        engine: "bedrock",
        attach: [{ url: at("bedrock"), "api-key": "ABSKQmVkcm9ja0FQSUtleQ", "model-name": CLAUDE }],
      },
      {
        name: "invoke",
        engine: "bedrock",
        provider: { "bedrock-api": "invoke" },
        attach: [{ url: at("bedrock"), ...signed, "model-name": CLAUDE }],
      },
    ],
  });
});

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  for (const server of Object.values(servers)) await server[Symbol.asyncDispose]();
});

const MODELS = ["openai", "compatible", "azure", "anthropic", "google", "bedrock", "bedrock-key", "invoke"];
const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const chatTool: OpenAI.ChatCompletionTool = {
  type: "function",
  function: { name: "get_weather", description: "Weather of a city", parameters },
};
const messagesTool: Anthropic.Tool = {
  name: "get_weather",
  description: "Weather of a city",
  input_schema: parameters as Anthropic.Tool.InputSchema,
};
const system = "Be brief.";
/** The client adds this only to complete answers. */
const textOf = ({ output }: OpenAI.Responses.Response): string =>
  output
    .map((item) => (item.type === "message" ? item.content.map((part) => "text" in part && part.text) : ""))
    .join("");

describe.each(MODELS)("OpenAI's client and %s", (model) => {
  const ask = (content: string): OpenAI.ChatCompletionMessageParam[] => [
    { role: "system", content: system },
    { role: "user", content },
  ];

  test("a whole answer", async () => {
    const answer = await gateway.openai.chat.completions.create({
      model,
      messages: ask("hello"),
      max_tokens: 50,
      temperature: 0.5,
      stop: ["END"],
    });
    expect(answer.choices[0]).toMatchObject({
      index: 0,
      finish_reason: "stop",
      message: { role: "assistant", content: "Hello, world! 😀" },
    });
    const prompt = ["openai", "compatible", "azure", "google"].includes(model) ? 20 : 24;
    expect(answer.usage).toMatchObject({
      prompt_tokens: prompt,
      completion_tokens: 9,
      total_tokens: prompt + 9,
      prompt_tokens_details: { cached_tokens: 8 },
    });
  });

  test("a stream, with and without counts", async () => {
    for (const includeUsage of [true, false]) {
      const stream = gateway.openai.chat.completions.stream({
        model,
        messages: ask("hello"),
        ...(includeUsage ? { stream_options: { include_usage: true } } : {}),
      });
      let numUsages = 0;
      for await (const chunk of stream) if (chunk.usage != null) numUsages++;
      const final = await stream.finalChatCompletion();
      expect(final.choices[0]!.message.content).toBe("Hello, world! 😀");
      expect(final.choices[0]!.finish_reason).toBe("stop");
      expect(numUsages).toBe(includeUsage ? 1 : 0);
      if (includeUsage)
        expect(final.usage).toMatchObject({ completion_tokens: 9, prompt_tokens_details: { cached_tokens: 8 } });
    }
  });

  test.each([false, true])("a loop of two calls at once, streamed: %s", async (isStream) => {
    const messages = ask("the weather twice, please");
    const ending = async () => {
      const body = { model, messages, tools: [chatTool], tool_choice: "auto" as const };
      if (!isStream) return await gateway.openai.chat.completions.create(body);
      return await gateway.openai.chat.completions.stream(body).finalChatCompletion();
    };
    const first = (await ending()).choices[0]!;
    expect(first.finish_reason).toBe("tool_calls");
    const calls = first.message.tool_calls as OpenAI.ChatCompletionMessageFunctionToolCall[];
    expect(calls.map((call) => [call.function.name, JSON.parse(call.function.arguments)])).toEqual([
      ["get_weather", { city: "Köln" }],
      ["get_weather", { city: "Oslo" }],
    ]);
    expect(new Set(calls.map(({ id }) => id)).size).toBe(2);
    messages.push(first.message);
    for (const { id } of calls) messages.push({ role: "tool", tool_call_id: id, content: '{"sky":"clear"}' });
    const last = (await ending()).choices[0]!;
    expect(last).toMatchObject({ finish_reason: "stop", message: { content: "It is sunny: ☀." } });
  });
});

describe.each(MODELS)("Anthropic's client and %s", (model) => {
  test("a whole answer", async () => {
    const answer = await gateway.anthropic.messages.create({
      model,
      max_tokens: 50,
      system,
      messages: [{ role: "user", content: "hello" }],
    });
    expect(answer).toMatchObject({ type: "message", role: "assistant", stop_reason: "end_turn", stop_sequence: null });
    expect(answer.content).toMatchObject([{ type: "text", text: "Hello, world! 😀" }]);
    const isOpenais = ["openai", "compatible", "azure", "google"].includes(model);
    expect(answer.usage).toMatchObject({
      input_tokens: 12,
      cache_read_input_tokens: 8,
      cache_creation_input_tokens: isOpenais ? 0 : 4,
      output_tokens: 9,
    });
  });

  test("a stream", async () => {
    const stream = gateway.anthropic.messages.stream({
      model,
      max_tokens: 50,
      messages: [{ role: "user", content: "hello" }],
    });
    const final = await stream.finalMessage();
    expect(final.content).toMatchObject([{ type: "text", text: "Hello, world! 😀" }]);
    expect(final).toMatchObject({ stop_reason: "end_turn", usage: { output_tokens: 9 } });
  });

  test.each([false, true])("a loop of two calls at once, streamed: %s", async (isStream) => {
    const messages: Anthropic.MessageParam[] = [
      { role: "user", content: [{ type: "text", text: "the weather twice", cache_control: { type: "ephemeral" } }] },
    ];
    const ending = async () => {
      const body = { model, max_tokens: 100, messages, tools: [messagesTool], tool_choice: { type: "auto" as const } };
      return isStream
        ? await gateway.anthropic.messages.stream(body).finalMessage()
        : await gateway.anthropic.messages.create(body);
    };
    const first = await ending();
    expect(first.stop_reason).toBe("tool_use");
    const calls = first.content.filter((block) => block.type === "tool_use");
    expect(calls.map(({ name, input }) => [name, input])).toEqual([
      ["get_weather", { city: "Köln" }],
      ["get_weather", { city: "Oslo" }],
    ]);
    messages.push({ role: "assistant", content: first.content as Anthropic.ContentBlockParam[] });
    messages.push({
      role: "user",
      content: calls.map(({ id }) => ({ type: "tool_result", tool_use_id: id, content: "clear" })),
    });
    const last = await ending();
    expect(last.stop_reason).toBe("end_turn");
    expect(last.content).toMatchObject([{ type: "text", text: "It is sunny: ☀." }]);
  });
});

describe.each(MODELS)("OpenAI's client of responses and %s", (model) => {
  const instructions = system;
  const tools: OpenAI.Responses.Tool[] = [
    { type: "function", name: "get_weather", description: "Weather of a city", parameters, strict: false },
  ];
  const prompt = ["openai", "compatible", "azure", "google"].includes(model) ? 20 : 24;
  type Body = OpenAI.Responses.ResponseCreateParamsNonStreaming;
  const ending = async (body: Body, isStream: boolean): Promise<OpenAI.Responses.Response> => {
    if (!isStream) return await gateway.openai.responses.create(body);
    return await gateway.openai.responses.stream(body as Omit<Body, "stream">).finalResponse();
  };

  test.each([false, true])("an answer, streamed: %s", async (isStream) => {
    const answer = await ending({ model, instructions, input: "hello", max_output_tokens: 50 }, isStream);
    expect(answer).toMatchObject({ object: "response", status: "completed", instructions, max_output_tokens: 50 });
    expect(textOf(answer)).toBe("Hello, world! 😀");
    expect(answer.usage).toMatchObject({
      input_tokens: prompt,
      input_tokens_details: { cached_tokens: 8 },
      output_tokens: 9,
      total_tokens: prompt + 9,
    });
  });

  test.each([
    [false, "its items"],
    [true, "its items"],
    [false, "its id"],
    [true, "its id"],
  ])("a loop of two calls at once, streamed: %s, that goes on with %s", async (isStream, how) => {
    const input: OpenAI.Responses.ResponseInput = [{ role: "user", content: "the weather twice, please" }];
    const hasItems = how === "its items";
    const first = await ending({ model, instructions, input, tools, store: !hasItems }, isStream);
    const calls = first.output.filter((item) => item.type === "function_call");
    expect(calls.map((call) => [call.name, JSON.parse(call.arguments)])).toEqual([
      ["get_weather", { city: "Köln" }],
      ["get_weather", { city: "Oslo" }],
    ]);
    expect(new Set(calls.map(({ call_id }) => call_id)).size).toBe(2);
    const results = calls.map(({ call_id }) => ({
      type: "function_call_output" as const,
      call_id,
      output: '{"sky":"clear"}',
    }));
    const next = hasItems
      ? { input: [...input, ...(first.output as OpenAI.Responses.ResponseInput), ...results], store: false }
      : { input: results, previous_response_id: first.id };
    const last = await ending({ model, instructions, tools, ...next }, isStream);
    expect(textOf(last)).toBe("It is sunny: ☀.");
    expect(last.previous_response_id).toBe(hasItems ? null : first.id);
    if (hasItems) return;
    const kept = await gateway.openai.responses.retrieve(last.id);
    expect([kept.output.map(({ id }) => id), textOf(kept)]).toEqual([last.output.map(({ id }) => id), textOf(last)]);
  });
});

describe("thoughts and their signatures", () => {
  test.each([
    "anthropic",
    "google",
    "bedrock",
    "invoke",
    "compatible",
  ])("of %s reach a client of responses, and its loop goes on with them", async (model) => {
    for (const isStream of [false, true]) {
      const input: OpenAI.Responses.ResponseInput = [{ role: "user", content: "think, then silently the weather" }];
      const ending = async () => {
        const tools = [{ type: "function" as const, name: "get_weather", parameters, strict: false }];
        const body = { model, input, tools, reasoning: { summary: "auto" as const }, store: false };
        if (!isStream) return await gateway.openai.responses.create(body);
        return await gateway.openai.responses.stream(body).finalResponse();
      };
      const first = await ending();
      const thoughts = first.output.flatMap((item) => (item.type === "reasoning" ? item.summary : []));
      expect(thoughts.map(({ text }) => text).join("")).toBe("The user wants a word.");
      const [call] = first.output.flatMap((item) => (item.type === "function_call" ? [item] : []));
      input.push(...(first.output as OpenAI.Responses.ResponseInput));
      input.push({ type: "function_call_output", call_id: call!.call_id, output: "clear" });
      expect(textOf(await ending())).toBe("It is sunny: ☀.");
      const { body } = servers[model === "invoke" ? "bedrock" : model]!.asked.at(-1)!;
      const signature = { google: "CiQBVKhc7hSm4vJ0", compatible: undefined }[model] ?? "EqoBCkgI";
      if (model !== "compatible") expect(JSON.stringify(body)).toContain(signature);
    }
  });

  test.each([
    "anthropic",
    "google",
    "bedrock",
    "invoke",
    "compatible",
  ])("of %s reach Anthropic's client, and its loop goes on with them", async (model) => {
    for (const isStream of [false, true]) {
      const messages: Anthropic.MessageParam[] = [{ role: "user", content: "think, then silently the weather" }];
      const ending = async () => {
        const body: Anthropic.MessageCreateParamsNonStreaming = {
          model,
          max_tokens: 9000,
          messages,
          tools: [messagesTool],
          thinking: { type: "adaptive" },
        };
        return isStream
          ? await gateway.anthropic.messages.stream(body).finalMessage()
          : await gateway.anthropic.messages.create(body);
      };
      const first = await ending();
      const thoughts = first.content.flatMap((block) => (block.type === "thinking" ? [block] : []));
      expect(thoughts.map(({ thinking }) => thinking).join("")).toBe("The user wants a word.");
      const [call] = first.content.flatMap((block) => (block.type === "tool_use" ? [block] : []));
      expect(call!.input).toEqual({ city: "Köln" });
      if (model === "google") expect(thoughts.at(-1)!.signature).toContain("CiQBVKhc7hSm4vJ0");
      messages.push({ role: "assistant", content: first.content as Anthropic.ContentBlockParam[] });
      messages.push({ role: "user", content: [{ type: "tool_result", tool_use_id: call!.id, content: "clear" }] });
      expect((await ending()).content.at(-1)).toMatchObject({ type: "text", text: "It is sunny: ☀." });
      if (model !== "google") continue;
      const { contents } = servers.google!.asked.at(-1)!.body as { contents: { parts: object[] }[] };
      expect(contents[1]!.parts).toContainEqual(expect.objectContaining({ thoughtSignature: "CiQBVKhc7hSm4vJ0" }));
    }
  });

  test.each([
    "anthropic",
    "google",
    "bedrock",
    "invoke",
    "compatible",
  ])("of %s reach OpenAI's client as reasoning_content", async (model) => {
    const body = { model, messages: [{ role: "user" as const, content: "think" }], reasoning_effort: "low" as const };
    const { message } = (await gateway.openai.chat.completions.create(body)).choices[0]!;
    expect(message).toMatchObject({ content: "Hello, world! 😀", reasoning_content: "The user wants a word." });
    let streamed = "";
    for await (const chunk of await gateway.openai.chat.completions.create({ ...body, stream: true })) {
      streamed += (chunk.choices[0]?.delta as { reasoning_content?: string }).reasoning_content ?? "";
    }
    expect(streamed).toBe("The user wants a word.");
  });
});

test("what each attempt used is counted apart, whatever the provider's way of counting", async () => {
  const counted = async (model: string) => {
    const { usage } = await gateway.openai.chat.completions.create({
      model,
      messages: [{ role: "user", content: "hello" }],
    });
    return [usage!.prompt_tokens, usage!.prompt_tokens_details!.cached_tokens, usage!.completion_tokens];
  };
  // Anthropic and Bedrock report 12 fresh, 8 read and 4 written tokens; OpenAI and Google 20, of which 8 were read.
  for (const model of ["anthropic", "bedrock", "invoke"]) expect(await counted(model)).toEqual([24, 8, 9]);
  for (const model of ["openai", "azure", "google"]) expect(await counted(model)).toEqual([20, 8, 9]);
});
