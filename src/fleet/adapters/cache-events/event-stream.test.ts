import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { followEventStream } from "./event-stream.js";

const eventOf = (sequence: number, rest: object) => `data: ${JSON.stringify({ sequence, blocks: [], ...rest })}\n\n`;

/** Follows a server that sends these pieces, up to the end or failure of its stream. */
async function follow(pieces: readonly string[]): Promise<{ revisions: number[]; failure: string }> {
  const server = createServer(async (_, outgoing) => {
    outgoing.writeHead(200, { "content-type": "text/event-stream" });
    for (const piece of pieces) {
      outgoing.write(piece);
      await new Promise(setImmediate);
    }
    outgoing.end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const revisions: number[] = [];
  let failure = "";
  try {
    const events = followEventStream(
      { url, apiKey: undefined, modelName: undefined },
      "/kv_events",
      new AbortController().signal,
    );
    for await (const { revision } of events) revisions.push(revision);
  } catch (thrown) {
    failure = (thrown as Error).message;
  }
  server.closeAllConnections();
  server.close();
  return { revisions, failure };
}

test("events are read however their stream is cut", async () => {
  const text = eventOf(7, { block_size: 16, windows: [0] }) + eventOf(8, {}) + eventOf(9, {});
  for (const size of [1, 2, 5, text.length]) {
    const pieces = Array.from({ length: Math.ceil(text.length / size) }, (_, i) =>
      text.slice(i * size, (i + 1) * size),
    );
    expect(await follow(pieces)).toEqual({
      revisions: [7, 8, 9],
      failure: "expected a stream of cache events without an end, got its end",
    });
  }
});

test("an event without an end is refused once it is too large, after work in proportion to its length", async () => {
  const piece = "1".repeat(1024 * 1024);
  const { revisions, failure } = await follow(["data: ", ...Array.from({ length: 70 }, () => piece)]);
  expect([revisions, failure]).toEqual([[], "expected events of at most 67108864 bytes"]);
});
