import { type AddressInfo, connect } from "node:net";
import { afterEach, expect, test } from "vitest";
import { until } from "../../test/helpers/fake-server.js";
import { type HttpAnswer, HttpServer } from "./http-server.js";
import { assertFreePort } from "./listen.js";

const NEVER_MS = 1_000_000;
const GET = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
const logger = { info: () => {}, warn: () => {} };
let server: HttpServer;
let address: AddressInfo;
afterEach(() => server.close());

function open() {
  const socket = connect(address.port, "127.0.0.1");
  const seen = { text: "", isClosed: false };
  socket.on("data", (chunk) => {
    seen.text += chunk.toString();
  });
  socket.on("error", () => {});
  socket.on("close", () => {
    seen.isClosed = true;
  });
  return { seen, socket, ask: () => socket.write(GET) };
}

async function start(stalledClientMs: number, keepAliveMs: number, answer: HttpAnswer) {
  server = new HttpServer({ logger, stalledClientMs, keepAliveMs }, answer);
  address = await server.listen("127.0.0.1", 0);
  return open();
}

test("a connection that has its answer ends when its keep-alive time is over", async () => {
  const { seen, ask } = await start(NEVER_MS, 20, (_, outgoing) => outgoing.end("done"));
  ask();
  await until(() => seen.isClosed, "the end");
  expect(seen.text).toContain("done");
});

test("a connection that never asks ends", async () => {
  const { seen } = await start(20, NEVER_MS, () => {});
  await until(() => seen.isClosed, "the end");
});

test("a connection whose answer is made in silence stays", async () => {
  let answer = () => {};
  const { seen, ask } = await start(20, NEVER_MS, (_, outgoing) => {
    answer = () => outgoing.end("late");
  });
  ask();
  // The end of an idle connection shows that the time is over.
  const idle = open();
  await until(() => idle.seen.isClosed, "the time to be over");
  answer();
  await until(() => seen.text.includes("late"), "the answer");
});

test("what is no request is refused, after the answers to those before it", async () => {
  let end = () => {};
  const { seen, socket, ask } = await start(NEVER_MS, NEVER_MS, (_, outgoing) => {
    outgoing.write("begun");
    end = () => outgoing.end("ended");
  });
  ask();
  await until(() => seen.text.includes("begun"), "the answer's beginning");
  socket.write("nonsense\r\n\r\n");
  socket.write("more nonsense\r\n\r\n");
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(seen.text).not.toContain("400");
  end();
  await until(() => seen.isClosed, "the end");
  expect(seen.text).toMatch(/begun.*ended.*HTTP\/1.1 400 .*"invalid_request"}}$/s);
  const other = open();
  other.socket.write("nonsense\r\n\r\n");
  await until(() => other.seen.text.includes("invalid_request"), "the refusal");
  const long = open();
  long.socket.write(`GET / HTTP/1.1\r\nX: ${"x".repeat(20_000)}\r\n\r\n`);
  await until(() => long.seen.text.includes("431"), "the refusal");
  expect(long.seen.text).toContain("headers of at most 16384 bytes");
});

test("HTTP/1.1 needs one Host header, HTTP/1.0 none, and unknown expectations are ignored", async () => {
  await start(NEVER_MS, NEVER_MS, (_, outgoing) => outgoing.end("done"));
  const cases = [
    ["GET / HTTP/1.1\r\n\r\n", /^HTTP\/1.1 400 .*expected one Host header, got 0/s],
    ["GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", /^HTTP\/1.1 400 .*expected one Host header, got 2/s],
    ["GET / HTTP/1.0\r\n\r\n", /^HTTP\/1.1 200 .*done$/s],
    ["GET / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\nConnection: close\r\n\r\n", /^HTTP\/1.1 200 .*done/s],
  ] as const;
  for (const [request, expected] of cases) {
    const { seen, socket } = open();
    socket.write(request);
    await until(() => seen.isClosed, "the end");
    expect(seen.text).toMatch(expected);
  }
});

test("a request over the limit of a connection is refused after the answers before it, and those after it are dropped", async () => {
  const answers: (() => void)[] = [];
  const { seen, socket } = await start(NEVER_MS, NEVER_MS, (_, outgoing) => {
    answers.push(() => outgoing.end("done"));
  });
  socket.write(GET.repeat(200));
  await until(() => answers.length === 64, "the requests");
  for (const answer of answers) answer();
  await until(() => seen.isClosed, "the end");
  expect(seen.text.split("done")).toHaveLength(65);
  expect(seen.text).toMatch(/HTTP\/1.1 400 .*at most 64 unanswered/s);
  expect(answers).toHaveLength(64);
});

test("a client that sends without end and reads nothing is cut off, with its few requests", async () => {
  let numAsked = 0;
  let numOver = 0;
  const { seen, socket } = await start(NEVER_MS, NEVER_MS, (_incoming, _outgoing, onceOver) => {
    numAsked++;
    onceOver(() => numOver++);
  });
  socket.pause();
  const send = () => {
    while (!socket.destroyed && socket.write(GET.repeat(1000)));
  };
  socket.on("drain", send);
  send();
  await until(() => socket.destroyed || seen.isClosed, "the end");
  await until(() => numOver === 64, "the requests' end");
  expect(numAsked).toBe(64);
});

test("a port that is taken is told before anything is loaded, and a free one stays free", async () => {
  await start(NEVER_MS, NEVER_MS, () => {});
  const { port } = address;
  await expect(assertFreePort("127.0.0.1", port)).rejects.toMatchObject({ code: "invalid_option" });
  await server.close();
  await assertFreePort("127.0.0.1", port);
  server = new HttpServer({ logger, stalledClientMs: NEVER_MS }, () => {});
  expect((await server.listen("127.0.0.1", port)).port).toBe(port);
});

test("a target may hold the server's address", async () => {
  const { seen, socket } = await start(NEVER_MS, NEVER_MS, ({ url }, outgoing) => outgoing.end(`[${url}]`));
  for (const target of ["http://x/v1/models?a=1", "http://x?b=2", "HTTPS://x", "/plain"]) {
    socket.write(`GET ${target} HTTP/1.1\r\nHost: x\r\n\r\n`);
  }
  await until(() => seen.text.includes("[/plain]"), "the answers");
  expect(seen.text).toMatch(/\[\/v1\/models\?a=1\].*\[\/\?b=2\].*\[\/\].*\[\/plain\]/s);
});

test("all who wait for the last answer hear of it", async () => {
  let answer = () => {};
  const { ask } = await start(NEVER_MS, NEVER_MS, (_, outgoing) => {
    answer = () => outgoing.end("done");
  });
  ask();
  const begun = answer;
  await until(() => answer !== begun, "the request");
  const drained = Promise.all([server.drain(), server.drain(NEVER_MS), server.drain()]);
  answer();
  expect(await drained).toEqual([true, true, true]);
});
