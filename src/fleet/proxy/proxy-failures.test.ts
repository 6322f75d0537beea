import { connect, createServer } from "node:net";
import { Agent, request as undiciRequest } from "undici";
import { afterEach, describe, expect, test, vi } from "vitest";
import { holdBodies, largeBody } from "../../../test/helpers/held-bodies.js";
import {
  answerJson,
  type Behaviour,
  beginStream,
  type FleetOptions,
  quiet,
  sse,
  startFleet,
  type TestFleet,
  until,
} from "../../../test/helpers/stand-in.js";
import { type KeySource, TextKeySource } from "../routing/key-source.js";

let fleet: TestFleet;
afterEach(async () => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  await fleet.stop();
});

const start = async (behaviours: readonly Behaviour[], options?: FleetOptions) => {
  fleet = await startFleet(behaviours, options);
  return fleet;
};
const request = { model: "m", messages: [] };
const chat = "/v1/chat/completions";
const ok = answerJson({ ok: true });
const never: Behaviour = () => {};
const cut: Behaviour = (_, outgoing) => outgoing.destroy();
/** Sends two events and then nothing more. */
const stall: Behaviour = (_, outgoing) => {
  beginStream(outgoing);
  outgoing.write(sse({ n: 1 }) + sse({ n: 2 }));
};
/** Sends two and a half events, then breaks the connection. */
const breakOff: Behaviour = (_, outgoing) => {
  beginStream(outgoing);
  outgoing.write(`${sse({ n: 1 })}${sse({ n: 2 })}data: {"n"`, () => outgoing.destroy());
};
const code = async (response: Response) => {
  const { error } = (await response.json()) as { error: { code: string } };
  return [response.status, error.code];
};

describe("a client that leaves", () => {
  test.each([
    ["while it waits for a whole answer", never],
    ["in the middle of a stream", stall],
  ])("%s: the instance stops immediately", async (_, behaviour) => {
    const { post, standIns, watched, pool, proxy } = await start([behaviour]);
    const leaving = new AbortController();
    const response = post(chat, request, { signal: leaving.signal });
    response.catch(() => {});
    if (behaviour === stall) await (await response).body!.getReader().read();
    await until(() => standIns[0]!.received.length === 1);
    leaving.abort();
    await until(() => standIns[0]!.numCut === 1);
    await until(() => watched.ended.length === 1);
    expect(watched.ended[0]!.outcome).toBe("cancelled");
    expect(proxy.numInFlight("a")).toBe(0);
    expect(pool.failures).toEqual([]);
  });

  test("while its prompt waits to be tokenized: the tenant's turn is freed", async () => {
    const authorize = () => ({ tenant: "mine" });
    const tenants: string[] = [];
    const keysOf: KeySource["keysOf"] = (body, path, numBytes, scope, owner) => {
      tenants.push(owner!.tenant);
      return new Promise((resolve) => {
        owner!.watch!(() => resolve(new TextKeySource().keysOf(body, path, numBytes, scope)));
      });
    };
    const keySource = () => ({ tokensPerBlock: 16, keysOf });
    const { post, standIns, watched } = await start([ok], { proxy: { authorize, keySource } });
    const leaving = new AbortController();
    post(chat, request, { signal: leaving.signal }).catch(() => {});
    await until(() => tenants.length === 1);
    leaving.abort();
    await until(() => watched.ended.length === 1);
    expect(watched.ended[0]!.outcome).toBe("cancelled");
    expect(tenants).toEqual(["mine"]);
    expect(standIns[0]!.received).toEqual([]);
  });

  test("while its large body waits to be read: the body is dropped, and other keys' bodies are read in turn", async () => {
    const authorize = (headers: { authorization?: string | undefined }) => ({ tenant: headers.authorization ?? "" });
    const { post, standIns, watched } = await start([ok], { proxy: { authorize } });
    const held = holdBodies();
    const send = async (tenant: string, name: string, signal: AbortSignal | null = null) => {
      const numCome = held.numCome();
      const response = post("/v1/completions", largeBody(name), { signal, headers: { authorization: tenant } });
      response.catch(() => {});
      await until(() => held.numCome() === numCome + 1);
      // Wrapped in an object: returned bare, the promise would make this function wait for the answer.
      return { response };
    };
    const leaving = new AbortController();
    const first = await send("a", "a0");
    await send("a", "a1", leaving.signal);
    const rest = [await send("a", "a2"), await send("b", "b0")];
    leaving.abort();
    await until(() => watched.refused.length === 1);
    expect(watched.refused).toEqual(["client_closed"]);
    held.letGo();
    for (const { response } of [first, ...rest]) expect((await response).status).toBe(200);
    expect(held.names).toEqual(["a0", "b0", "a2"]);
    expect(standIns[0]!.received).toHaveLength(3);
  });

  test("while it waits for a seat: the request never reaches an instance", async () => {
    const capacity = { seats: 1, kvTokens: undefined, blockSize: undefined };
    const { post, standIns, proxy, watched } = await start([never], { upstream: { capacity } });
    void post(chat, request).catch(() => {});
    await until(() => standIns[0]!.received.length === 1);
    const leaving = new AbortController();
    post(chat, request, { signal: leaving.signal }).catch(() => {});
    await until(() => proxy.numWaiting("m") === 1);
    leaving.abort();
    await until(() => proxy.numWaiting("m") === 0);
    await until(() => watched.ended.length === 1);
    expect(standIns[0]!.received).toHaveLength(1);
  });
});

test("a drain that takes too long ends with an error for waiting clients, which is the last event of a stream", async () => {
  const capacity = { seats: 2, kvTokens: undefined, blockSize: undefined };
  const behaviour: Behaviour = (...exchange) => (exchange[0].body.stream ? stall : never)(...exchange);
  const options = { upstream: { capacity }, timeouts: { drainMs: 0 } };
  const { post, standIns, proxy, pool } = await start([behaviour], options);
  const stream = await post(chat, { ...request, stream: true });
  const events = stream.body!.pipeThrough(new TextDecoderStream()).getReader();
  let read = "";
  while (!read.includes('"n":2}')) read += (await events.read()).value;
  const whole = post(chat, request);
  await until(() => standIns[0]!.received.length === 2);
  const waiting = post(chat, request);
  await until(() => proxy.numWaiting("m") === 1);
  await proxy.drain();
  for (let next = await events.read(); !next.done; next = await events.read()) read += next.value;
  expect(read).toMatch(/"n":2\}\n\ndata: \{"error":.*"shutting_down".*\n\n$/);
  for (const response of [await whole, await waiting]) expect(await code(response)).toEqual([503, "shutting_down"]);
  expect(pool.failures).toEqual([]);
});

test("a drain ends one second after its time limit, even if a client does not read", async () => {
  let numWritten = 0;
  const endless: Behaviour = (_, outgoing) => {
    beginStream(outgoing);
    const write = () => {
      for (numWritten++; outgoing.write(sse("x".repeat(16_000))); ) numWritten++;
      outgoing.once("drain", write);
    };
    write();
  };
  const { proxy } = await start([endless], { timeouts: { drainMs: 0 } });
  const socket = connect(proxy.port, "127.0.0.1");
  const body = JSON.stringify({ ...request, stream: true });
  socket.pause();
  socket.on("error", () => {});
  socket.write(`POST ${chat} HTTP/1.1\r\nHost: h\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  await quiet(() => numWritten);
  const beganMs = performance.now();
  await proxy.drain();
  expect(performance.now() - beganMs).toBeGreaterThan(900);
  socket.destroy();
});

test("an instance's headers may have 60 kB", async () => {
  const { proxy } = await start([(_, outgoing) => outgoing.writeHead(200, { "X-Big": "x".repeat(60_000) }).end("{}")]);
  // Another client, since fetch accepts at most 16 KiB.
  const response = await undiciRequest(`${proxy.url}${chat}`, {
    method: "POST",
    body: JSON.stringify(request),
    dispatcher: new Agent({ maxHeaderSize: 100_000 }),
  });
  expect([response.statusCode, response.headers["x-big"]?.length]).toEqual([200, 60_000]);
});

describe("another instance takes over a request that an instance does not accept, unnoticed by the client", () => {
  test.each<[string, Behaviour]>([
    ["it closes the connection", cut],
    ["it is starting", answerJson({ error: "loading" }, 503)],
    ["its queue is full", answerJson({ error: "busy" }, 429)],
    ["its headers are huge", (_, outgoing) => outgoing.writeHead(200, { "X-Big": "x".repeat(100_000) }).end()],
    ["it sends garbage", (_, outgoing) => outgoing.socket!.end("SMTP ready\r\n\r\n")],
    [
      "it closes after the headers, before the first byte",
      (_, outgoing) => {
        beginStream(outgoing);
        outgoing.flushHeaders();
        setImmediate(() => outgoing.destroy());
      },
    ],
    [
      "it closes in the first event",
      (_, outgoing) => {
        beginStream(outgoing);
        outgoing.write("data: {", () => outgoing.destroy());
      },
    ],
  ])("%s", async (_, behaviour) => {
    const { post, watched } = await start([behaviour, ok]);
    const response = await post(chat, request);
    expect([response.status, await response.json()]).toEqual([200, { ok: true }]);
    expect([watched.routed, watched.retried]).toEqual([["a", "b"], ["a"]]);
  });

  test("the instance does not exist", async () => {
    const { post, standIns, pool } = await start([ok, ok]);
    await standIns[0]!.die();
    expect((await post(chat, request)).status).toBe(200);
    expect(pool.failures).toEqual(["a"]);
  });

  test("a failover repeats the same request, including its seed", async () => {
    const { post, standIns } = await start([cut, ok], { upstream: { engine: "millrace" } });
    await post(chat, request);
    const [first, second] = standIns.map(({ received }) => received[0]!.body);
    expect(first).toEqual(second);
    expect(first!.seed).toEqual(expect.any(Number));
  });
});

test("an error that every instance would return is passed on, and the request is not repeated", async () => {
  const { post, watched } = await start([answerJson({ error: "bug" }, 500), ok]);
  expect((await post(chat, request)).status).toBe(500);
  expect(watched.routed).toEqual(["a"]);
});

test.each([
  ["millrace", 500, "open"],
  ["vllm", 504, "open"],
  // The request's own `timeout` was too short.
  ["millrace", 504, "closed"],
] as const)("%s that answers %i again and again: its breaker is %s", async (engine, status, state) => {
  const { post, proxy } = await start([answerJson({ error: "no" }, status)], { upstream: { engine } });
  for (let i = 0; i < 3; i++) expect((await post(chat, request)).status).toBe(status);
  expect(proxy.breakerState("a")).toBe(state);
});

test.each([1, 2, 3])("with max-attempts %i, at most that many instances are tried", async (maxAttempts) => {
  const busy = answerJson({ error: "busy" }, 429);
  const { post, watched } = await start([busy, busy, busy, busy], { limits: { maxAttempts } });
  expect((await post(chat, request)).status).toBe(429);
  expect(watched.routed).toHaveLength(maxAttempts);
});

test("a request that breaks the connections of two instances is not sent to a third", async () => {
  const { post, watched } = await start([cut, cut, cut, cut], { limits: { maxAttempts: 10 } });
  expect(await code(await post(chat, request))).toEqual([502, "upstream_failed"]);
  expect(watched.routed).toHaveLength(2);
});

test("an instance that refuses connections does not count as one of the two", async () => {
  const { post, standIns, watched } = await start([cut, ok, ok], { limits: { maxAttempts: 10 } });
  // Turns go to the first, the third, then the second.
  await standIns[2]!.die();
  expect((await post(chat, request)).status).toBe(200);
  expect(watched.routed).toEqual(["a", "c", "b"]);
});

test("a request to the only instance is repeated after its connection was closed", async () => {
  let numRequests = 0;
  const { post, watched } = await start([(...exchange) => (numRequests++ === 0 ? cut : ok)(...exchange)]);
  expect((await post(chat, request)).status).toBe(200);
  expect(watched.routed).toEqual(["a", "a"]);
});

test("if all instances are busy, the client gets the last one's refusal", async () => {
  const busy: Behaviour = (_, outgoing) => {
    outgoing.writeHead(429, { "Retry-After": "7" });
    outgoing.end("{}");
  };
  const { post } = await start([busy, busy]);
  const response = await post(chat, request);
  expect([response.status, response.headers.get("retry-after")]).toEqual([429, "7"]);
});

test("without a ready instance: 503 with a retry time", async () => {
  const { post, pool } = await start([ok]);
  pool.change("a", { state: "starting" });
  const response = await post(chat, request);
  expect(response.headers.get("retry-after")).toBe("1");
  expect(await code(response)).toEqual([503, "no_instance_ready"]);
});

test("with all seats taken and the queue full: 429 with a retry time", async () => {
  const capacity = { seats: 1, kvTokens: undefined, blockSize: undefined };
  const { post, standIns, proxy } = await start([never], { upstream: { capacity }, limits: { maxWaiting: 1 } });
  for (let i = 0; i < 2; i++) post(chat, request).catch(() => {});
  await until(() => standIns[0]!.received.length === 1 && proxy.numWaiting("m") === 1);
  const response = await post(chat, request);
  expect(response.headers.get("retry-after")).toBe("1");
  expect(await code(response)).toEqual([429, "queue_full"]);
});

describe("an interrupted stream ends with an error event and no [DONE], and is not restarted", () => {
  test.each([
    [
      "OpenAI",
      chat,
      /^data: {"error":{"message":"expected an answer from instance a, got .*,"code":"upstream_failed"}}\n\n$/,
    ],
    [
      "OpenAI's responses",
      "/v1/responses",
      /^event: error\ndata: {"type":"error","code":"upstream_failed",.*"error":{.*}}\n\n$/,
    ],
    ["Anthropic", "/v1/messages", /^event: error\ndata: {"type":"error","error":{"type":"api_error",.*}\n\n$/],
  ])("%s", async (_, path, pattern) => {
    const { post, watched, pool } = await start([breakOff, ok]);
    const text = await (await post(path, request)).text();
    const whole = sse({ n: 1 }) + sse({ n: 2 });
    expect(text.startsWith(whole)).toBe(true);
    expect(text.slice(whole.length)).toMatch(pattern);
    expect(watched.routed).toEqual(["a"]);
    expect(watched.ended).toEqual([{ outcome: "broken", status: 200 }]);
    expect(pool.failures).toEqual(["a"]);
  });

  test("garbage inside a stream", async () => {
    const { post } = await start([
      (_, outgoing) => {
        beginStream(outgoing);
        outgoing.write(sse({ n: 1 }), () => outgoing.socket!.end("zzz\r\nno chunk\r\n"));
      },
    ]);
    const text = await (await post(chat, request)).text();
    expect(text).toMatch(/^data: {"n":1}\n\ndata: {"error":.*"upstream_failed"}}\n\n$/);
  });

  test("an interrupted answer that is not a stream is cut off, so that it cannot pass for a complete one", async () => {
    const { post } = await start([
      (_, outgoing) => {
        outgoing.writeHead(200, { "Content-Length": 100 });
        outgoing.write("{", () => outgoing.destroy());
      },
    ]);
    const response = await post(chat, request);
    await expect(response.text()).rejects.toThrow();
  });
});

describe("timeouts", () => {
  test("to the first byte", async () => {
    const { post, standIns, pool } = await start([never], { timeouts: { firstByteMs: 30 } });
    const response = await post(chat, request);
    expect(response.headers.get("x-should-retry")).toBe("false");
    expect(await code(response)).toEqual([504, "upstream_timeout"]);
    await until(() => standIns[0]!.numCut === 1);
    expect(pool.failures).toEqual(["a"]);
  });

  test("between bytes, which does not apply to the first byte", async () => {
    const { post, standIns } = await start([stall], { timeouts: { firstByteMs: 60_000, idleMs: 30 } });
    const text = await (await post(chat, request)).text();
    expect(text).toMatch(/{"n":2}\n\ndata: {"error":.*"upstream_timeout"}}\n\n$/);
    await until(() => standIns[0]!.numCut === 1);
  });

  test("between events, which comments are not", async () => {
    let write = (_: string) => {};
    const silent: Behaviour = (_, outgoing) => {
      beginStream(outgoing);
      write = (text) => outgoing.write(text);
      write(": queued\n\n");
    };
    const { post, standIns } = await start([silent], { timeouts: { firstByteMs: 1_000, idleMs: 300 } });
    // Before the request, which starts timers.
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
    const answer = (await post(chat, request)).body!.pipeThrough(new TextDecoderStream()).getReader();
    const next = async () => String((await answer.read()).value);
    expect(await next()).toBe(": queued\n\n");
    for (const event of [sse({ n: 1 }), sse({ n: 2 })]) {
      for (let n = 0; n < 3; n++) {
        await vi.advanceTimersByTimeAsync(250);
        write(": queued\n\n");
        expect(await next()).toBe(": queued\n\n");
      }
      write(event);
      expect(await next()).toBe(event);
    }
    let last = "";
    for (let n = 0; n < 5 && !last.includes("error"); n++) {
      await vi.advanceTimersByTimeAsync(250);
      write(": queued\n\n");
      last = await next();
    }
    expect(last).toMatch(/"expected more than comments within 1000 ms from instance a, got none.*"upstream_timeout"/);
    vi.useRealTimers();
    await until(() => standIns[0]!.numCut === 1);
  });

  test("a slow stream does not count as stalled", async () => {
    let write = (_: unknown) => {};
    const slow: Behaviour = (_, outgoing) => {
      beginStream(outgoing);
      write = (event) => outgoing.write(sse(event));
      write({ n: 0 });
    };
    const { post } = await start([slow], { timeouts: { firstByteMs: 500, idleMs: 500 } });
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
    const answer = (await post(chat, request)).body!.pipeThrough(new TextDecoderStream()).getReader();
    for (let n = 0; n < 10; n++) {
      expect(await answer.read()).toMatchObject({ value: sse({ n }) });
      await vi.advanceTimersByTimeAsync(400);
      write({ n: n + 1 });
    }
    expect(await answer.read()).toMatchObject({ value: sse({ n: 10 }) });
    await answer.cancel();
  });
});

test("an instance that keeps answering with errors does not attract all requests", async () => {
  const { post, watched } = await start([answerJson({}, 500), ok]);
  for (let i = 0; i < 20; i++) await post(chat, request);
  // Three, plus one for each second that the loop takes.
  expect(watched.ended.filter(({ status }) => status === 500).length).toBeLessThan(8);
});

test("a port without HTTP", async () => {
  const server = createServer((socket) => socket.end("\0\0\0"));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  const { post, pool } = await start([ok]);
  pool.change("a", { target: { url: `http://127.0.0.1:${port}`, apiKey: undefined, modelName: undefined } });
  expect(await code(await post(chat, request))).toEqual([502, "upstream_failed"]);
  server.close();
});
