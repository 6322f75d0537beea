import { expect, test } from "vitest";
import type { GatewayRequest } from "../request.js";
import { RetryWatch } from "./retry-watch.js";

const requestOf = (body: object): GatewayRequest =>
  ({ headers: { "x-session-id": "s" }, body, caller: { tenant: "t" } }) as unknown as GatewayRequest;

const user = (content: unknown) => ({ role: "user", content });

/** The watch's findings on the first request when the others follow it. */
function saidOf(first: object, ...others: readonly object[]): readonly boolean[] {
  const said: boolean[] = [];
  const onNext = (_: string, isRetry: boolean): void => void said.push(isRetry);
  const watch = new RetryWatch<string>({ sessionHeader: () => "x-session-id", epochMs: () => 0, onNext });
  watch.answered(requestOf(first), "first");
  for (const other of others) watch.seen(requestOf(other));
  return said;
}

const QUESTION = user("What is the weather in Oslo?");
const CALL = { role: "assistant", content: null, tool_calls: [{ id: "c" }] };

test("the same question is a retry, whatever its capitals and spaces, and another one is none", () => {
  const again = user([{ type: "text", text: "what is  the weather in OSLO?" }]);
  expect(
    saidOf({ messages: [QUESTION] }, { messages: [QUESTION, { role: "assistant", content: "?" }, again] }),
  ).toEqual([true]);
  expect(saidOf({ prompt: "a" }, { prompt: "A " })).toEqual([true]);
  expect(saidOf({ input: "a" }, { input: [user([{ type: "input_text", text: "b" }])] })).toEqual([false]);
});

test("a step of a loop of tools is no question, in any dialect: the next question is judged", () => {
  const chats = { messages: [QUESTION, CALL, { role: "tool", tool_call_id: "c", content: "" }] };
  const use = { role: "assistant", content: [{ type: "tool_use", id: "c", name: "f", input: {} }] };
  const result = user([
    { type: "tool_result", tool_use_id: "c", content: "" },
    { type: "text", text: "What is the weather in Oslo?" },
  ]);
  const messages = { messages: [QUESTION, use, result] };
  const responses = { input: [QUESTION, { type: "function_call_output", call_id: "c", output: "" }] };
  for (const step of [chats, messages, responses]) {
    expect(saidOf({ messages: [QUESTION] }, step)).toEqual([]);
    expect(saidOf({ messages: [QUESTION] }, step, { messages: [user("Thanks")] })).toEqual([false]);
    expect(saidOf({ messages: [QUESTION] }, step, { messages: [QUESTION] })).toEqual([true]);
    expect(saidOf(step, { messages: [QUESTION] })).toEqual([]);
  }
});

test("a prompt of ids, or a message of an image alone, says nothing", () => {
  expect(saidOf({ prompt: [1, 2] }, { prompt: [3, 4] })).toEqual([]);
  const image = user([{ type: "image_url", image_url: { url: "data:," } }]);
  expect(saidOf({ messages: [QUESTION] }, { messages: [QUESTION, image] })).toEqual([]);
});
