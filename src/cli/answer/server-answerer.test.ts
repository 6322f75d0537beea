/** Servers with good and bad answers. */
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { startFakeServer } from "../../../test/helpers/fake-server.js";
import { EOS_ID } from "../../../test/helpers/fake-tokenizer.js";
import type { Json } from "../../../test/helpers/json.js";
import { openServerAnswerer } from "./server-answerer.js";

let server: Server | undefined;
const bodies: Json[] = [];
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
  bodies.length = 0;
});

const MODELS = {
  data: [
    { id: "vectors", tasks: ["embed"] },
    { id: "m", tasks: ["generate"] },
  ],
};
const SSE = { "content-type": "text/event-stream" };
const event = (value: object): string => `data: ${JSON.stringify(value)}\n\n`;
const piece = (delta: object, finish: string | null = null): string =>
  event({ choices: [{ delta, finish_reason: finish }] });

/** @returns the address of a server that answers prompts with `answer` */
async function serve(answer: (response: ServerResponse) => void, models: object = MODELS): Promise<string> {
  server = createServer(async (request, response) => {
    if (request.url === "/v1/models") return void response.end(JSON.stringify(models));
    let text = "";
    for await (const chunk of request) text += chunk;
    bodies.push(JSON.parse(text));
    answer(response);
  });
  await new Promise<void>((resolve) => server!.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const QUESTION = [{ role: "user", content: "Why?" }] as const;

async function chat(url: string, choice = {}, signal?: AbortSignal) {
  const answerer = await openServerAnswerer({ url }, choice);
  const heard: string[] = [];
  const listener = {
    onText: (text: string) => heard.push(text),
    onReasoning: (text: string) => heard.push(`(${text})`),
  };
  try {
    return { heard, answer: await answerer.chat(QUESTION, listener, signal) };
  } finally {
    await answerer.close();
  }
}

test("a server of ours answers as text comes, with its own counts", async () => {
  const { server: ours } = await startFakeServer({ script: () => [72, 105, EOS_ID] });
  try {
    const { heard, answer } = await chat(`${ours.url}/v1/`);
    expect(heard.join("")).toBe("Hi");
    expect(answer).toMatchObject({ text: "Hi", numOutputTokens: 3, end: "stop" });
    expect(answer.numPromptTokens).toBeGreaterThan(0);
  } finally {
    await ours.close();
  }
});

test("the only model that generates is asked, with the user's choice alone, and reasoning is told apart", async () => {
  const url = await serve((response) => {
    const parts = [piece({ reasoning_content: "hm" }), piece({ content: "Be" }), piece({ content: "cause" }, "stop")];
    response.writeHead(200, SSE).end(`: waiting\n\n${parts.join("")}data: [DONE]\n\n`);
  });
  const { heard, answer } = await chat(url, { temperature: 0, seed: 7n, stop: ["x"], maxTokens: 9 });
  expect(heard).toEqual(["(hm)", "Be", "cause"]);
  expect(answer).toMatchObject({ text: "Because", numPromptTokens: undefined, numOutputTokens: 3, end: "stop" });
  expect(bodies).toEqual([
    {
      model: "m",
      messages: QUESTION,
      temperature: 0,
      seed: 7,
      stop: ["x"],
      max_tokens: 9,
      stream: true,
      stream_options: { include_usage: true },
    },
  ]);
});

test.each([
  ["a stream that breaks off", piece({ content: "Be" }), /got a stream that breaks off/],
  ["an event of another form", "data: {oops\u001b[2J\n\n", /got an event of another form: \{oops\\u001b/],
  [
    "an error within the stream",
    event({ error: { message: "no \u001b[2J", code: "engine_failed" } }),
    /^no \\u001b\[2J$/,
  ],
])("%s is an error", async (_, stream, says) => {
  await expect(chat(await serve((response) => response.writeHead(200, SSE).end(stream)))).rejects.toThrow(says);
});

test("what refuses, and what is no stream, is said in the server's words", async () => {
  const body = JSON.stringify({ error: { message: "too long", code: "context_length_exceeded" } });
  const refusing = await serve((response) => response.writeHead(400).end(body));
  await expect(chat(refusing)).rejects.toMatchObject({ code: "context_length_exceeded", message: "too long" });
  server!.close();
  const whole = await serve((response) => response.writeHead(200, { "content-type": "text/html" }).end("<p>"));
  await expect(chat(whole)).rejects.toThrow(/expected a stream of events from .*, got text\/html/);
});

test("several models are listed, and nothing that listens is told", async () => {
  const many = await serve(() => {}, { data: [{ id: "a" }, { id: "b\u001b[2J" }] });
  await expect(openServerAnswerer({ url: many }, {})).rejects.toMatchObject({
    message: `expected --model, as ${many} has 2 models, got none`,
    hint: "give one of them with --model: a, b\\u001b[2J",
  });
  server!.close();
  await expect(openServerAnswerer({ url: "http://127.0.0.1:1" }, {})).rejects.toMatchObject({
    code: "endpoint_failed",
    message: expect.stringMatching(/^expected an answer from http:\/\/127\.0\.0\.1:1\/v1\/models, got .*ECONNREFUSED/),
  });
  await expect(openServerAnswerer({ url: "localhost:8000" }, {})).rejects.toThrow(/expected --url to be an http URL/);
  await expect(openServerAnswerer({ url: many, model: "a" }, { seed: 2n ** 60n })).rejects.toThrow(/--seed/);
});

test("an answer that is stopped ends there", async () => {
  const controller = new AbortController();
  const url = await serve((response) => {
    response.writeHead(200, SSE).write(piece({ content: "Be" }));
    response.once("close", () => server?.close());
  });
  const answerer = await openServerAnswerer({ url, model: "m" }, {});
  const listener = { onText: () => controller.abort(), onReasoning: () => {} };
  expect(await answerer.chat(QUESTION, listener, controller.signal)).toMatchObject({ text: "Be", end: "cancelled" });
  await answerer.close();
});
