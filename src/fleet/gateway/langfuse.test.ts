/** Records for Langfuse, through the real proxy and to a server in its place. */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { pino } from "pino";
import { afterEach, expect, test } from "vitest";
import type { Json } from "../../../test/helpers/json.js";
import { answerJson, beginStream, sse, startFleet, type TestFleet } from "../../../test/helpers/stand-in.js";
import { LangfuseQueue } from "../../gateway/hooks/langfuse-queue.js";
import { parseConfig } from "../config/read-config.js";
import { createGuardrails, createLangfuse } from "./hook-policies.js";

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

interface Collector {
  readonly url: string;
  readonly events: Json[];
  readonly statuses: number[];
  numAsked: number;
}

/** @param statuses of the first answers; the later ones have 207 */
async function collector(...statuses: number[]): Promise<Collector> {
  const server = createServer(async (incoming, outgoing) => {
    let text = "";
    for await (const chunk of incoming) text += chunk;
    collected.numAsked++;
    expect(incoming.url).toBe("/api/public/ingestion");
    expect(incoming.headers.authorization).toBe(`Basic ${Buffer.from("pk:sk").toString("base64")}`);
    const status = statuses.shift() ?? 207;
    if (status === 207) for (const each of JSON.parse(text).batch) collected.events.push(each);
    outgoing.writeHead(status).end(JSON.stringify({ successes: [], errors: [] }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(async () => {
    server.close();
    server.closeAllConnections();
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const collected: Collector = { url, events: [], statuses, numAsked: 0 };
  return collected;
}

async function start(url: string, more: string, behaviour = answerJson({})) {
  const file = `
models:
  - {name: m, attach: [{url: "http://127.0.0.1:1"}]}
hooks:
  guardrails: [{name: pii, find: [email], action: redact}]
  langfuse: {url: "${url}/", public-key: pk, secret-key: sk${more}}
`;
  const config = parseConfig(file, "millrace.yaml", {});
  const context = {
    config: () => config,
    models: { resolve: (name: string) => name },
    logger: pino({ level: "silent" }),
  };
  const langfuse = createLangfuse(context)!;
  const policies = [langfuse.outer, createGuardrails(context)!, langfuse.inner];
  const fleet: TestFleet = await startFleet([behaviour], { proxy: { policies } });
  closing.push(() => fleet.stop());
  return { fleet, flush: async () => await langfuse.outer.close?.() };
}

const BODY = { model: "m", max_tokens: 5, messages: [{ role: "user", content: "I am john@example.com" }] };
const USAGE = { prompt_tokens: 9, completion_tokens: 4, total_tokens: 13, prompt_tokens_details: { cached_tokens: 3 } };

test("a request becomes a trace and a generation, without its texts", async () => {
  const { url, events } = await collector();
  const answer = { choices: [{ message: { role: "assistant", content: "secret" } }], usage: USAGE };
  const { fleet, flush } = await start(url, "", answerJson(answer));
  await (await fleet.post("/v1/chat/completions", BODY, { headers: { "x-request-id": "r1" } })).text();
  await flush();
  expect(events.map(({ type }) => type)).toEqual(["trace-create", "generation-create"]);
  const [trace, generation] = events.map(({ body }) => body);
  expect(trace).toMatchObject({ id: "r1", name: "/v1/chat/completions", metadata: { status: "200", instance: "a" } });
  expect(generation).toMatchObject({
    traceId: "r1",
    model: "m",
    level: "DEFAULT",
    modelParameters: { max_tokens: 5 },
    usageDetails: { input: 6, input_cached_tokens: 3, output: 4 },
  });
  for (const time of [generation.startTime, generation.completionStartTime, generation.endTime]) {
    expect(Math.abs(Date.parse(time) - Date.now())).toBeLessThan(60_000);
  }
  expect(JSON.stringify(events)).not.toMatch(/john|secret/);
});

test("texts are sent where the operator wants them, as guardrails leave them, and cut", async () => {
  const { url, events } = await collector();
  const { fleet, flush } = await start(url, ", prompts: true, max-text-bytes: 1KiB", (_, outgoing) => {
    beginStream(outgoing);
    for (const content of ["mail ", "jane@exam", "ple.com, bye"])
      outgoing.write(sse({ choices: [{ index: 0, delta: { content } }] }));
    outgoing.end(sse("[DONE]"));
  });
  await (await fleet.post("/v1/chat/completions", { ...BODY, stream: true })).text();
  const long = { ...BODY, messages: [{ role: "user", content: "x".repeat(5000) }] };
  await (await fleet.post("/v1/chat/completions", long)).text();
  await flush();
  const [, first, , second] = events.map(({ body }) => body);
  expect(first.input.messages).toEqual([{ role: "user", content: "I am [email]" }]);
  expect(first.output).toBe("mail [email], bye");
  expect([second.input.length, second.input.endsWith("…")]).toEqual([1025, true]);
});

test("failures are errors, and a refused prompt is not sent", async () => {
  const { url, events } = await collector();
  const { fleet, flush } = await start(url, ", prompts: true", answerJson({ error: { message: "no" } }, 400));
  await (await fleet.post("/v1/chat/completions", BODY)).text();
  await (await fleet.post("/v1/completions", { model: "m", prompt: [1, 2] })).text();
  await flush();
  const generations = events.filter(({ type }) => type === "generation-create").map(({ body }) => body);
  expect(generations.map(({ level, statusMessage, input }) => [level, statusMessage, input === undefined])).toEqual([
    ["ERROR", "400", false],
    ["ERROR", "guardrail_refused", true],
  ]);
});

test("models that are not named are not sent", async () => {
  const { url, numAsked } = await collector();
  const { fleet, flush } = await start(url, ", models: [other]");
  await (await fleet.post("/v1/chat/completions", BODY)).text();
  await flush();
  expect(numAsked).toBe(0);
});

function queueTo(url: string, maxEvents = 1000) {
  const problems: number[] = [];
  const onProblem = (_: unknown, numDropped: number) => problems.push(numDropped);
  const queue = new LangfuseQueue({
    url,
    publicKey: "pk",
    secretKey: "sk",
    maxEvents,
    onProblem,
    retryMs: 1,
    flushMs: 5,
  });
  return { queue, problems };
}
const fill = (queue: LangfuseQueue, count: number) => {
  for (let i = 0; i < count; i++) queue.push({ type: "trace-create", body: { i } });
};

test("events come in batches of a hundred, in order, and are tried again", async () => {
  const collected = await collector(500, 503, 429);
  const { queue } = queueTo(collected.url);
  fill(queue, 250);
  await queue.close();
  expect(collected.events.map(({ body }) => body.i)).toEqual(Array.from({ length: 250 }, (_, i) => i));
  expect([collected.numAsked, queue.numDropped]).toEqual([6, 0]);
});

test("what does not fit the queue is dropped and counted, and what is refused for good too", async () => {
  const collected = await collector(401);
  const { queue, problems } = queueTo(collected.url, 150);
  fill(queue, 400);
  // The first hundred had been sent already.
  const full = queue.numDropped;
  await queue.close();
  expect([full, problems]).toEqual([150, [250]]);
  const down = queueTo("http://127.0.0.1:1");
  fill(down.queue, 10);
  await down.queue.close();
  expect(down.queue.numDropped).toBe(10);
});
