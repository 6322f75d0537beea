import fc from "fast-check";
import { expect, test } from "vitest";
import { signalsOf } from "./answer-signals.js";

const whole = (body: string, isEventStream = false, status = 200) =>
  signalsOf({ head: { status, headers: {}, isEventStream }, body: Buffer.from(body), error: undefined });
const token = (logprob: number, ...others: number[]) => ({
  logprob,
  top_logprobs: [logprob, ...others].sort((a, b) => b - a).map((each) => ({ logprob: each })),
});

test("reads a chat's answer", () => {
  const logprobs = { content: [token(-0.1, -2), token(-3, -1)] };
  const choice = { message: { content: "hi" }, finish_reason: "stop", logprobs };
  const signals = whole(JSON.stringify({ choices: [choice], usage: { prompt_tokens: 3, completion_tokens: 2 } }));
  expect(signals).toMatchObject({ text: "hi", finishReason: "stop", numPromptTokens: 3, numOutputTokens: 2 });
  expect(signals!.logprobs).toEqual([-0.1, -3]);
  expect(signals!.margins.map((each) => each.toFixed(2))).toEqual(["1.90", "-2.00"]);
});

test("reads a completion's answer", () => {
  const logprobs = { token_logprobs: [-0.5], top_logprobs: [{ a: -0.5, b: -1.5 }] };
  const signals = whole(JSON.stringify({ choices: [{ text: "a", finish_reason: "length", logprobs }] }));
  expect(signals).toMatchObject({ text: "a", finishReason: "length", logprobs: [-0.5], margins: [1] });
});

test("reads calls, in OpenAI's earlier form too", () => {
  const call = { name: "f", arguments: "{}" };
  for (const called of [{ tool_calls: [{ id: "c", type: "function", function: call }] }, { function_call: call }]) {
    const choice = { message: { content: null, ...called }, finish_reason: "stop" };
    expect(whole(JSON.stringify({ choices: [choice] }))).toMatchObject({ text: "", hasToolCalls: true });
    const events = [{ choices: [{ delta: called }] }, { choices: [{ delta: {}, finish_reason: "stop" }] }];
    const stream = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("");
    expect(whole(stream, true)).toMatchObject({ text: "", hasToolCalls: true });
  }
  const none = { message: { content: "a", tool_calls: [], function_call: null }, finish_reason: "stop" };
  expect(whole(JSON.stringify({ choices: [none] }))).toMatchObject({ hasToolCalls: false });
});

test("reads a stream, in either line ending", () => {
  const events = [
    { choices: [{ delta: { role: "assistant" } }] },
    { choices: [{ delta: { content: "a" }, logprobs: { content: [token(-1, -2)] } }] },
    { choices: [{ delta: { content: "b" }, finish_reason: "stop" }] },
    { choices: [], usage: { prompt_tokens: 1, completion_tokens: 2 } },
  ];
  for (const end of ["\n\n", "\r\n\r\n"]) {
    const text = [...events.map((event) => JSON.stringify(event)), "[DONE]"]
      .map((data) => `data: ${data}${end}`)
      .join("");
    expect(whole(text, true)).toMatchObject({ text: "ab", finishReason: "stop", logprobs: [-1], numOutputTokens: 2 });
  }
});

test.each([
  ["an error", '{"error":{"message":"no"}}'],
  ["several choices", '{"choices":[{"finish_reason":"stop"},{"finish_reason":"stop"}]}'],
  ["no end", '{"choices":[{"message":{"content":"x"}}]}'],
  ["no JSON", "<html>"],
  ["nothing", ""],
])("%s is no answer", (_, body) => {
  expect(whole(body)).toBeUndefined();
});

test("whatever an upstream sends is read or refused", () => {
  fc.assert(
    fc.property(fc.json(), fc.boolean(), (json, isEventStream) => {
      const signals = whole(isEventStream ? `data: ${json}\n\n` : `{"choices":[${json}]}`, isEventStream);
      expect(signals === undefined || typeof signals.text === "string").toBe(true);
    }),
  );
});
