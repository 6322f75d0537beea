import { expect, it } from "vitest";
import { BufferSink } from "../answer.js";
import { ollamaEndpointOf, ollamaSink } from "./endpoints.js";
import { ofChat } from "./request.js";

it("requests have plain names of tools, and calls come back under the client's", () => {
  const tools = [{ function: { name: "fs/read.file" } }, { type: "function", function: { name: "f" } }];
  const calls = [{ function: { name: "fs/read.file", arguments: {} } }];
  const messages = [
    { role: "user", content: "a" },
    { role: "assistant", content: "", tool_calls: calls },
    { role: "tool", content: "x" },
  ];
  const asked = ofChat({ messages, tools }) as {
    tools: { type: string; function: { name: string } }[];
    messages: { tool_calls: typeof calls }[];
  };
  const name = asked.tools[0]!.function.name;
  expect(name).toMatch(/^fs_read_file_[0-9a-f]{8}$/);
  expect(asked.tools).toEqual([
    { type: "function", function: { name } },
    { type: "function", function: { name: "f" } },
  ]);
  expect(asked.messages[1]!.tool_calls[0]!.function.name).toBe(name);
  const buffer = new BufferSink();
  const sink = ollamaSink(ollamaEndpointOf("/api/chat")!, { model: "m" }, { tools }, buffer, performance.now());
  const tool_calls = [{ function: { name, arguments: '{"a":1}' } }, { function: { name: "f", arguments: "{}" } }];
  sink.begin({ status: 200, headers: {}, isEventStream: false });
  sink.end(Buffer.from(JSON.stringify({ choices: [{ message: { tool_calls }, finish_reason: "tool_calls" }] })));
  expect(JSON.parse(buffer.answer()!.body.toString()).message.tool_calls).toEqual([
    { function: { index: 0, name: "fs/read.file", arguments: { a: 1 } } },
    { function: { index: 1, name: "f", arguments: {} } },
  ]);
});
