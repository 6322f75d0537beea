import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { afterEach, expect, test } from "vitest";
import { until } from "../../../test/helpers/fake-server.js";
import { SseStream } from "./sse.js";

let server: Server;
afterEach(() => {
  server.close();
  server.closeAllConnections();
});

/** A server whose `write` writes the answers. */
async function start(maxBufferedBytes: number, write: (stream: SseStream) => void, everyMs?: number) {
  const overflows: number[] = [];
  const onOverflow = (bufferedBytes: number) => overflows.push(bufferedBytes);
  const heartbeat = everyMs === undefined ? {} : { everyMs };
  server = createServer((_, outgoing) =>
    write(new SseStream(outgoing, { headers: {}, maxBufferedBytes, onOverflow, heartbeat })),
  );
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { port: (server.address() as AddressInfo).port, overflows };
}

test("a text longer than the limit reaches who reads it, and what comes right behind it too", async () => {
  const long = `data: ${"x".repeat(3_000_000)}\n\n`;
  const { port, overflows } = await start(1000, (stream) => {
    stream.send(long);
    // After the first text is written, before the socket takes it.
    queueMicrotask(() => {
      stream.send("data: more\n\n");
      queueMicrotask(() => stream.end());
    });
  });
  const response = await fetch(`http://127.0.0.1:${port}`);
  expect(await response.text()).toBe(`${long}data: more\n\n`);
  expect(overflows).toEqual([]);
});

test("who does not read is cut off", async () => {
  const text = `data: ${"x".repeat(100_000)}\n\n`;
  let numSent = 0;
  const { port, overflows } = await start(1000, (stream) => {
    const sendMore = () => {
      if (overflows.length > 0) return;
      stream.send(text);
      numSent++;
      setImmediate(sendMore);
    };
    sendMore();
  });
  const client = connect(port, "127.0.0.1").pause();
  client.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  await until(() => overflows.length > 0, "the cut");
  client.on("error", () => {});
  client.destroy();
  // Only the kernel's buffers fill up.
  expect(overflows[0]).toBeLessThan(3 * text.length);
  expect(numSent * text.length).toBeLessThan(100_000_000);
});

test("a silent stream says that it lives, once it has begun and until it ends", async () => {
  const { port } = await start(
    1000,
    (stream) => {
      setTimeout(() => stream.send("data: first\n\n"), 60);
      setTimeout(() => stream.end(), 200);
    },
    20,
  );
  const response = await fetch(`http://127.0.0.1:${port}`);
  expect(await response.text()).toMatch(/^data: first\n\n(:\n\n)+$/);
});
