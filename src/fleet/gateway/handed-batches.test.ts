/**
 * Batches whose lines go to a paid API's own batch endpoint, through the complete gateway, from clients of both
 * dialects.
 */
import { toFile } from "openai";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Json } from "../../../test/helpers/json.js";
import { AnthropicBatches } from "../../../test/helpers/providers/anthropic-batches.js";
import { startAnthropicServer } from "../../../test/helpers/providers/anthropic-server.js";
import { type Gateway, startGateway } from "../../../test/helpers/providers/gateway.js";
import { OpenaiBatches } from "../../../test/helpers/providers/openai-batches.js";
import { startOpenaiServer } from "../../../test/helpers/providers/openai-server.js";
import type { ProviderServer } from "../../../test/helpers/providers/provider-server.js";
import { until } from "../../../test/helpers/until.js";

const KEY = "sk-test-0123456789abcdef";
const ADMIN = "boss-0123456789";
const SHOP = "sk-shop-0123456789";
const PRICE = { input: "1", output: "10", "cache-read": "0" };

let openaiBatches: OpenaiBatches;
let anthropicBatches: AnthropicBatches;
let openai: ProviderServer;
let anthropic: ProviderServer;
let gateway: Gateway;

async function start(day = "100"): Promise<Gateway> {
  const provider = { "batch-endpoint": true, "batch-price-share": 0.5 };
  return await startGateway({
    "admin-key": ADMIN,
    ledger: {},
    "managed-keys": true,
    "api-keys": [{ tenant: "shop", key: SHOP, limits: { budget: { day } } }],
    models: [
      {
        name: "gpt",
        engine: "openai",
        provider,
        price: PRICE,
        attach: [{ url: `${openai.url}/v1`, "api-key": KEY, "model-name": "gpt-5.2" }],
      },
      {
        name: "claude",
        engine: "anthropic",
        provider,
        price: PRICE,
        attach: [{ url: anthropic.url, "api-key": KEY, "model-name": "claude-opus-4-6" }],
      },
    ],
  });
}

beforeEach(async () => {
  openaiBatches = new OpenaiBatches();
  anthropicBatches = new AnthropicBatches();
  openai = await startOpenaiServer({ keys: [KEY], batches: openaiBatches });
  anthropic = await startAnthropicServer({ keys: [KEY], batches: anthropicBatches });
  gateway = await start();
});
afterEach(async () => {
  await gateway[Symbol.asyncDispose]();
  await Promise.all([openai, anthropic].map((each) => each[Symbol.asyncDispose]()));
});

async function call(path: string, body?: object | FormData, key = SHOP): Promise<Response> {
  const sent =
    body === undefined ? {} : { method: "POST", body: body instanceof FormData ? body : JSON.stringify(body) };
  return await fetch(gateway.url + path, { ...sent, headers: { authorization: `Bearer ${key}` } });
}

const line = (id: string, model: string, body: object = {}) => ({
  custom_id: id,
  method: "POST",
  url: "/v1/chat/completions",
  body: { model, messages: [{ role: "user", content: "Say hello" }], max_tokens: 50, ...body },
});

async function create(lines: readonly object[], endpoint = "/v1/chat/completions"): Promise<string> {
  const form = new FormData();
  form.set("purpose", "batch");
  form.set("file", await toFile(Buffer.from(lines.map((each) => JSON.stringify(each)).join("\n")), "in.jsonl"));
  const file = (await (await call("/v1/files", form)).json()) as Json;
  const asked = { input_file_id: file.id, endpoint, completion_window: "24h" };
  return ((await (await call("/v1/batches", asked)).json()) as Json).id;
}

const contentOf = async (id: string | null): Promise<Json[]> => {
  if (id === null) return [];
  const text = await (await call(`/v1/files/${id}/content`)).text();
  return text
    .split("\n")
    .filter(Boolean)
    .map((each) => JSON.parse(each));
};

async function ended(id: string) {
  const batch = await until(async () => {
    const found = (await (await call(`/v1/batches/${id}`)).json()) as Json;
    return ["completed", "failed", "expired", "cancelled"].includes(found.status) ? found : undefined;
  });
  return { batch, output: await contentOf(batch.output_file_id), errors: await contentOf(batch.error_file_id) };
}

const idsOf = (lines: readonly Json[]) => lines.map(({ custom_id }) => custom_id).sort();
const rows = async (): Promise<Json[]> =>
  ((await (await call("/admin/ledger/requests", undefined, ADMIN)).json()) as Json).data;
const pathsOf = ({ asked }: ProviderServer) => asked.map(({ method, url }) => `${method} ${url.split("?")[0]}`);
/** Dollars that the key has spent today, and dollars that are reserved. */
async function budget(): Promise<readonly [number, number]> {
  const { scopes } = (await (await call("/v1/key")).json()) as Json;
  const { spent, reserved } = scopes.find(({ budgets }: Json) => budgets.day !== undefined).budgets.day;
  return [Number(spent), Number(reserved)];
}

describe("OpenAI's", () => {
  test("lines go there in one file, and come back once, at the price of batches", async () => {
    const id = await create([line("a", "gpt"), line("b", "gpt"), line("bad", "gpt", { temperature: 9 })]);
    const { batch, output, errors } = await ended(id);
    expect(batch).toMatchObject({ status: "completed", request_counts: { total: 3, completed: 2, failed: 1 } });
    expect([idsOf(output), idsOf(errors)]).toEqual([["a", "b"], ["bad"]]);
    expect(output[0]!.response).toMatchObject({
      status_code: 200,
      body: { choices: [{ message: { content: "Hello, world! 😀" } }] },
    });
    expect(errors[0]!.response).toMatchObject({ status_code: 400, body: { error: { param: "temperature" } } });
    expect(openaiBatches.batches).toHaveLength(1);
    expect(openaiBatches.ran).toHaveLength(3);
    expect(pathsOf(openai)).not.toContain("POST /v1/chat/completions");
    await until(() => (openaiBatches.files.size === 0 ? true : undefined));
    expect(openaiBatches.deleted.get("file-in1")).toContain('"model":"gpt-5.2"');
    // 12 fresh tokens at $1 and 9 output tokens at $10 a million, at half price.
    const booked = await rows();
    expect(booked.map(({ outcome, status }) => [outcome, status]).sort()).toEqual([
      ["answered", 200],
      ["answered", 200],
      ["answered", 400],
    ]);
    const paid = booked.filter(({ status }) => status === 200);
    expect(paid.map(({ attempts }) => attempts.map((each: Json) => [each.cost, each.price]))).toEqual(
      Array(2).fill([["0.000051000", expect.stringContaining(", batch")]]),
    );
    expect(paid[0]!.notes).toMatchObject({ batch: id });
    await until(async () => ((await budget())[1] === 0 ? true : undefined));
    expect((await budget())[0]).toBeCloseTo(0.000102, 9);
    expect(gateway.log.join("")).not.toContain(KEY);
  });

  test("requests of Anthropic's clients are translated there, and their answers back", async () => {
    const { id } = (await (
      await call("/v1/messages/batches", {
        requests: [
          {
            custom_id: "m1",
            params: { model: "gpt", max_tokens: 9, messages: [{ role: "user", content: "Say hello" }] },
          },
        ],
      })
    ).json()) as Json;
    await until(async () => {
      const found = (await (await call(`/v1/messages/batches/${id}`)).json()) as Json;
      return found.processing_status === "ended" ? true : undefined;
    });
    const text = await (await call(`/v1/messages/batches/${id}/results`)).text();
    expect(JSON.parse(text)).toMatchObject({
      custom_id: "m1",
      result: {
        type: "succeeded",
        message: { type: "message", content: [{ type: "text", text: "Hello, world! 😀" }] },
      },
    });
    expect(openaiBatches.batches[0]!.endpoint).toBe("/v1/chat/completions");
  });

  test("hostile results: repeated, unknown and broken lines change nothing, and a missing one is an error", async () => {
    openaiBatches.tamper = (lines) => {
      const [first, second] = lines;
      const foreign = first!.replace(/"custom_id":"[^"]+"/, '"custom_id":"ffffffffffff-0"');
      const outside = first!.replace(/(-)\d+"/, '$1999999999"');
      return [first!, first!, foreign, outside, "{", '{"custom_id":7}', '{"custom_id":"x","response":{}}', "", second!];
    };
    const id = await create(["a", "b", "gone"].map((each) => line(each, "gpt")));
    const { batch, output, errors } = await ended(id);
    expect(batch.request_counts).toEqual({ total: 3, completed: 2, failed: 1 });
    expect(idsOf(output)).toEqual(["a", "b"]);
    expect(errors[0]).toMatchObject({
      custom_id: "gone",
      response: { status_code: 502, body: { error: { code: "upstream_failed" } } },
    });
    expect(gateway.log.join("")).toContain("none of a batch's");
    expect((await rows()).filter(({ status }) => status === 200)).toHaveLength(2);
  });

  test("results without an end of other lines are not read to their end", async () => {
    openaiBatches.tamper = (lines) => [...Array<string>(2000).fill('{"custom_id":"x"}'), ...lines];
    const { errors } = await ended(await create([line("a", "gpt")]));
    expect(idsOf(errors)).toEqual(["a"]);
  });

  test("a batch that the provider refuses is an error of each line, and one without room is sent again", async () => {
    openaiBatches.nextFailure = { code: "token_limit_exceeded", message: "Enqueued token limit reached." };
    expect((await ended(await create([line("a", "gpt")]))).batch.status).toBe("completed");
    expect(openaiBatches.batches.map(({ status }) => status)).toEqual(["failed", "completed"]);
    openaiBatches.nextFailure = { code: "model_not_found", message: `No such model with ${KEY}.` };
    const { errors } = await ended(await create([line("b", "gpt"), line("c", "gpt")]));
    expect(idsOf(errors)).toEqual(["b", "c"]);
    expect(errors[0]!.response.body.error.message).toContain("No such model with (key).");
  });

  test("a cancelled batch is cancelled there", async () => {
    openaiBatches.isHeld = true;
    const id = await create([line("a", "gpt"), line("b", "gpt")]);
    await until(() => (openaiBatches.batches[0]?.status === "in_progress" ? true : undefined));
    expect((await budget())[1]).toBeGreaterThan(0);
    expect((await call(`/v1/batches/${id}/cancel`, {})).status).toBe(200);
    const { batch, errors } = await ended(id);
    expect(batch.status).toBe("cancelled");
    expect(openaiBatches.batches[0]!.status).toBe("cancelled");
    expect(errors.map(({ error }) => error.code)).toEqual(["batch_cancelled", "batch_cancelled"]);
    await until(async () => ((await budget()).every((each) => each === 0) ? true : undefined));
  });

  test("an answer that is lost on its way does not make a second batch", async () => {
    openaiBatches.nextLost = "broken";
    const { output } = await ended(await create([line("a", "gpt")]));
    expect(idsOf(output)).toEqual(["a"]);
    expect([openaiBatches.batches.length, openaiBatches.ran.length]).toEqual([1, 1]);
  });
});

describe("Anthropic's", () => {
  test("requests of Anthropic's clients pass as they are, with the betas that they ask for", async () => {
    const hello = { model: "claude", max_tokens: 9, messages: [{ role: "user", content: "Say hello" }] };
    const requests = [
      { custom_id: "ok", params: hello },
      { custom_id: "bad", params: { ...hello, temperature: 2 } },
    ];
    const headers = { "x-api-key": SHOP, "anthropic-version": "2023-06-01", "anthropic-beta": "context-1m-2025-08-07" };
    const at = `${gateway.url}/v1/messages/batches`;
    const { id } = (await (
      await fetch(at, { method: "POST", headers, body: JSON.stringify({ requests }) })
    ).json()) as Json;
    await until(async () => {
      const found = (await (await fetch(`${at}/${id}`, { headers })).json()) as Json;
      return found.processing_status === "ended" ? true : undefined;
    });
    const results = (await (await fetch(`${at}/${id}/results`, { headers })).text())
      .trim()
      .split("\n")
      .map((each) => JSON.parse(each));
    expect(Object.fromEntries(results.map(({ custom_id, result }) => [custom_id, result]))).toMatchObject({
      ok: { type: "succeeded", message: { usage: { output_tokens: 9 } } },
      bad: { type: "errored", error: { type: "error", error: { type: "invalid_request_error" } } },
    });
    expect((await rows()).map(({ status }) => status).sort()).toEqual([200, 400]);
    const sent = anthropic.asked.find(({ method }) => method === "POST")!;
    expect(sent.headers["anthropic-beta"]).toBe("context-1m-2025-08-07");
    expect((sent.body as Json).requests[0].params).toEqual({ ...hello, model: "claude-opus-4-6" });
  });

  test("lines that are responses are translated there, and their answers back", async () => {
    const body = { model: "claude", input: "Say hello", max_output_tokens: 50 };
    const asked = { custom_id: "a", method: "POST", url: "/v1/responses", body };
    const { output } = await ended(await create([asked], "/v1/responses"));
    expect(output[0]!.response.body).toMatchObject({
      object: "response",
      status: "completed",
      output: [{ content: [{ text: "Hello, world! 😀" }] }],
      usage: { input_tokens: 24, output_tokens: 9 },
    });
    expect(pathsOf(anthropic)).toContain("POST /v1/messages/batches");
    expect(pathsOf(anthropic)).not.toContain("POST /v1/messages");
  });

  test("lines of OpenAI's clients are translated there, and their answers and errors back", async () => {
    const id = await create([
      line("a", "claude"),
      line("bad", "claude", { messages: [{ role: "user", content: "" }] }),
    ]);
    const { output, errors } = await ended(id);
    expect(output[0]).toMatchObject({
      custom_id: "a",
      response: { status_code: 200, body: { object: "chat.completion", usage: { completion_tokens: 9 } } },
    });
    expect(errors[0]).toMatchObject({ custom_id: "bad", response: { status_code: 400 } });
    expect(anthropicBatches.batches).toHaveLength(1);
    expect(pathsOf(anthropic)).not.toContain("POST /v1/messages");
  });

  test("an answer that is lost on its way does not make a second batch", async () => {
    anthropicBatches.nextLost = "broken";
    const id = await create([line("a", "claude")]);
    await until(() => (anthropicBatches.batches.length === 1 ? true : undefined));
    // The list has another batch of the account, with as many lines, before this one.
    const other = { model: "claude-opus-4-6", max_tokens: 5, messages: [{ role: "user", content: "Hi" }] };
    await fetch(`${anthropic.url}/v1/messages/batches`, {
      method: "POST",
      headers: { "x-api-key": KEY, "anthropic-version": "2023-06-01" },
      body: JSON.stringify({ requests: [{ custom_id: "other-0", params: other }] }),
    });
    const { output } = await ended(id);
    expect(idsOf(output)).toEqual(["a"]);
    expect(anthropicBatches.batches).toHaveLength(2);
  });
});

test("nothing is sent that a budget does not pay for", async () => {
  await gateway[Symbol.asyncDispose]();
  // Three prompts and answers of at most 50 tokens cost $0.001257 at half price.
  gateway = await start("0.0012");
  const lines = ["a", "b", "c"].map((each) => line(each, "gpt"));
  const { errors } = await ended(await create(lines));
  expect(errors.map(({ response }) => response.body.error.code)).toEqual(Array(3).fill("budget_exceeded"));
  expect(openaiBatches.files.size).toBe(0);
  await gateway[Symbol.asyncDispose]();
  gateway = await start("0.0013");
  expect((await ended(await create(lines))).batch.request_counts.completed).toBe(3);
});
