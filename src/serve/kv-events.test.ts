import { afterEach, expect, test } from "vitest";
import { type FakeServer, startFakeServer, until } from "../../test/helpers/fake-server.js";

let fake: FakeServer;
afterEach(() => fake.server.close());

async function listen(headers: Record<string, string> = {}) {
  const response = await fetch(`${fake.server.url}/kv_events`, { headers });
  const received = { text: "", isOver: false };
  const read = async () => {
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) received.text += chunk;
    received.isOver = true;
  };
  void read().catch(() => {});
  const events = () =>
    [...received.text.matchAll(/^event: (\w+)\ndata: (.*)$/gm)].map(([, name, data]) => [name, JSON.parse(data!)]);
  return { status: response.status, received, events };
}

test("all there is, then what becomes of it, numbered", async () => {
  fake = await startFakeServer();
  fake.engine.changeCache([11, 1, 12, 1]);
  const { events, received } = await listen();
  fake.engine.changeCache([11, 0, 13, 1]);
  fake.engine.changeCache([14, 1]);
  await until(() => events().length === 3, "three events");
  expect(received.text).toContain("event: snapshot\n");
  expect(events()).toEqual([
    ["snapshot", { sequence: 1, block_size: 16, windows: [0], blocks: [11, 1, 12, 1] }],
    ["changes", { sequence: 2, blocks: [11, 0, 13, 1] }],
    ["changes", { sequence: 3, blocks: [14, 1] }],
  ]);
});

test("needs a key where the API does", async () => {
  fake = await startFakeServer({}, { apiKeys: ["key"] });
  expect((await listen()).status).toBe(401);
  const { status, events } = await listen({ authorization: "Bearer key" });
  expect(status).toBe(200);
  await until(() => events().length === 1, "a snapshot");
});

test("is for nobody where keys do not share what is cached", async () => {
  fake = await startFakeServer({}, { apiKeys: ["one", "two"], isolatesApiKeys: true });
  const response = await fetch(`${fake.server.url}/kv_events`, { headers: { authorization: "Bearer one" } });
  const said = /--no-isolate-api-keys \(in a fleet's file isolate-api-keys: false\)".*"code":"forbidden"/;
  expect([response.status, await response.text()]).toEqual([403, expect.stringMatching(said)]);
});

test("a server that drains does not wait for who listens", async () => {
  fake = await startFakeServer();
  const { received, events } = await listen();
  await until(() => events().length === 1, "a snapshot");
  await fake.server.drain();
  await until(() => received.isOver, "the end");
});
