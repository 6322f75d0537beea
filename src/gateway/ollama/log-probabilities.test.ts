import { expect, it } from "vitest";
import { BufferSink } from "../answer.js";
import { ollamaEndpointOf, ollamaSink } from "./endpoints.js";
import { ofChat } from "./request.js";

function sinkFor(path: string) {
  const buffer = new BufferSink();
  return { buffer, sink: ollamaSink(ollamaEndpointOf(path)!, { model: "m" }, {}, buffer, performance.now()) };
}

const textOf = (buffer: BufferSink): string => buffer.answer()!.body.toString("utf8");

it("are asked for where the request says so", () => {
  const messages = [{ role: "user", content: "Paris?" }];
  const scored = { logprobs: true, top_logprobs: 2 };
  expect(ofChat({ messages, ...scored })).toMatchObject(scored);
  expect(ofChat({ messages, ...scored, logprobs: false })).not.toHaveProperty("top_logprobs");
});

it("come once for each token, also of chunks without text", () => {
  const token = (text: string) => ({ token: text, logprob: -1, bytes: [], top_logprobs: [] });
  const chunk = (content: string, ...texts: string[]) => ({
    choices: [{ delta: { content }, logprobs: { content: texts.map(token), refusal: null } }],
  });
  const { buffer, sink } = sinkFor("/api/chat");
  sink.begin({ status: 200, headers: {}, isEventStream: true });
  for (const each of [chunk("", "a"), chunk("ab", "b"), chunk("", "c")]) {
    sink.write(Buffer.from(`data: ${JSON.stringify(each)}\n\n`));
  }
  sink.end();
  const lines = textOf(buffer).trim().split("\n");
  expect(lines.map((line) => (JSON.parse(line) as { logprobs: object }).logprobs)).toEqual([
    [token("a"), token("b")],
    [token("c")],
  ]);
  const whole = sinkFor("/api/chat");
  whole.sink.begin({ status: 200, headers: {}, isEventStream: false });
  whole.sink.end(Buffer.from(JSON.stringify({ choices: [{ message: {}, logprobs: { content: [token("a")] } }] })));
  expect(JSON.parse(textOf(whole.buffer))).toMatchObject({ logprobs: [token("a")] });
});
