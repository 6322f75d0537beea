import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { complete } from "./client.js";
import { llamaServer, millraceServer, type RunningServer } from "./servers.js";

const MODEL = { path: "model.gguf", kvBytesPerToken: 1, numThreads: 1 };
let server: Server | undefined;
afterEach(() => server?.close());

async function answering(kind: RunningServer["kind"], status: number, body: string): Promise<RunningServer> {
  server = createServer((_, response) => {
    response.writeHead(status, { "content-type": "text/event-stream" });
    // In pieces that end anywhere.
    for (const piece of body.match(/[\s\S]{1,7}/g) ?? []) response.write(piece);
    response.end();
  });
  await new Promise<void>((resolve) => server!.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return { kind, url: `http://127.0.0.1:${port}`, stop: async () => {} };
}

const request = { promptIds: [1, 2], maxTokens: 3 };

test("reads token ids from this server's stream and from llama-server's", async () => {
  const ours = ["token_id:5", "token_id:6", "token_id:7"].map(
    (token) => `data: ${JSON.stringify({ choices: [{ text: "x", logprobs: { tokens: [token] } }] })}\n\n`,
  );
  const first = await answering(millraceServer("millrace", MODEL), 200, `${ours.join("")}data: [DONE]\n\n`);
  expect((await complete(first, request)).ids).toEqual([5, 6, 7]);
  server?.close();
  const theirs = [[5], [6, 7], []].map((tokens) => `data: ${JSON.stringify({ content: "x", tokens })}\n\n`);
  const second = await answering(llamaServer("llama-server", MODEL), 200, theirs.join(""));
  const { ids, tokenAtMs } = await complete(second, request);
  expect(ids).toEqual([5, 6, 7]);
  expect(tokenAtMs.length).toBe(3);
});

test.each([
  [500, "oops", /got status 500: oops/],
  [200, 'data: {"choices":[]}\n\n', /expected 3 tokens of millrace, got 0/],
])("an answer that is none is an error: %s", async (status, body, message) => {
  const broken = await answering(millraceServer("millrace", MODEL), status, body);
  await expect(complete(broken, request)).rejects.toThrow(message);
});
