/** Ollama's own client on a real engine, and on a gateway before one: every call that its programs make of a server. */

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Ollama } from "ollama";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { repositoryRoot } from "../helpers/fixtures.js";
import { FleetProcess } from "../helpers/fleet-process.js";
import { startHubServer } from "../helpers/hub-server.js";
import { startTestServer, type TestServer } from "../helpers/server.js";
import { tempTree } from "../scripts/temp-tree.js";

let server: TestServer;
let client: Ollama;
beforeAll(async () => {
  server = await startTestServer(["--threads", "1"]);
  client = new Ollama({ host: server.url });
}, 60_000);
afterAll(() => server?.stop());

const model = "mill-base";
const question = "What is 12 plus 7?";
const messages = [{ role: "user", content: question }];
const options = { temperature: 0 };

describe("models", () => {
  it("are listed, shown, running, and pulled where they are there", async () => {
    const [listed] = (await client.list()).models;
    expect(listed).toMatchObject({ name: "mill-base:latest", details: { format: "gguf", parameter_size: "6.2M" } });
    expect(listed!.digest).toMatch(/^[0-9a-f]{64}$/);
    const shown = await client.show({ model: listed!.name });
    expect(shown.capabilities).toContain("completion");
    expect(shown.template).not.toBe("");
    expect((await client.ps()).models[0]).toMatchObject({ model: "mill-base:latest" });
    expect((await client.version()).version).toMatch(/^\d+\.\d+\.\d+$/);
    expect(await client.pull({ model })).toMatchObject({ status: "success" });
    const states: string[] = [];
    for await (const { status } of await client.pull({ model, stream: true })) states.push(status);
    expect(states.at(-1)).toBe("success");
    await expect(client.pull({ model: "llama3" })).rejects.toThrow("hf:OWNER/NAME");
  });
});

describe("models of the hub", () => {
  it("are pulled with progress and removed by the administrator's key", async () => {
    const file = readFileSync(join(repositoryRoot(), "models/mill-student.gguf"));
    const hub = await startHubServer({ "acme/tales-GGUF": { files: { "tales-Q8_0.gguf": file } } });
    const cache = tempTree({});
    const env = { HF_ENDPOINT: hub.endpoint, MILLRACE_CACHE: cache, MILLRACE_ADMIN_KEY: "boss" };
    await using own = await startTestServer(["--threads", "1"], env);
    const name = "hf.co/acme/tales-GGUF:Q8_0";
    await expect(new Ollama({ host: own.url }).pull({ model: name })).rejects.toThrow("API key");
    const boss = new Ollama({ host: own.url, headers: { Authorization: "Bearer boss" } });
    const parts: { status: string; completed: number; total: number }[] = [];
    for await (const part of await boss.pull({ model: name, stream: true })) parts.push(part);
    expect(parts.map(({ status }) => status)).toEqual(expect.arrayContaining(["pulling manifest", "success"]));
    // A slow machine tells of a part of the file before.
    const { completed, total } = parts.findLast(({ status }) => status === "pulling tales-Q8_0.gguf")!;
    expect([completed, total]).toEqual([file.length, file.length]);
    expect(readFileSync(join(cache, "hub/acme/tales-GGUF/main/tales-Q8_0.gguf")).equals(file)).toBe(true);
    await boss.delete({ model: name });
    expect(existsSync(join(cache, "hub/acme"))).toBe(false);
    await expect(boss.delete({ model: name })).rejects.toThrow("downloaded models");
    await expect(boss.delete({ model: "mill-base" })).rejects.toThrow("bundled");
    await expect(boss.pull({ model: "llama3" })).rejects.toThrow("hf:org/repo");
    await hub.close();
  });
});

describe("answers", () => {
  it("are those of the other APIs", async () => {
    const { message } = await client.chat({ model, messages, options });
    const other = await fetch(`${server.url}/v1/chat/completions`, {
      method: "POST",
      body: JSON.stringify({ messages, temperature: 0 }),
    });
    const { choices } = (await other.json()) as { choices: { message: { content: string } }[] };
    expect(message.content).toBe(choices[0]!.message.content);
    let text = "";
    for await (const part of await client.chat({ model, messages, options, stream: true }))
      text += part.message.content;
    expect(text).toBe(message.content);
    const { response } = await client.generate({ model, prompt: question, options });
    expect(response).toBe(message.content);
  });

  it("have no thoughts where the model has none", async () => {
    await expect(client.chat({ model, messages, think: true })).rejects.toThrow("think: expected false");
    expect((await client.chat({ model, messages, options, think: false })).message.thinking).toBeUndefined();
  });

  it("have the form that is asked for", async () => {
    const format = { type: "object", properties: { sum: { type: "integer" } }, required: ["sum"] };
    const { message } = await client.chat({ model, messages, options, format });
    expect(JSON.parse(message.content)).toEqual({ sum: expect.any(Number) });
    const { response } = await client.generate({ model, prompt: "List a fox.", options, format: "json" });
    expect(JSON.parse(response ?? "")).toBeTypeOf("object");
  });

  it("go on from a raw prompt, and stop when the client leaves", async () => {
    const raw = await client.generate({
      model,
      prompt: "Once upon a",
      raw: true,
      options: { ...options, num_predict: 4 },
    });
    expect(raw).toMatchObject({ done_reason: "length", eval_count: 4 });
    const stream = await client.chat({ model, messages, stream: true, options: { num_predict: 500 } });
    for await (const _ of stream) {
      stream.abort();
      break;
    }
    expect((await client.chat({ model, messages, options })).done).toBe(true);
  });

  it("have embeddings of length 1", async () => {
    const { embeddings } = await client.embed({ model, input: ["a fox", "a boat"] });
    expect(embeddings).toHaveLength(2);
    expect(Math.hypot(...embeddings[0]!)).toBeCloseTo(1, 5);
    const { embedding } = await client.embeddings({ model, prompt: "a fox" });
    expect(embedding).toEqual(embeddings[0]);
  });
});

describe("through a gateway", () => {
  let fleet: FleetProcess;
  const headers = { authorization: "Bearer sk-one" };
  beforeAll(async () => {
    fleet = await FleetProcess.start({
      "api-keys": [{ tenant: "one", key: "sk-one" }],
      cache: {},
      models: [{ name: model, model: join(repositoryRoot(), "models/mill-base.gguf") }],
    });
  }, 60_000);
  afterAll(() => fleet?.[Symbol.asyncDispose]());

  it("answers are the engine's own, whole and streamed, in the form that is asked for", async () => {
    const gateway = new Ollama({ host: fleet.url, headers });
    expect((await gateway.list()).models.map(({ name }) => name)).toEqual(["mill-base:latest"]);
    const own = await client.chat({ model, messages, options });
    const whole = await gateway.chat({ model: "mill-base:latest", messages, options });
    expect(whole).toMatchObject({ model: "mill-base:latest", message: own.message, done: true, done_reason: "stop" });
    expect(whole.eval_count).toBe(own.eval_count);
    let text = "";
    let last: object | undefined;
    for await (const part of await gateway.chat({ model, messages, options, stream: true })) {
      text += part.message.content;
      last = part;
    }
    expect(text).toBe(own.message.content);
    expect(last).toMatchObject({ done: true, eval_count: own.eval_count, prompt_eval_count: own.prompt_eval_count });
    const { response } = await gateway.generate({ model, prompt: question, options });
    expect(response).toBe(own.message.content);
    const format = { type: "object", properties: { sum: { type: "integer" } }, required: ["sum"] };
    const formed = await gateway.chat({ model, messages, options, format });
    expect(JSON.parse(formed.message.content)).toEqual({ sum: expect.any(Number) });
    const { embeddings } = await gateway.embed({ model, input: ["a fox"] });
    expect(Math.hypot(...embeddings[0]!)).toBeCloseTo(1, 5);
  });

  it("policies hold: keys are checked, and a kept answer is shared with OpenAI's clients", async () => {
    const stranger = new Ollama({ host: fleet.url });
    await expect(stranger.chat({ model, messages })).rejects.toThrow(/key/);
    const gateway = new Ollama({ host: fleet.url, headers });
    await expect(gateway.chat({ model: "other", messages })).rejects.toThrow(
      "expected the model to be one of mill-base",
    );
    const ask = (path: string, body: object) =>
      fetch(fleet.url + path, { method: "POST", headers, body: JSON.stringify({ model, messages, ...body }) });
    const first = await ask("/v1/chat/completions", { temperature: 0, seed: 9, stream: false });
    await first.text();
    const again = await ask("/api/chat", { options: { temperature: 0, seed: 9 }, stream: false });
    expect(again.headers.get("x-millrace-cache")).toBe("hit");
    expect(await again.json()).toMatchObject({ done: true, message: { role: "assistant" } });
  });
});
