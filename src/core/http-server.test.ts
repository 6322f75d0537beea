import { createServer, type RequestListener, type Server, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import { until } from "../../test/helpers/fake-server.js";
import { answerBadRequest, assertFreePort, endSilentConnections, listen } from "./http-server.js";

const NEVER_MS = 1_000_000;
let server: Server;
afterEach(() => {
  server.close();
  server.closeAllConnections();
});

async function start(timeoutMs: number, keepAliveMs: number, answer: RequestListener) {
  const unanswered = new Set<ServerResponse>();
  server = createServer((incoming, outgoing) => {
    unanswered.add(outgoing);
    outgoing.once("close", () => unanswered.delete(outgoing));
    answer(incoming, outgoing);
  });
  endSilentConnections(server, timeoutMs, unanswered, keepAliveMs);
  const { port } = await listen(server, "127.0.0.1", 0);
  const socket = connect(port, "127.0.0.1");
  const seen = { text: "", isClosed: false };
  socket.on("data", (chunk) => {
    seen.text += chunk.toString();
  });
  socket.on("close", () => {
    seen.isClosed = true;
  });
  return { seen, socket, unanswered, ask: () => socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n") };
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
  let numTimeouts = 0;
  server.on("timeout", () => numTimeouts++);
  ask();
  await until(() => numTimeouts > 0, "the time to be over");
  answer();
  await until(() => seen.text.includes("late"), "the answer");
});

test("what is no request is refused, after the answers to those before it", async () => {
  let end = () => {};
  const { seen, socket, ask, unanswered } = await start(NEVER_MS, NEVER_MS, (_, outgoing) => {
    outgoing.write("begun");
    end = () => outgoing.end("ended");
  });
  server.on("clientError", (error, its) => answerBadRequest({ warn: () => {} }, error, its as Socket, unanswered));
  ask();
  await until(() => seen.text.includes("begun"), "the answer's beginning");
  socket.write("nonsense\r\n\r\n");
  socket.write("more nonsense\r\n\r\n");
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(seen.text).not.toContain("400");
  end();
  await until(() => seen.isClosed, "the end");
  expect(seen.text).toMatch(/begun.*ended.*HTTP\/1.1 400 .*"invalid_request"}}$/s);
  const { port } = server.address() as AddressInfo;
  const other = connect(port, "127.0.0.1", () => other.write("nonsense\r\n\r\n"));
  let text = "";
  other.on("data", (chunk) => {
    text += chunk.toString();
  });
  await until(() => text.includes("invalid_request"), "the refusal");
});

test("a port that is taken is told before anything is loaded, and a free one stays free", async () => {
  const server = createServer();
  const { port } = await listen(server, "127.0.0.1", 0);
  await expect(assertFreePort("127.0.0.1", port)).rejects.toMatchObject({ code: "invalid_option" });
  await new Promise((resolve) => server.close(resolve));
  await assertFreePort("127.0.0.1", port);
  const again = createServer();
  expect((await listen(again, "127.0.0.1", port)).port).toBe(port);
  await new Promise((resolve) => again.close(resolve));
});
