/** Real sockets that behave badly: gone, half-closed, slow, pipelined, huge; and the server's own end. */
import { connect, type Socket } from "node:net";
import { Worker } from "node:worker_threads";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { FakeEngineOptions } from "../../test/helpers/fake-engine.js";
import { type FakeServer, startFakeServer, until } from "../../test/helpers/fake-server.js";
import { fixture } from "../../test/helpers/fixtures.js";
import { holdBodies, largeBody } from "../../test/helpers/held-bodies.js";
import { FairThread } from "../core/fair-thread.js";
import { AsyncTokenizer } from "../text/async-tokenizer.js";
import { loadTokenizer, tokenizerSource } from "../text/tokenizer-source.js";
import { type AppOptions, DEFAULT_LIMITS } from "./http/context.js";
import { startServer } from "./server.js";

let fake: FakeServer;
const sockets: Socket[] = [];

async function start(engineOptions: FakeEngineOptions = {}, overrides: Partial<AppOptions> = {}): Promise<void> {
  fake = await startFakeServer(engineOptions, overrides);
}

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await fake.server.close();
  vi.restoreAllMocks();
  expect(fake.engine.numLive).toBe(0);
});

interface RawClient {
  readonly socket: Socket;
  /** Everything received so far. */
  readonly received: () => string;
  readonly isClosed: () => boolean;
}

async function open(options: { readonly allowHalfOpen?: boolean } = {}): Promise<RawClient> {
  const socket = connect({ port: fake.server.port, host: "127.0.0.1", ...options });
  sockets.push(socket);
  let text = "";
  let isClosed = false;
  socket.on("data", (chunk) => {
    text += chunk.toString("latin1");
  });
  socket.on("close", () => {
    isClosed = true;
  });
  socket.on("error", () => {});
  await new Promise((resolve) => socket.once("connect", resolve));
  return { socket, received: () => text, isClosed: () => isClosed };
}

function request(body: object | string, path = "/v1/completions", extraHeaders = ""): string {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: ${Buffer.byteLength(text)}\r\n${extraHeaders}\r\n${text}`;
}

const endless = { prompt: "a", max_tokens: 4000 };
const short = { prompt: "ab", max_tokens: 2 };

describe("a client that goes away", () => {
  it("has no long text of its own tokenized", async () => {
    const source = tokenizerSource(fixture("models/stories260k.gguf"));
    await start({}, { asyncTokenizer: new AsyncTokenizer(loadTokenizer(source), source) });
    const { postMessage } = Worker.prototype;
    let letGo = () => {};
    const post = vi.spyOn(Worker.prototype, "postMessage").mockImplementation(function (this: Worker, message) {
      letGo = () => postMessage.call(this, message);
    });
    const tokenize = request({ prompt: "Once upon a time ".repeat(2000) }, "/tokenize");
    const [stays, goes] = [await open(), await open()];
    stays.socket.write(tokenize);
    await until(() => post.mock.calls.length === 1, "the first text to reach the thread");
    const run = vi.spyOn(FairThread.prototype, "run");
    goes.socket.write(tokenize);
    await until(() => run.mock.calls.length === 1, "the second text to wait");
    goes.socket.destroy();
    await until(() => fake.lines.some(({ fields }) => fields.code === "client_closed"), "the request to end");
    letGo();
    await until(() => stays.received().includes('"count":'), "the first answer");
    expect(post).toHaveBeenCalledOnce();
  });

  it.each([true, false])("aborts its request at once (stream: %s)", async (stream) => {
    await start({ stepsByItself: false });
    const client = await open();
    client.socket.write(request({ ...endless, stream }));
    await until(() => fake.engine.numLive === 1, "the request to reach the engine");
    fake.engine.step();
    client.socket.destroy();
    await until(() => fake.engine.numAborted === 1, "the abort");
    expect(fake.lines.filter((line) => line.level === "warn" || line.level === "error")).toEqual([]);
  });

  it("but only half-closed, after its whole request, is answered", async () => {
    await start({ stepsByItself: false });
    const client = await open({ allowHalfOpen: true });
    client.socket.end(request(short) + request({ ...short, prompt: "cd" }));
    await until(() => fake.engine.numLive === 2, "the requests");
    await until(() => client.received().split("100 Continue").length > 3, "some looks whether it listens");
    fake.engine.step();
    fake.engine.step();
    await until(() => client.isClosed(), "the answers and the end");
    expect(client.received()).toMatch(/^(HTTP\/1.1 100 Continue\r\n\r\n)+HTTP\/1.1 200.*"ab".*HTTP\/1.1 200.*"cd"/s);
  });

  it("without a word of HTTP/1.1 counts as gone as soon as it half-closes", async () => {
    await start({ stepsByItself: false });
    const client = await open({ allowHalfOpen: true });
    client.socket.end(request(endless).replace("HTTP/1.1", "HTTP/1.0"));
    await until(() => fake.engine.numAborted === 1, "the abort");
  });

  it("aborts every pipelined request, also those whose turn has not come", async () => {
    await start({ stepsByItself: false });
    const client = await open();
    client.socket.write(request(endless) + request({ ...endless, stream: true }) + request(endless));
    await until(() => fake.engine.numLive === 3, "three requests");
    client.socket.destroy();
    await until(() => fake.engine.numAborted === 3, "three aborts");
  });

  it("in the middle of its body leaves nothing behind", async () => {
    await start();
    const client = await open();
    client.socket.write(request(short).slice(0, -5));
    client.socket.end();
    await until(() => client.isClosed(), "the connection's end");
    expect(fake.engine.submitted).toHaveLength(0);
    const after = await fetch(`${fake.server.url}/v1/completions`, { method: "POST", body: JSON.stringify(short) });
    expect(after.status).toBe(200);
  });
});

describe("a client that is slow", () => {
  it("to read is cut off when its unsent bytes pass the limit, and others go on", async () => {
    // Kilobytes per token and choice outrun, within the 3000 steps, what the kernel buffers for a loopback socket.
    await start({ stepsByItself: false }, { limits: { ...DEFAULT_LIMITS, maxBufferedBytes: 64 * 1024 } });
    const client = await open();
    client.socket.write(request({ prompt: "é".repeat(500), max_tokens: 3000, stream: true, logprobs: 20, n: 16 }));
    const other = fetch(`${fake.server.url}/v1/completions`, { method: "POST", body: JSON.stringify(short) });
    await until(() => fake.engine.numLive === 17, "both requests");
    client.socket.pause();
    for (let i = 0; i < 3000 && fake.engine.numAborted === 0; i++) {
      fake.engine.step();
      if (i % 10 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    await until(() => fake.engine.numAborted === 16, "the cut");
    expect((await other).status).toBe(200);
    expect(fake.lines.map((line) => line.fields.code)).toEqual(["client_closed"]);
    client.socket.resume();
    await until(() => client.isClosed(), "the connection's end");
    expect(client.received()).not.toContain("[DONE]");
  });

  it("to send its body gets request_timeout", async () => {
    await start({}, { limits: { ...DEFAULT_LIMITS, bodyTimeoutMs: 30 } });
    const client = await open();
    client.socket.write(request(short).slice(0, -5));
    await until(() => client.isClosed(), "the answer and the end");
    expect(client.received()).toContain("HTTP/1.1 408");
    expect(client.received()).toContain('"code":"request_timeout"');
  });
});

describe("bodies", () => {
  it.each(["with its length", "in chunks"])("over the limit get 413 (%s)", async (how) => {
    await start({}, { limits: { ...DEFAULT_LIMITS, maxBodyBytes: 1000 } });
    const client = await open();
    const big = JSON.stringify({ prompt: "x".repeat(100_000) });
    const head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    const chunked = `${head}${big.length.toString(16)}\r\n${big}\r\n0\r\n\r\n`;
    client.socket.write(how === "in chunks" ? chunked : request(big));
    await until(() => client.received().includes("body_too_large"), "the refusal");
    expect(client.received()).toContain("HTTP/1.1 413");
    // The connection still serves another request.
    client.socket.write(request(short));
    await until(() => client.received().includes('"text":"ab"'), "the next answer");
  });

  it("that are large are read by turns between keys, and not for clients that have left", async () => {
    await start({}, { apiKeys: ["a", "b"] });
    const held = holdBodies();
    const send = async (key: string, name: string) => {
      const client = await open();
      const numCome = held.numCome();
      client.socket.write(request(largeBody(name), "/v1/completions", `Authorization: Bearer ${key}\r\n`));
      await until(() => held.numCome() === numCome + 1, "the body");
      return client;
    };
    const clients = [await send("a", "a0"), await send("a", "a1"), await send("a", "a2"), await send("b", "b0")];
    clients[1]!.socket.destroy();
    await until(() => fake.lines.some(({ fields }) => fields.code === "client_closed"), "its body to leave");
    held.letGo();
    for (const [index, client] of clients.entries()) {
      if (index !== 1) await until(() => client.received().includes("HTTP/1.1 4"), "the answer");
    }
    expect(held.names).toEqual(["a0", "b0", "a2"]);
  });

  it("that are not JSON, or not HTTP at all, get coded answers", async () => {
    await start();
    const client = await open();
    client.socket.write(request("{nope", "/v1/chat/completions", "Content-Type: text/plain\r\n"));
    await until(() => client.received().includes("invalid_json"), "the refusal");
    const other = await open();
    other.socket.write("HELO server\r\n\r\n");
    await until(() => other.isClosed(), "the answer and the end");
    expect(other.received()).toContain('"code":"invalid_request"');
    const third = await open();
    third.socket.write("GET /../\\x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    await until(() => third.isClosed(), "the third answer");
    expect(third.received()).toContain("HTTP/1.1 4");
  });
});

it.each([
  ["a request", request(short, "/v1/completions", "HOST: y\r\n")],
  ["one without a body", "GET /health HTTP/1.1\r\nHost: x\r\nHost: x\r\nHost: x\r\n\r\n"],
])("%s with several Host headers is refused, and the connection ends", async (_, text) => {
  await start();
  const client = await open();
  client.socket.write(request(short) + text + request(short));
  await until(() => client.isClosed(), "the end");
  expect(client.received().match(/HTTP\/1.1 \d+/g)).toEqual(["HTTP/1.1 200", "HTTP/1.1 400"]);
  expect(client.received()).toMatch(/expected one Host header, got [23].*"code":"invalid_request"/);
});

describe("one connection", () => {
  it("gets the answers to its requests though nonsense follows them in the same packet", async () => {
    await start();
    const client = await open();
    const get = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
    client.socket.write(`${get}${request(short)}${get}nonsense\r\n\r\n`);
    await until(() => client.isClosed(), "the answers and the end");
    const answers = client.received().match(/HTTP\/1.1 \d+/g);
    expect(answers).toEqual(["HTTP/1.1 200", "HTTP/1.1 200", "HTTP/1.1 200", "HTTP/1.1 400"]);
    expect(client.received()).toContain('"text":"ab"');
  });

  it("carries many requests, one after another and pipelined, in order", async () => {
    await start();
    const client = await open();
    client.socket.write(request(short));
    await until(() => client.received().includes('"text":"ab"'), "the first answer");
    const prompts = ["cd", "ef", "gh"];
    const all = prompts.map((prompt, i) => request({ ...short, prompt, stream: i === 1 })).join("");
    client.socket.write(all);
    await until(() => client.received().includes('"text":"gh"'), "the last answer");
    const text = client.received();
    const places = ['"text":"cd"', '"text":"e"', '"text":"f"', "[DONE]", '"text":"gh"'].map((part) =>
      text.indexOf(part),
    );
    expect(places).toEqual([...places].sort((a, b) => a - b));
    expect(places).not.toContain(-1);
    expect(client.isClosed()).toBe(false);
  });

  it("gets one write per step, whatever the number of choices", async () => {
    await start({ stepsByItself: false });
    const client = await open();
    client.socket.write(request({ ...short, n: 4, stream: true }));
    await until(() => fake.engine.numLive === 4, "four choices");
    fake.engine.step();
    await until(() => client.received().includes('"index":3'), "the first step");
    // One chunk of the chunked encoding: a single size line follows the headers.
    const chunks = client
      .received()
      .split("\r\n\r\n")[1]
      ?.match(/^[0-9a-f]+\r\n/gm);
    expect(chunks).toHaveLength(1);
    fake.engine.step();
    await until(() => client.received().includes("[DONE]"), "the end");
  });
});

describe("an error after the stream began", () => {
  it("is an event, logged once", async () => {
    await start({ stepsByItself: false });
    const client = await open();
    client.socket.write(request({ ...endless, stream: true }));
    await until(() => fake.engine.numLive === 1, "the request");
    fake.engine.step();
    await until(() => client.received().includes('"text":"a"'), "the first token");
    await fake.engine.close();
    await until(() => client.received().includes("[DONE]"), "the end");
    expect(client.received()).toContain('"code":"shutting_down"');
    expect(fake.lines.filter((line) => line.fields.code === "shutting_down")).toHaveLength(1);
  });
});

describe("a connection that is silent", () => {
  it("ends, unless its answer is being made", async () => {
    await start({ stepsByItself: false }, { limits: { ...DEFAULT_LIMITS, stalledClientTimeoutMs: 50 } });
    const client = await open();
    client.socket.write(request(short));
    await until(() => fake.engine.numLive === 1, "the request");
    const idle = await open();
    await until(() => idle.isClosed(), "the idle connection's end");
    fake.engine.step();
    fake.engine.step();
    await until(() => client.received().includes('"text":"ab"'), "the answer");
  });
});

describe("the server's end", () => {
  it("drains: running requests finish, new ones are refused, connections close", async () => {
    await start({ stepsByItself: false });
    const client = await open();
    const idle = await open();
    idle.socket.write(request(short, "/tokenize"));
    await until(() => idle.received().includes("HTTP/1.1 400"), "a connection that is kept alive");
    client.socket.write(request({ ...short, stream: true }));
    await until(() => fake.engine.numLive === 1, "the request");
    let isDrained = false;
    const drained = fake.server.drain().then(() => {
      isDrained = true;
    });
    const refused = await fetch(`${fake.server.url}/v1/completions`, { method: "POST", body: JSON.stringify(short) });
    expect(refused.status).toBe(503);
    expect(isDrained).toBe(false);
    fake.engine.step();
    fake.engine.step();
    await drained;
    await until(() => client.isClosed() && idle.isClosed(), "the connections' end");
    expect(client.received()).toContain("[DONE]");
  });

  it("says that a port is taken", async () => {
    await start();
    const again = startServer({ ...fake.options, host: "127.0.0.1", port: fake.server.port });
    await expect(again).rejects.toMatchObject({
      code: "invalid_option",
      message: expect.stringContaining("EADDRINUSE"),
      hint: expect.stringMatching(/--port .*--config: with port in the file/),
    });
  });
});
