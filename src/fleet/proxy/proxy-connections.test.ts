/** Clients' connections: slow, idle, endless, broken and pipelined ones. */
import { connect, type Socket } from "node:net";
import { afterEach, expect, test, vi } from "vitest";
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

let fleet: TestFleet;
afterEach(async () => {
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

test("a client that does not read pauses its instance; memory stays bounded, and no data is lost", async () => {
  const event = sse("x".repeat(16_000));
  const numEvents = 4000;
  let numWritten = 0;
  const { proxy } = await start([
    (_, outgoing) => {
      beginStream(outgoing);
      const write = () => {
        while (numWritten < numEvents) {
          numWritten++;
          if (!outgoing.write(event)) {
            outgoing.once("drain", write);
            return;
          }
        }
        outgoing.end();
      };
      write();
    },
  ]);
  const socket = connect(proxy.port, "127.0.0.1");
  const body = JSON.stringify(request);
  socket.pause();
  socket.write(
    `POST ${chat} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
  await quiet(() => numWritten);
  // The part that fits into two connections' buffers: far from all.
  expect(numWritten).toBeLessThan(numEvents / 2);
  let numBytes = 0;
  socket.on("data", (chunk) => {
    numBytes += chunk.length;
  });
  socket.resume();
  await new Promise((resolve) => socket.once("close", resolve));
  expect(numWritten).toBe(numEvents);
  expect(numBytes).toBeGreaterThan(numEvents * event.length);
});

test("a body that never ends is refused, and its connection is closed if the client does not stop", async () => {
  const { proxy } = await start([ok], { limits: { maxBodyBytes: 1000 } });
  const socket: Socket = connect(proxy.port, "127.0.0.1");
  let answer = "";
  socket.on("data", (bytes) => {
    answer += bytes.toString();
  });
  socket.on("error", () => {});
  socket.write(`POST ${chat} HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\n`);
  const sending = setInterval(() => socket.write("x".repeat(10_000)), 10);
  await new Promise((resolve) => socket.once("close", resolve));
  clearInterval(sending);
  expect(answer).toMatch(/^HTTP\/1.1 413 .*"body_too_large"}}$/s);
});

test("an idle connection ends, unless its answer is in progress", async () => {
  let answer = () => {};
  const slow: Behaviour = (received, outgoing) => {
    answer = () => ok(received, outgoing);
  };
  const { post, proxy, standIns } = await start([slow], { timeouts: { stalledClientMs: 50 } });
  const response = post(chat, request);
  await until(() => standIns[0]!.received.length === 1);
  const idle = connect(proxy.port, "127.0.0.1").resume();
  await new Promise((resolve) => idle.once("close", resolve));
  answer();
  expect(await (await response).json()).toEqual({ ok: true });
});

test("requests before invalid data are answered, and so are those of a half-closed connection", async () => {
  const { proxy } = await start([ok]);
  const body = JSON.stringify(request);
  const one = `POST ${chat} HTTP/1.1\r\nHost: h\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  const get = "GET /health HTTP/1.1\r\nHost: h\r\n\r\n";
  for (const [sent, statuses] of [
    [`${get}${one}nonsense\r\n\r\n`, ["200", "200", "400"]],
    [`${get}${one}`, ["200", "200"]],
  ] as const) {
    const isEnding = statuses.length === 2;
    const socket = connect({ port: proxy.port, host: "127.0.0.1", allowHalfOpen: true });
    let answer = "";
    socket.on("data", (bytes) => {
      answer += bytes.toString();
    });
    socket.once("end", () => socket.end());
    if (isEnding) socket.end(sent);
    else socket.write(sent);
    await new Promise((resolve) => socket.once("close", resolve));
    const seen = [...answer.matchAll(/HTTP\/1.1 (\d+)/g)].map((match) => match[1]);
    expect(seen.filter((status) => status !== "100")).toEqual(statuses);
  }
});

test("pipelined requests are answered in order, and cancelled together", async () => {
  const { proxy, standIns } = await start([never]);
  const socket: Socket = connect(proxy.port, "127.0.0.1");
  const body = JSON.stringify(request);
  const one = `POST ${chat} HTTP/1.1\r\nHost: h\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  socket.write(one + one);
  await until(() => standIns[0]!.received.length === 2);
  socket.destroy();
  await until(() => standIns[0]!.numCut === 2);
});
