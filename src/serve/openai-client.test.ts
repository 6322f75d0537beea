/** The official OpenAI client, unchanged, against a server with a fake engine. */
import OpenAI, {
  APIUserAbortError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  RateLimitError,
} from "openai";
import { afterEach, describe, expect, it } from "vitest";
import type { FakeEngineOptions } from "../../test/helpers/fake-engine.js";
import { type FakeServer, startFakeServer, until } from "../../test/helpers/fake-server.js";
import { EOS_ID } from "../../test/helpers/fake-tokenizer.js";
import type { AppOptions } from "./http/context.js";

let fake: FakeServer | undefined;

async function connect(engineOptions: FakeEngineOptions = {}, overrides: Partial<AppOptions> = {}) {
  fake = await startFakeServer(engineOptions, overrides);
  return new OpenAI({ baseURL: `${fake.server.url}/v1`, apiKey: "secret", maxRetries: 0 });
}

afterEach(async () => {
  expect(fake?.engine.numLive).toBe(0);
  await fake?.server.close();
});

const hello = [...Buffer.from("Hello, world"), EOS_ID];
const messages = [{ role: "user" as const, content: "hi" }];

describe("chat completions", () => {
  it("answers whole", async () => {
    const client = await connect({ script: () => hello });
    const answer = await client.chat.completions.create({ model: "fake", messages });
    expect(answer.choices).toHaveLength(1);
    expect(answer.choices[0]?.message).toEqual({ role: "assistant", content: "Hello, world", refusal: null });
    expect(answer.choices[0]?.finish_reason).toBe("stop");
    expect(answer.system_fingerprint).toMatch(/^millrace-\d/);
    const promptTokens = answer.usage?.prompt_tokens ?? 0;
    expect(promptTokens).toBeGreaterThan(5);
    expect(answer.usage).toEqual({
      prompt_tokens: promptTokens,
      completion_tokens: 13,
      total_tokens: promptTokens + 13,
      prompt_tokens_details: { cached_tokens: 0 },
    });
  });

  it("streams the same, with usage at the end", async () => {
    const client = await connect({ script: () => hello });
    const stream = await client.chat.completions.create({
      model: "fake",
      messages,
      n: 2,
      stream: true,
      stream_options: { include_usage: true },
    });
    const texts = ["", ""];
    const reasons: (string | null)[] = [];
    let usage: OpenAI.CompletionUsage | null | undefined;
    for await (const chunk of stream) {
      expect(chunk.object).toBe("chat.completion.chunk");
      for (const choice of chunk.choices) {
        texts[choice.index] += choice.delta.content ?? "";
        if (choice.finish_reason !== null) reasons.push(choice.finish_reason);
      }
      usage = chunk.usage;
    }
    expect(texts).toEqual(["Hello, world", "Hello, world"]);
    expect(reasons).toEqual(["stop", "stop"]);
    expect(usage?.completion_tokens).toBe(26);
  });

  it("gives log-probabilities with their bytes", async () => {
    const client = await connect({ script: () => [...Buffer.from("é"), EOS_ID] });
    const answer = await client.chat.completions.create({ model: "fake", messages, logprobs: true, top_logprobs: 2 });
    const content = answer.choices[0]?.logprobs?.content ?? [];
    expect(content.map((entry) => entry.token)).toEqual(["bytes:\\xc3", "bytes:\\xa9"]);
    expect(content[0]?.bytes).toEqual([0xc3]);
    expect(content[0]?.top_logprobs).toHaveLength(2);
    expect(answer.choices[0]?.message.content).toBe("é");
  });

  it("stops costing when the client aborts a stream", async () => {
    const client = await connect({ script: () => [97] });
    const controller = new AbortController();
    const stream = await client.chat.completions.create(
      { model: "fake", messages, stream: true },
      { signal: controller.signal },
    );
    for await (const chunk of stream) {
      if (chunk.choices[0]?.delta.content) break;
    }
    controller.abort();
    await until(() => fake?.engine.numLive === 0, "the engine request to be aborted");
    expect(fake?.engine.numAborted).toBe(1);
  });

  it("stops costing when the client gives up waiting for a whole answer", async () => {
    const client = await connect({ stepsByItself: false });
    const controller = new AbortController();
    const answer = client.chat.completions.create({ model: "fake", messages }, { signal: controller.signal });
    await until(() => fake?.engine.numLive === 1, "the request to reach the engine");
    controller.abort();
    await expect(answer).rejects.toBeInstanceOf(APIUserAbortError);
    await until(() => fake?.engine.numLive === 0, "the engine request to be aborted");
  });
});

describe("completions", () => {
  it("echoes with log-probabilities", async () => {
    const client = await connect();
    const answer = await client.completions.create({
      model: "fake",
      prompt: "ab",
      echo: true,
      logprobs: 1,
      max_tokens: 2,
    });
    const choice = answer.choices[0]!;
    expect(choice.text).toBe("abab");
    expect(choice.finish_reason).toBe("length");
    expect(choice.logprobs?.tokens).toEqual(["<s>", "a", "b", "a", "b"]);
    expect(choice.logprobs?.text_offset).toEqual([0, 0, 1, 2, 3]);
    expect(choice.logprobs?.token_logprobs?.[0]).toBeNull();
    expect(answer.usage?.prompt_tokens).toBe(3);
  });

  it("takes a batch of id prompts and streams it", async () => {
    const client = await connect();
    const stream = await client.completions.create({
      model: "fake",
      prompt: [[97, 98], [99]],
      max_tokens: 3,
      stream: true,
    });
    const texts = ["", ""];
    for await (const chunk of stream) {
      for (const choice of chunk.choices) texts[choice.index] += choice.text;
    }
    expect(texts).toEqual(["aba", "ccc"]);
  });
});

describe("responses", () => {
  it("answers whole", async () => {
    const client = await connect({ script: () => hello });
    const answer = await client.responses.create({ model: "fake", input: "hi", instructions: "be brief" });
    expect(answer.output_text).toBe("Hello, world");
    expect(answer.status).toBe("completed");
    expect(answer.usage?.output_tokens).toBe(13);
  });

  it("streams the documented events", async () => {
    const client = await connect({ script: () => [97] });
    const stream = await client.responses.create({ model: "fake", input: "hi", max_output_tokens: 2, stream: true });
    const events: OpenAI.Responses.ResponseStreamEvent[] = [];
    for await (const event of stream) events.push(event);
    expect(events.map((event) => event.type)).toEqual([
      "response.created",
      "response.in_progress",
      "response.output_item.added",
      "response.content_part.added",
      "response.output_text.delta",
      "response.output_text.delta",
      "response.output_text.done",
      "response.content_part.done",
      "response.output_item.done",
      "response.incomplete",
    ]);
    expect(events.map((event) => event.sequence_number)).toEqual(events.map((_, index) => index));
  });
});

describe("errors are the client's own types", () => {
  it("bad request, with code and param", async () => {
    const client = await connect();
    const answer = client.chat.completions.create({ model: "fake", messages, temperature: 7 });
    const error = await answer.catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(BadRequestError);
    expect(error).toMatchObject({ status: 400, code: "invalid_parameter", param: "temperature" });
    expect((error as Error).message).toContain("expected a number in [0, 2], got 7");
  });

  it("unknown model", async () => {
    const client = await connect();
    await expect(client.chat.completions.create({ model: "other", messages })).rejects.toBeInstanceOf(NotFoundError);
    await expect(client.models.retrieve("other")).rejects.toBeInstanceOf(NotFoundError);
    expect((await client.models.list()).data.map((model) => model.id)).toEqual(["fake"]);
  });

  it("wrong key", async () => {
    const client = await connect({}, { apiKeys: ["another"] });
    await expect(client.models.list()).rejects.toBeInstanceOf(AuthenticationError);
  });

  it("a deadline, after which the client does not try again", async () => {
    const client = (await connect({ stepsByItself: false })).withOptions({ maxRetries: 2 });
    const params = { model: "fake", messages, timeout: 1 };
    const error = await client.chat.completions.create(params).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(InternalServerError);
    expect(error).toMatchObject({ status: 504, code: "deadline_exceeded" });
    expect(fake?.engine.submitted).toHaveLength(1);
    expect(fake?.engine.numAborted).toBe(1);
  });

  it("a deadline in the middle of a stream", async () => {
    const client = await connect({ stepsByItself: false });
    const params = { model: "fake", messages, stream: true as const, timeout: 1 };
    const opened = client.chat.completions.create(params);
    await until(() => fake?.engine.numLive === 1, "the request to reach the engine");
    fake?.engine.step();
    const read = async () => {
      for await (const _ of await opened);
    };
    await expect(read()).rejects.toMatchObject({ code: "deadline_exceeded" });
  });

  it("a full queue", async () => {
    const client = await connect({ maxWaitingRequests: 1 });
    const answer = client.chat.completions.create({ model: "fake", messages, n: 2 });
    const error = await answer.catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(RateLimitError);
    expect((error as RateLimitError).headers.get("retry-after")).toBe("2");
  });
});
