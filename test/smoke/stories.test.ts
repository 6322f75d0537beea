/** The smallest real model, end to end: known greedy text, streaming equal to not streaming, cancellation, shutdown. */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { fixture } from "../helpers/fixtures.js";
import type { TestServer } from "../helpers/server.js";
import { post, startTestServer } from "../helpers/server.js";

interface Completion {
  readonly choices: readonly { readonly text: string; readonly finish_reason: string }[];
  readonly usage: { readonly prompt_tokens: number; readonly completion_tokens: number };
}

let server: TestServer;
beforeAll(async () => {
  server = await startTestServer(["--model", fixture("models/stories260k.gguf")]);
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

test("200 greedy tokens of stories260k equal the reference exactly", async () => {
  const [expected] = JSON.parse(readFileSync(fixture("models/stories260k.expected.json"), "utf8")) as [
    { prompt: string; maxTokens: number; text: string },
  ];
  const answer = await post<Completion>(`${server.url}/v1/completions`, {
    prompt: expected.prompt,
    max_tokens: expected.maxTokens,
    temperature: 0,
  });
  expect(answer.choices[0]!.text).toBe(expected.text);
  expect(answer.usage.completion_tokens).toBe(expected.maxTokens);
});

test("a seeded stream equals the same request without streaming", async () => {
  const body = { prompt: "Once upon a time", max_tokens: 60, temperature: 0.9, seed: 7 };
  const whole = await post<Completion>(`${server.url}/v1/completions`, body);
  const response = await fetch(`${server.url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...body, stream: true }),
  });
  const events = (await response.text())
    .split("\n\n")
    .filter((event) => event.startsWith("data: {"))
    .map((event) => JSON.parse(event.slice(6)) as Completion);
  expect(events.map((event) => event.choices[0]?.text ?? "").join("")).toBe(whole.choices[0]!.text);
  // An event a step: drafts from the first answer make the second one's steps long.
  expect(events.length).toBeGreaterThan(3);
});

test("a client that leaves frees its seat immediately", async () => {
  const leave = async () => {
    const controller = new AbortController();
    const { body } = await fetch(`${server.url}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ prompt: "Once", max_tokens: 450, ignore_eos: true, stream: true }),
      signal: controller.signal,
    });
    await body!.getReader().read();
    controller.abort();
  };
  // On a fast machine the answer may end before the client is gone.
  await expect
    .poll(() => leave().then(() => metric('request_success_total{finished_reason="abort"')))
    .toBeGreaterThan(0);
  await expect.poll(() => metric("num_requests_running")).toBe(0);
  expect(await metric("kv_cache_usage_perc")).toBe(0);
});

test("SIGTERM lets running requests finish and then exits with 0", async () => {
  await using own = await startTestServer(["--model", fixture("models/stories260k.gguf")]);
  const running = post<Completion>(`${own.url}/v1/completions`, { prompt: "Once", max_tokens: 400, ignore_eos: true });
  await expect.poll(() => metric("prompt_tokens_total", own), { interval: 5 }).toBeGreaterThan(0);
  const code = own.stop();
  expect((await running).usage.completion_tokens).toBe(400);
  expect(await code).toBe(0);
});

async function metric(name: string, { url } = server): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const line = text.split("\n").find((candidate) => candidate.startsWith(`millrace:${name}`));
  return Number(line?.split(" ").at(-1));
}
