/**
 * Translated responses behind the gateway's policies: they are counted, priced, guarded, kept and handed to batches
 * like
 * other requests of a paid API.
 */
import type OpenAI from "openai";
import { toFile } from "openai";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Json } from "../../../test/helpers/json.js";
import { startAnthropicServer } from "../../../test/helpers/providers/anthropic-server.js";
import { type Gateway, startGateway } from "../../../test/helpers/providers/gateway.js";
import type { ProviderServer } from "../../../test/helpers/providers/provider-server.js";
import { eventsOf, replayed } from "../../../test/helpers/replayed-response.js";
import { until } from "../../../test/helpers/until.js";

const KEY = "sk-test-0123456789abcdef";
const ADMIN = "boss-0123456789";
const SHOP = "sk-shop-0123456789";
const PATH = "/v1/responses";
/** 12 fresh tokens at $1, 8 read for free, 4 written at $1, and 9 output tokens at $10 a million. */
const DOLLARS = 0.000106;

let anthropic: ProviderServer;
let gateway: Gateway | undefined;

beforeEach(async () => {
  anthropic = await startAnthropicServer({ keys: [KEY] });
});
afterEach(async () => {
  await gateway?.[Symbol.asyncDispose]();
  gateway = undefined;
  await anthropic[Symbol.asyncDispose]();
});

async function start(more: object = {}, limits: object = { budget: { day: "100" } }): Promise<void> {
  gateway = await startGateway({
    "admin-key": ADMIN,
    "api-keys": [{ tenant: "shop", key: SHOP, limits }],
    ledger: { "cost-header": true },
    models: [
      {
        name: "claude",
        engine: "anthropic",
        price: { input: "1", output: "10", "cache-read": "0", "cache-write": "1" },
        attach: [{ url: anthropic.url, "api-key": KEY, "model-name": "claude-opus-4-6" }],
      },
    ],
    ...more,
  });
}

const asking = { model: "claude", input: "hello", max_output_tokens: 50 };
const post = (body: object = {}) => gateway!.post(PATH, { ...asking, ...body }, { authorization: `Bearer ${SHOP}` });
const get = async (path: string, key = SHOP): Promise<Json> =>
  await (await fetch(gateway!.url + path, { headers: { authorization: `Bearer ${key}` } })).json();

async function spent(): Promise<number> {
  return await until(async () => {
    const { day } = (await get("/v1/key")).scopes.find(({ budgets }: Json) => budgets.day).budgets;
    return Number(day.reserved) === 0 ? Number(day.spent) : undefined;
  });
}

test("a whole answer and a stream cost what their tokens cost, in the answer, the budget and the ledger", async () => {
  await start();
  const whole = await post();
  expect(Number(whole.headers.get("x-millrace-cost"))).toBeCloseTo(DOLLARS, 9);
  const { usage } = (await whole.json()) as Json;
  expect(Number(usage.cost)).toBeCloseTo(DOLLARS, 9);
  const { response } = replayed(await (await post({ stream: true })).text());
  expect(response).toMatchObject({ status: "completed", usage: { input_tokens: 24, output_tokens: 9 } });
  expect(Number((response!.usage as Json).cost)).toBeCloseTo(DOLLARS, 9);
  expect(await spent()).toBeCloseTo(2 * DOLLARS, 9);
  const { data } = await until(async () => {
    const rows = await get("/admin/ledger/requests", ADMIN);
    return rows.data.length === 2 ? rows : undefined;
  });
  for (const row of data)
    expect(row).toMatchObject({ path: PATH, attempts: [{ engine: "anthropic" }], outcome: "answered" });
});

test("a budget bounds how long an answer may be", async () => {
  await start({}, { budget: { day: "0.005" } });
  const { status } = await post({ max_output_tokens: undefined, stream: true });
  expect(status).toBe(200);
  const sent = anthropic.asked.at(-1)!.body as { max_tokens: number };
  expect(sent.max_tokens).toBeLessThan(500);
});

test.each([false, true])("an equal request gets the kept answer, streamed: %s", async (stream) => {
  await start({ cache: { "assume-deterministic": true } });
  const ask = async () => {
    const answer = await post({ temperature: 0, stream });
    return { how: answer.headers.get("x-millrace-cache"), text: await answer.text() };
  };
  const [first, second] = [await ask(), await ask()];
  expect([first.how, second.how, anthropic.asked.length]).toEqual(["miss", "hit", 1]);
  const responseOf = (text: string) => (stream ? replayed(text).response! : (JSON.parse(text) as Json));
  expect(responseOf(second.text).output).toEqual(responseOf(first.text).output);
  expect(responseOf(second.text).id).not.toBe(responseOf(first.text).id);
});

test.each([false, true])("guardrails see requests and answers, streamed: %s", async (stream) => {
  const mail = { name: "pii", find: ["email"], action: "redact" };
  const word = { name: "word", on: ["answer"], patterns: [{ name: "place", regex: "world" }], action: "redact" };
  await start({ hooks: { guardrails: [mail, word] } });
  const text = await (await post({ input: "I am john@example.com", stream })).text();
  expect(anthropic.asked[0]!.raw.toString()).toContain("I am [email]");
  expect(text).not.toContain("world");
  const response = stream ? replayed(text).response : JSON.parse(text);
  expect((response.output as Json)[0].content[0].text).toBe("Hello, [place]! 😀");
});

test("a provider that fails in the middle ends a stream with an error that OpenAI's clients know", async () => {
  await start();
  const begin =
    'event: message_start\ndata: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":5}}}\n\n';
  const block =
    'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hal"}}\n\n';
  const error = 'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n';
  anthropic.next.push({ headers: { "content-type": "text/event-stream" }, body: [begin, block, error] });
  const text = await (await post({ stream: true })).text();
  const last = eventsOf(text).at(-1)!;
  expect(last).toMatchObject({ type: "error", code: "upstream_failed" });
  anthropic.next.push({ headers: { "content-type": "text/event-stream" }, body: [begin, block, error] });
  const stream = gateway!.openai.withOptions({ apiKey: SHOP }).responses.stream({ ...asking, stream: true });
  await expect(stream.finalResponse()).rejects.toThrow("Overloaded");
  const refused = await post({ input: [{ role: "user", content: [{ type: "input_file", file_id: "f" }] }] });
  expect([refused.status, ((await refused.json()) as Json).error]).toMatchObject([
    400,
    { code: "unsupported_field", param: "input[0].content[0].type" },
  ]);
});

test("lines of batches may be responses", async () => {
  await start();
  const client = gateway!.openai.withOptions({ apiKey: SHOP });
  const line = { custom_id: "a", method: "POST", url: PATH, body: asking };
  const file = await toFile(Buffer.from(JSON.stringify(line)), "in.jsonl");
  const { id: input_file_id } = await client.files.create({ purpose: "batch", file });
  const { id } = await client.batches.create({ input_file_id, endpoint: PATH, completion_window: "24h" });
  const done = await until(async (): Promise<OpenAI.Batch | undefined> => {
    const batch = await client.batches.retrieve(id);
    return batch.status === "completed" ? batch : undefined;
  });
  const output = JSON.parse(await (await client.files.content(done.output_file_id!)).text());
  expect(output.response.body).toMatchObject({ object: "response", status: "completed" });
});
