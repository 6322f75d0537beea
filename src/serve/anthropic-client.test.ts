/** The official Anthropic client, unchanged, against a server with a fake engine. */
import Anthropic, {
  APIUserAbortError,
  AuthenticationError,
  BadRequestError,
  NotFoundError,
  RateLimitError,
} from "@anthropic-ai/sdk";
import { afterEach, describe, expect, it } from "vitest";
import type { FakeEngineOptions } from "../../test/helpers/fake-engine.js";
import { type FakeServer, startFakeServer, until } from "../../test/helpers/fake-server.js";
import { EOS_ID } from "../../test/helpers/fake-tokenizer.js";
import { MillraceError } from "../core/errors.js";
import type { AppOptions } from "./http/context.js";

let fake: FakeServer | undefined;

async function connect(engineOptions: FakeEngineOptions = {}, overrides: Partial<AppOptions> = {}) {
  fake = await startFakeServer(engineOptions, overrides);
  return new Anthropic({ baseURL: fake.server.url, apiKey: "secret", maxRetries: 0 });
}

afterEach(async () => {
  expect(fake?.engine.numLive).toBe(0);
  await fake?.server.close();
});

const hello = [...Buffer.from("Hello, wörld"), EOS_ID];
const request = { model: "fake", max_tokens: 100, messages: [{ role: "user" as const, content: "hi" }] };

describe("messages", () => {
  it("answers whole", async () => {
    const client = await connect({ script: () => hello, numCachedTokens: 5 });
    const answer = await client.messages.create({ ...request, system: "be brief", metadata: { user_id: "someone" } });
    const { input_tokens: numCounted } = await client.messages.countTokens({
      model: "fake",
      messages: request.messages,
      system: "be brief",
    });
    expect(answer).toMatchObject({
      id: expect.stringMatching(/^msg_[0-9a-f]{32}$/),
      type: "message",
      role: "assistant",
      model: "fake",
      content: [{ type: "text", text: "Hello, wörld" }],
      stop_reason: "end_turn",
      stop_sequence: null,
      usage: {
        input_tokens: numCounted - 5,
        cache_creation_input_tokens: 0,
        cache_read_input_tokens: 5,
        output_tokens: 14,
      },
    });
    expect(answer._request_id).toMatch(/^[0-9a-f-]{36}$/);
  });

  it.each([1, 3])("streams the same (%i tokens per step)", async (tokensPerStep) => {
    const client = await connect({ script: () => hello, tokensPerStep, numCachedTokens: 5 });
    const whole = await client.messages.create(request);
    const streamed = await client.messages.stream(request).finalMessage();
    expect(streamed.content[0]).toMatchObject({ type: "text", text: "Hello, wörld" });
    expect({ ...streamed, id: "", parsed_output: null }).toMatchObject({ ...whole, id: "" });
  });

  it("streams Anthropic's events in their order", async () => {
    const client = await connect({ script: () => [97] });
    const response = await client.messages.create({ ...request, max_tokens: 2, stream: true }).asResponse();
    const events = (await response.text()).trimEnd().split("\n\n");
    expect(events.map((event) => /^event: (\w+)\ndata: {"type":"\1"/.exec(event)?.[1])).toEqual([
      "message_start",
      "content_block_start",
      "ping",
      "content_block_delta",
      "content_block_delta",
      "content_block_stop",
      "message_delta",
      "message_stop",
    ]);
    expect(response.headers.get("request-id")).toBe(response.headers.get("x-request-id"));
    expect(JSON.parse(events[6]?.split("data: ")[1] ?? "")).toMatchObject({
      delta: { stop_reason: "max_tokens", stop_sequence: null },
      usage: { output_tokens: 2 },
    });
  });

  it("names the stop sequence, and opens no block for an answer without text", async () => {
    const client = await connect({ script: () => hello });
    const params = { ...request, stop_sequences: ["nothing", "lo,"] };
    expect(await client.messages.create(params)).toMatchObject({
      content: [{ text: "Hel" }],
      stop_reason: "stop_sequence",
      stop_sequence: "lo,",
    });
    const empty = { ...request, stop_sequences: ["H"] };
    const whole = await client.messages.create(empty);
    expect(whole).toMatchObject({ content: [], stop_reason: "stop_sequence", stop_sequence: "H" });
    const streamed = await client.messages.stream(empty).finalMessage();
    expect(streamed).toMatchObject({ content: [], stop_reason: "stop_sequence", usage: whole.usage });
  });

  it("stops costing when the client aborts a stream", async () => {
    const client = await connect({ script: () => [97] });
    const stream = client.messages.stream({ ...request, max_tokens: 4000 });
    stream.once("text", () => stream.abort());
    await expect(stream.finalMessage()).rejects.toBeInstanceOf(APIUserAbortError);
    await until(() => fake?.engine.numLive === 0, "the engine request to be aborted");
    expect(fake?.engine.numAborted).toBe(1);
  });
});

describe("errors are the client's own types", () => {
  it("bad request", async () => {
    const client = await connect();
    const error = await client.messages.create({ ...request, max_tokens: 0 }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(BadRequestError);
    expect(error).toMatchObject({ status: 400, type: "invalid_request_error", errorCode: "invalid_parameter" });
    expect((error as BadRequestError).error).toMatchObject({
      type: "error",
      error: { message: "max_tokens: expected an integer in [1, 2147483647], got 0" },
      request_id: (error as BadRequestError).requestID,
    });
  });

  it("unknown model", async () => {
    const client = await connect();
    const error = await client.messages.create({ ...request, model: "other" }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(NotFoundError);
    expect(error).toMatchObject({ type: "not_found_error", errorCode: "model_not_found" });
  });

  it("wrong key, while either header opens", async () => {
    const client = await connect({ script: () => hello }, { apiKeys: ["another"] });
    const error = await client.messages.create(request).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(AuthenticationError);
    expect(error).toMatchObject({ type: "authentication_error" });
    const byKey = client.withOptions({ apiKey: "another" });
    expect((await byKey.messages.create(request)).stop_reason).toBe("end_turn");
    const byToken = client.withOptions({ apiKey: null, authToken: "another" });
    expect((await byToken.messages.create(request)).stop_reason).toBe("end_turn");
  });

  it("a full queue", async () => {
    const client = await connect({ maxWaitingRequests: 0 });
    const error = await client.messages.create(request).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(RateLimitError);
    expect(error).toMatchObject({ type: "rate_limit_error", errorCode: "queue_full" });
    expect((error as RateLimitError).headers.get("retry-after")).toBe("2");
  });

  it("in the middle of a stream", async () => {
    const client = await connect({ script: () => [97], stepsByItself: false });
    const stream = client.messages.stream(request);
    const texts: string[] = [];
    stream.on("text", (text) => texts.push(text));
    const ended = stream.finalMessage().catch((thrown: unknown) => thrown);
    await until(() => fake?.engine.numLive === 1, "the request to reach the engine");
    fake?.engine.step();
    await until(() => texts.length === 1, "the first text");
    fake?.engine.fail(new MillraceError("engine_failed", "expected a running engine, got a crash"));
    const error = await ended;
    expect(error).toBeInstanceOf(Anthropic.APIError);
    expect(error).toMatchObject({ type: "api_error", errorCode: "engine_failed" });
  });
});
