/**
 * A model whose chat template never ends: the request gets an error, and the server still answers other requests and
 * continues their streams.
 */
import { afterEach, expect, it } from "vitest";
import { computedMs } from "../../test/helpers/computed-ms.js";
import { type FakeServer, startFakeServer, until } from "../../test/helpers/fake-server.js";
import { ChatTemplate } from "../text/template/chat-template.js";

let fake: FakeServer | undefined;
afterEach(() => fake?.server.close());

const LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";
const DOUBLED =
  "{% set ns = namespace(x=messages) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}";
const CHAT = { model: "fake", messages: [{ role: "user", content: "Hi" }] };

it.each([
  ["loops", LOOPS],
  ["memory", DOUBLED],
])("%s without end", async (_, source) => {
  fake = await startFakeServer({ stepsByItself: false }, { chatTemplate: new ChatTemplate(source) });
  const { engine, server } = fake;
  const post = (path: string, body: object) =>
    fetch(`${server.url}${path}`, { method: "POST", body: JSON.stringify(body) });
  const stream = post("/v1/completions", { prompt: "abc", max_tokens: 12, stream: true });
  await until(() => engine.numLive === 1, "the stream");
  engine.step();
  for (const path of ["/v1/chat/completions", "/v1/messages", "/tokenize", "/apply-template"]) {
    const began = computedMs();
    const body = path.startsWith("/v1/") ? { ...CHAT, max_tokens: 5 } : CHAT;
    const answer = await post(path, body);
    const got = [path, answer.status, await answer.text()];
    expect(got).toEqual([path, 400, expect.stringContaining("asks for more work than an input of this size may take")]);
    expect(computedMs() - began).toBeLessThan(3000);
    expect((await fetch(`${server.url}/health`)).status).toBe(200);
    engine.step();
  }
  for (let i = 0; i < 12; i++) engine.step();
  const text = await (await stream).text();
  expect(text.match(/"text":"[abc]"/g)).toHaveLength(12);
  expect(text).toContain("[DONE]");
});
