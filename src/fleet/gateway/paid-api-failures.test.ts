/** Failures of paid APIs: errors, hostile answers, and requests that a provider cannot express. */
import { afterEach, describe, expect, test } from "vitest";
import { startAnthropicServer } from "../../../test/helpers/providers/anthropic-server.js";
import { awsFrame, startBedrockServer } from "../../../test/helpers/providers/bedrock-server.js";
import { startOpenaiServer } from "../../../test/helpers/providers/openai-server.js";
import {
  anthropicModel,
  CHAT,
  chat,
  closeAll,
  delta,
  gatewayOf,
  KEY,
  kept,
  MESSAGES,
  messages,
  openaiModel,
  SECRET,
  sse,
  streamOf,
} from "../../../test/helpers/providers/paid-models.js";
import type { Reply } from "../../../test/helpers/providers/provider-server.js";

afterEach(closeAll);

describe("errors in the client's dialect", () => {
  test.each([
    [400, "invalid_request_error", 400, "invalid_request_error"],
    [404, "not_found_error", 404, "invalid_request_error"],
    [413, "request_too_large", 413, "invalid_request_error"],
    [500, "api_error", 500, "server_error"],
    [529, "overloaded_error", 503, "server_error"],
  ])("Anthropic's %i %s for both clients", async (status, type, chatStatus, chatType) => {
    const server = await kept(startAnthropicServer({ keys: [KEY] }));
    const gateway = await gatewayOf([anthropicModel(server.url)]);
    const body = { type: "error", error: { type, message: "the reason" } };
    server.next.push({ status, body }, { status, body });
    const native = await gateway.post(MESSAGES, messages());
    expect([native.status, await native.json()]).toMatchObject([
      status,
      { type: "error", error: { type, message: "anthropic: the reason" } },
    ]);
    const other = await gateway.post(CHAT, chat());
    expect([other.status, await other.json()]).toMatchObject([
      chatStatus,
      { error: { type: chatType, message: "anthropic: the reason", code: type } },
    ]);
  });

  test("OpenAI's keeps its param for its own clients", async () => {
    const server = await kept(startOpenaiServer({ keys: [KEY] }));
    const gateway = await gatewayOf([openaiModel(server.url)]);
    const refused = await gateway.post(CHAT, chat({ temperature: 3 }));
    expect([refused.status, await refused.json()]).toMatchObject([
      400,
      { error: { param: "temperature", type: "invalid_request_error" } },
    ]);
  });

  test("a page of a proxy in between is not passed on", async () => {
    const server = await kept(startOpenaiServer({ keys: [KEY] }));
    const gateway = await gatewayOf([openaiModel(server.url)]);
    server.next.push({
      status: 502,
      headers: { "content-type": "text/html" },
      body: "<html>Bad gateway at 10.0.0.7</html>",
    });
    const answer = await gateway.post(CHAT, chat());
    expect(answer.status).toBe(502);
    expect(await answer.text()).not.toContain("html");
  });
});

describe("requests that a provider has no words for", () => {
  test.each([
    ["anthropic", CHAT, { seed: 7 }, "seed"],
    ["anthropic", CHAT, { n: 2 }, "n"],
    ["anthropic", CHAT, { logprobs: true }, "logprobs"],
    ["anthropic", CHAT, { presence_penalty: 1 }, "presence_penalty"],
    ["anthropic", CHAT, { temperature: 1.5 }, "temperature"],
    ["anthropic", CHAT, { response_format: { type: "json_object" } }, "response_format"],
    ["anthropic", CHAT, { logit_bias: { 5: 1 } }, "logit_bias"],
    ["openai", MESSAGES, { top_k: 5 }, "top_k"],
    ["openai", MESSAGES, { container: "c" }, "container"],
  ])("%s: %s %j is refused by name, or left out and listed", async (engine, path, fields, param) => {
    const server = await kept(
      engine === "openai" ? startOpenaiServer({ keys: [KEY] }) : startAnthropicServer({ keys: [KEY] }),
    );
    const model = (more: object) => (engine === "openai" ? openaiModel : anthropicModel)(server.url, [KEY], more);
    const gateway = await gatewayOf([{ ...model({}), name: "strict" }, model({ provider: { "drop-params": true } })]);
    const body = path === CHAT ? chat(fields) : messages(fields);
    const refused = await gateway.post(path, { ...body, model: "strict" });
    expect(refused.status).toBe(400);
    expect(await refused.text()).toContain(
      `expected ${param === "temperature" ? "a temperature" : param === "response_format" ? "a json_schema" : `no ${param}`}`,
    );
    expect(server.asked).toEqual([]);
    const dropped = await gateway.post(path, body);
    expect([dropped.status, dropped.headers.get("x-millrace-dropped-params")]).toEqual([200, param]);
  });

  test("hints are left out and listed; values that mean nothing are not listed", async () => {
    const server = await kept(startAnthropicServer({ keys: [KEY] }));
    const gateway = await gatewayOf([anthropicModel(server.url)]);
    const answer = await gateway.post(
      CHAT,
      chat({ metadata: { a: "b" }, prompt_cache_key: "k", n: 1, logprobs: false, presence_penalty: 0, store: false }),
    );
    expect([answer.status, answer.headers.get("x-millrace-dropped-params")]).toEqual([
      200,
      "metadata, prompt_cache_key",
    ]);
  });

  test("a path that the provider lacks is not found", async () => {
    const server = await kept(startAnthropicServer({ keys: [KEY] }));
    const gateway = await gatewayOf([anthropicModel(server.url)]);
    const refused = await gateway.post("/v1/embeddings", { model: "m", input: "x" });
    expect([refused.status, await refused.json()]).toMatchObject([404, { error: { code: "not_found" } }]);
    const counted = await gateway.post("/v1/messages/count_tokens", {
      model: "m",
      messages: [{ role: "user", content: "x" }],
    });
    expect(await counted.json()).toEqual({ input_tokens: 14 });
  });
});

describe("hostile answers", () => {
  const cases: readonly (readonly [string, Reply])[] = [
    ["no JSON", { headers: { "content-type": "application/json" }, body: "{" }],
    ["another type", { headers: { "content-type": "text/html" }, body: "<html>" }],
    ["an empty object", { body: {} }],
    ["no choices", { body: { choices: [] } }],
    ["wrong types", { body: { choices: [{ message: { content: 5 } }] } }],
    ["deep nesting", { body: `{"choices":${"[".repeat(5000)}${"]".repeat(5000)}}` }],
    ["a compressed answer", { headers: { "content-encoding": "gzip" }, body: "x" }],
    [
      "too many bytes",
      {
        body: [`{"a":"`, ...Array<string>(20).fill("x".repeat(2 ** 20))],
        headers: { "content-type": "application/json" },
      },
    ],
  ];

  test.each(cases)("%s as a whole answer is upstream_failed, and another server gets the request", async (_, reply) => {
    const server = await kept(startOpenaiServer({ keys: [KEY] }));
    const gateway = await gatewayOf([openaiModel(server.url)]);
    server.next.push(reply);
    const answer = await gateway.post(MESSAGES, messages());
    expect([answer.status, await answer.json()]).toMatchObject([
      502,
      { error: { details: { error_code: "upstream_failed" } } },
    ]);
    const pair = await gatewayOf([openaiModel(server.url, [KEY, KEY])]);
    server.next.push(reply);
    expect((await pair.post(MESSAGES, messages())).status).toBe(200);
  });

  const long = "x".repeat(2 ** 20);
  test.each([
    ["a stream that ends early", streamOf(sse(delta("Hel")))],
    ["an event that is no JSON", streamOf(`${sse(delta("Hel"))}data: {"choices"\n\n`)],
    ["an event without end", streamOf([sse(delta("Hel")), "data: ", long, long, long, long, long])],
    ["the error of a provider", streamOf(sse(delta("Hel"), { error: { message: "the GPU fell over" } }))],
    [
      "arguments of a call that never began",
      streamOf(
        sse(delta("Hel"), {
          choices: [{ index: 0, delta: { tool_calls: [{ index: 3, function: { arguments: "{" } }] } }],
        }),
      ),
    ],
  ])("%s ends the client's stream with an error event", async (_, reply) => {
    const server = await kept(startOpenaiServer({ keys: [KEY] }));
    const gateway = await gatewayOf([openaiModel(server.url)]);
    server.next.push(reply);
    const text = await (await gateway.post(MESSAGES, messages({ stream: true }))).text();
    expect(text).toContain('"text":"Hel"');
    const last = text.trim().split("\n\n").at(-1)!;
    expect(last).toContain("event: error\n");
    expect(last).toContain("upstream_failed");
    expect(text).not.toContain("message_stop");
  });

  test("frames of AWS: a wrong checksum, an exception and a cut all end the stream with an error", async () => {
    const credentials = { accessKeyId: "AKIDEXAMPLE0000", secretAccessKey: SECRET, region: "us-east-1" };
    const server = await kept(startBedrockServer(credentials));
    const attach = {
      url: server.url,
      "access-key-id": credentials.accessKeyId,
      "secret-access-key": SECRET,
      "aws-region": "us-east-1",
    };
    const gateway = await gatewayOf([
      { name: "m", engine: "bedrock", attach: [{ ...attach, "model-name": "anthropic.claude-x" }] },
    ]);
    const event = (name: string, payload: object) =>
      awsFrame({ ":event-type": name, ":message-type": "event" }, payload);
    const text = event("contentBlockDelta", { contentBlockIndex: 0, delta: { text: "Hel" } });
    const wrong = Buffer.from(text);
    wrong[wrong.length - 6]! ^= 1;
    const exception = awsFrame(
      { ":exception-type": "throttlingException", ":message-type": "exception" },
      { message: "Too many tokens" },
    );
    for (const [bad, reason] of [
      [wrong, "checksum"],
      [exception, "throttlingException: Too many tokens"],
      [text.subarray(0, 20), "whole frames"],
    ] as const) {
      server.next.push(streamOf([text, bad], "application/vnd.amazon.eventstream"));
      const said = await (await gateway.post(CHAT, chat({ stream: true }))).text();
      expect(said).toContain('"content":"Hel"');
      expect(said).toContain(reason);
      expect(said).not.toContain("[DONE]");
    }
  });

  test("the client's leaving cuts the provider's stream", async () => {
    const server = await kept(startOpenaiServer({ keys: [KEY] }));
    const gateway = await gatewayOf([openaiModel(server.url)]);
    server.next.push(streamOf(Array.from({ length: 100_000 }, (_, i) => sse(delta(`word ${i} `)))));
    const controller = new AbortController();
    const answer = await fetch(`${gateway.url}${MESSAGES}`, {
      method: "POST",
      body: JSON.stringify(messages({ stream: true })),
      signal: controller.signal,
    });
    await answer.body!.getReader().read();
    controller.abort();
    await expect.poll(() => server.numCut.count, { timeout: 5_000 }).toBe(1);
  });
});
