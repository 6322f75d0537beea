/** Token counts of prompts, requested in each client's dialect and answered by each provider that counts. */
import { afterEach, describe, expect, test } from "vitest";
import type { Json } from "../../../test/helpers/json.js";
import { startAnthropicServer } from "../../../test/helpers/providers/anthropic-server.js";
import { startBedrockServer } from "../../../test/helpers/providers/bedrock-server.js";
import type { Gateway } from "../../../test/helpers/providers/gateway.js";
import { startGoogleServer } from "../../../test/helpers/providers/google-server.js";
import { anthropicModel, closeAll, gatewayOf, KEY, kept } from "../../../test/helpers/providers/paid-models.js";
import type { ProviderServer } from "../../../test/helpers/providers/provider-server.js";

afterEach(closeAll);

const BEDROCK = "ABSKQmVkcm9ja0FQSUtleQ";
const CLAUDE = "us.anthropic.claude-opus-4-6";
const credentials = { accessKeyId: "AKIA", secretAccessKey: "s", region: "us-east-1" };

const bedrockModel = (url: string, api: string) => ({
  name: "m",
  engine: "bedrock",
  provider: { "bedrock-api": api },
  attach: [{ url, "api-key": BEDROCK, "aws-region": "us-east-1", "model-name": CLAUDE }],
});
const startBedrock = () => startBedrockServer(credentials, BEDROCK);

type Start = () => Promise<ProviderServer>;
const providers: readonly (readonly [string, Start, (url: string) => object, number, string])[] = [
  ["anthropic", () => startAnthropicServer({ keys: [KEY] }), anthropicModel, 14, "/v1/messages/count_tokens"],
  [
    "google",
    () => startGoogleServer({ keys: [KEY] }),
    (url) => ({ name: "m", engine: "google", attach: [{ url, "api-key": KEY, "model-name": "gemini-3" }] }),
    15,
    "/v1beta/models/gemini-3:countTokens",
  ],
  ["bedrock", startBedrock, (url) => bedrockModel(url, "converse"), 16, `/model/${CLAUDE}/count-tokens`],
  ["bedrock, invoked", startBedrock, (url) => bedrockModel(url, "invoke"), 16, `/model/${CLAUDE}/count-tokens`],
];

const schema = { type: "object" as const, properties: { city: { type: "string" } } };
const question = { role: "user" as const, content: "How warm is it?" };

describe.each(providers)("%s", (_, startServer, modelOf, count, path) => {
  const start = async (): Promise<[Gateway, ProviderServer]> => {
    const server = await kept(startServer());
    return [await gatewayOf([modelOf(server.url)]), server];
  };

  test("counts for the official clients and for chats", async () => {
    const [gateway, server] = await start();
    const counted = await gateway.openai.responses.inputTokens.count({
      model: "m",
      instructions: "Be brief.",
      input: [question],
      tools: [{ type: "function", name: "look", parameters: schema, strict: true }],
    });
    expect(counted).toEqual({ object: "response.input_tokens", input_tokens: count });
    const tools = [{ name: "look", input_schema: schema }];
    const messages = await gateway.anthropic.messages.countTokens({
      model: "m",
      system: "x",
      messages: [question],
      tools,
    });
    expect(messages.input_tokens).toBe(count);
    // Fields about answers are irrelevant to a prompt.
    const fields = { temperature: 2, seed: 1, stream: true, stop: ["x"], presence_penalty: 1, max_tokens: 5 };
    const chat = await gateway.post("/v1/chat/completions/input_tokens", {
      model: "m",
      messages: [question],
      ...fields,
    });
    expect([chat.headers.get("content-type"), await chat.json()]).toEqual([
      "application/json",
      { object: "response.input_tokens", input_tokens: count },
    ]);
    expect(server.asked.map(({ url }) => decodeURIComponent(url))).toEqual([path, path, path]);
    for (const { raw } of server.asked) expect(raw.toString()).not.toMatch(/stream|temperature|"seed"/);
  });

  test("counts what a stored conversation adds, and stores nothing", async () => {
    const [gateway, server] = await start();
    const { id } = await gateway.openai.responses.create({ model: "m", input: "Remember the sea." });
    await gateway.openai.responses.inputTokens.count({ model: "m", input: "And?", previous_response_id: id });
    const { raw } = server.asked.at(-1)!;
    const text = raw.toString();
    const body = JSON.parse(text) as Json;
    const invoked = body.input?.invokeModel?.body;
    const sent = invoked === undefined ? text : Buffer.from(invoked, "base64").toString();
    expect(sent).toContain("Remember the sea.");
    expect(sent).toContain("And?");
  });

  test("has what cannot be counted refused, and what no count is", async () => {
    const [gateway, server] = await start();
    const post = (body: object) => gateway.post("/v1/responses/input_tokens", { model: "m", ...body });
    const file = await post({ input: [{ role: "user", content: [{ type: "input_file", file_id: "f" }] }] });
    expect([file.status, ((await file.json()) as Json).error.code]).toEqual([400, "unsupported_field"]);
    for (const body of [{}, { input_tokens: -1 }, { input_tokens: "9" }, { input_tokens: 1.5 }, "{", []]) {
      server.next.push({ body: body as object, headers: { "content-type": "application/json" } });
      const answer = await post({ input: "x" });
      expect([answer.status, ((await answer.json()) as Json).error.code]).toEqual([502, "upstream_failed"]);
    }
  });
});

test("a count without a stored answer reaches OpenAI byte for byte, and nothing of the gateway's store", async () => {
  const server = await kept(startAnthropicServer({ keys: [] }));
  const model = { name: "m", engine: "openai", attach: [{ url: `${server.url}/v1`, "api-key": KEY }] };
  const gateway = await gatewayOf([model]);
  server.next.push({ body: { object: "response.input_tokens", input_tokens: 3 } });
  const text = `{"model": "m",  "input": "x", "tools": [{"type": "function", "parameters": {"minimum": 1.0}}]}`;
  const answer = await fetch(`${gateway.url}/v1/responses/input_tokens`, { method: "POST", body: text });
  expect(await answer.json()).toEqual({ object: "response.input_tokens", input_tokens: 3 });
  expect(server.asked[0]!.raw.toString()).toBe(text);
});

test("the numbers of a response's tools reach OpenAI as they were written", async () => {
  const server = await kept(startAnthropicServer({ keys: [] }));
  const model = {
    name: "m",
    engine: "openai",
    attach: [{ url: `${server.url}/v1`, "api-key": KEY, "model-name": "o" }],
  };
  const gateway = await gatewayOf([model]);
  const tools = `[{"type":"function","name":"f","parameters":{"minimum":1.0,"maximum":1e2,"seed":12345678901234567890}}]`;
  for (const [path, sent, arrives] of [
    [
      "responses",
      `{"input":"x","tools":${tools},"model":"m"}`,
      `{"store":false,"input":"x","tools":${tools},"model":"o"}`,
    ],
    [
      "responses",
      `{"store":true,"tools":${tools},"input":"x","model":"m"}`,
      `{"store":false,"tools":${tools},"input":"x","model":"o"}`,
    ],
    ["chat/completions", `{"tools":${tools},"min_p":0,"model":"m"}`, `{"tools":${tools},"model":"o"}`],
  ] as const) {
    server.next.push({ status: 400, body: { error: { message: "no" } } });
    await fetch(`${gateway.url}/v1/${path}`, { method: "POST", body: sent });
    expect(server.asked.at(-1)!.raw.toString()).toBe(arrives);
  }
});
