import { expect, test } from "vitest";
import { BufferSink } from "../answer.js";
import { FreshIds } from "./fresh-ids.js";

test.each([true, false])("a response has new times, its end too (streamed: %s)", (isEventStream) => {
  const buffer = new BufferSink();
  const sink = new FreshIds(buffer, () => 1_900_000_000);
  sink.begin({ status: 200, headers: {}, isEventStream });
  const begun = { id: "resp_0123456789abcdef", created_at: 1_800_000_000, completed_at: null };
  const done = { ...begun, completed_at: 1_800_000_007, text: '"completed_at":1800000007' };
  const event = (response: object) => Buffer.from(`data: ${JSON.stringify({ response })}\n\n`);
  if (isEventStream) sink.write(event(begun));
  sink.end(isEventStream ? event(done) : Buffer.from(JSON.stringify(done)));
  const text = buffer.answer()!.body.toString();
  const last = JSON.parse(text.slice(text.lastIndexOf('{"id"')).replace(/\}\n*$/, isEventStream ? "" : "}"));
  expect(last).toMatchObject({ created_at: 1_900_000_000, completed_at: 1_900_000_000, text: done.text });
});

test("members of the same name in a tool's input and in metadata stay", () => {
  const input = { completed_at: 1_700_000_000 };
  const message = { id: "msg_0123456789abcdef", type: "message", content: [{ type: "tool_use", input }] };
  const response = { id: "resp_0123456789abcdef", created_at: 1_800_000_000, completed_at: null, metadata: input };
  for (const answer of [message, response]) {
    const buffer = new BufferSink();
    const sink = new FreshIds(buffer, () => 1_900_000_000);
    sink.begin({ status: 200, headers: {}, isEventStream: false });
    sink.end(Buffer.from(JSON.stringify(answer)));
    expect(buffer.answer()!.body.toString()).toContain(JSON.stringify(input));
  }
});

test("a stream whose first event has a separator that ends a line in JavaScript alone has new ids", () => {
  const buffer = new BufferSink();
  const sink = new FreshIds(buffer, () => 1_900_000_000);
  sink.begin({ status: 200, headers: {}, isEventStream: true });
  const response = { id: "resp_0123456789abcdef", instructions: "a\u2028b" };
  sink.end(Buffer.from(`data: ${JSON.stringify({ response })}\n\n`));
  const text = buffer.answer()!.body.toString();
  expect(text).toContain("a\u2028b");
  expect(text).not.toContain(response.id);
});
