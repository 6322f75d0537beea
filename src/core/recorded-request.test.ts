import { describe, expect, test } from "vitest";
import { plainChatOf, recordedRequest } from "./recorded-request.js";

const user = { role: "user", content: "Hi" };
const answered = (message: object, finish_reason = "stop") => ({ choices: [{ index: 0, message, finish_reason }] });

test("a line with a request is a recorded one, whatever else it has", () => {
  const request = { messages: [user] };
  expect(recordedRequest({ request, timestamp: 5, tenant: "t" })).toEqual({ request, timestamp: 5 });
  expect(recordedRequest({ request, response: null, timestamp: "now" })).toEqual({ request });
  for (const line of [{ messages: [user] }, { request: "no" }, [], null, 3]) {
    expect(recordedRequest(line)).toBeUndefined();
  }
});

describe("the chat of a recorded request", () => {
  test("has the texts of all messages, and the answer", () => {
    const messages = [
      { role: "developer", content: "Be brief." },
      {
        role: "user",
        content: [
          { type: "text", text: "How high " },
          { type: "text", text: "is Etna?" },
        ],
      },
    ];
    const response = answered({ role: "assistant", content: "3,403 m" });
    expect(plainChatOf({ request: { messages, tools: [] }, response })).toEqual({
      messages: [
        { role: "system", content: "Be brief." },
        { role: "user", content: "How high is Etna?" },
      ],
      answer: "3,403 m",
    });
  });

  test.each<[string, object | undefined]>([
    ["none", undefined],
    ["one that was cut", answered({ content: "3,4" }, "length")],
    ["a call", answered({ content: null, tool_calls: [{}] }, "tool_calls")],
    [
      "a call in OpenAI's earlier form",
      answered({ content: "I look.", function_call: { name: "f" } }, "function_call"),
    ],
    ["an empty one", answered({ content: "" })],
    ["another form", { choices: "no" }],
  ])("has no answer where the response is %s", (_, response) => {
    const recorded = {
      request: { messages: [user] },
      ...(response === undefined ? {} : { response: { ...response } }),
    };
    expect(plainChatOf(recorded)).toEqual({ messages: [user], answer: undefined });
  });

  test.each<[string, Record<string, unknown>]>([
    ["tools", { messages: [user], tools: [{ type: "function" }] }],
    ["a tool's result", { messages: [user, { role: "tool", content: "5" }] }],
    ["calls", { messages: [user, { role: "assistant", content: "", tool_calls: [{}] }] }],
    ["a call in OpenAI's earlier form", { messages: [user, { role: "assistant", content: "", function_call: {} }] }],
    ["an image", { messages: [{ role: "user", content: [{ type: "image_url", image_url: {} }] }] }],
    ["no messages", { messages: [] }],
    ["a role that is a property of objects", { messages: [{ role: "constructor", content: "" }] }],
    ["messages of another form", { messages: [null] }],
  ])("is none with %s", (_, request) => {
    expect(plainChatOf({ request })).toBeUndefined();
  });
});
