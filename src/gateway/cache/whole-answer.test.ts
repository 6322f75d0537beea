import { expect, test } from "vitest";
import { isWholeAnswer } from "./whole-answer.js";

const chunk = (end: string | null, content = "a") =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason: end }] })}\n\n`;
const isWhole = (text: string, path = "/v1/chat/completions") => isWholeAnswer(path, true, Buffer.from(text));
const DONE = "data: [DONE]\n\n";

test("a stream is whole by its last event that is no comment, however lines end", () => {
  expect(isWhole(chunk(null) + chunk("stop") + DONE)).toBe(true);
  expect(isWhole(`${chunk("stop")}${DONE}: ping\n\n: ping\n\n`)).toBe(true);
  expect(isWhole((chunk(null) + chunk("length") + DONE).replaceAll("\n", "\r\n"))).toBe(true);
  // These separators end lines in JavaScript, but not in streams.
  const response = { status: "completed", instructions: "a\u2028b\u2029c" };
  const completed = `data: ${JSON.stringify({ type: "response.completed", response })}\n\n`;
  expect(isWhole(completed, "/v1/responses")).toBe(true);
  expect(isWhole(chunk("stop") + DONE + chunk(null))).toBe(false);
  expect(isWhole(chunk("stop"))).toBe(false);
  expect(isWhole("")).toBe(false);
  expect(isWhole('event: message_stop\ndata: {"type":"message_stop"}\n\n', "/v1/messages")).toBe(false);
  const end = 'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}\n\n';
  expect(isWhole(`${end}data: {"type":"message_stop"}\n\n`, "/v1/messages")).toBe(true);
});

test("an answer that ends where its client did not bound it is none", () => {
  const isWholeIfBounded = (path: string, body: object) =>
    [false, true].map((isBounded) => isWholeAnswer(path, false, Buffer.from(JSON.stringify(body)), isBounded));
  const stream = Buffer.from(chunk("length") + DONE);
  expect(isWholeAnswer("/v1/chat/completions", true, stream, true)).toBe(false);
  const ended = (finish_reason: string) => ({ choices: [{ finish_reason }] });
  expect(isWholeIfBounded("/v1/completions", ended("length"))).toEqual([true, false]);
  expect(isWholeIfBounded("/v1/completions", ended("stop"))).toEqual([true, true]);
  const message = { type: "message", stop_reason: "max_tokens" };
  expect(isWholeIfBounded("/v1/messages", message)).toEqual([true, false]);
  const response = { status: "incomplete", incomplete_details: { reason: "max_output_tokens" } };
  expect(isWholeIfBounded("/v1/responses", response)).toEqual([true, false]);
});

test("an end for a reason of the moment, or an error, makes none; a text about one does not", () => {
  expect(isWhole(chunk("content_filter") + DONE)).toBe(false);
  expect(isWhole(chunk(null) + DONE)).toBe(false);
  expect(isWhole(`${chunk("stop")}data: {"error":{"message":"no"}}\n\n${DONE}`)).toBe(false);
  expect(isWhole(`${chunk("stop")}event: error\ndata: {}\n\n${DONE}`)).toBe(false);
  expect(isWhole(chunk("stop", '\ndata: {"error":1}\n\nevent: error\n') + DONE)).toBe(true);
});

test("vectors are whole as each API gives them", () => {
  const isWholeBody = (path: string, body: object) => isWholeAnswer(path, false, Buffer.from(JSON.stringify(body)));
  expect(isWholeBody("/v2/embed", { embeddings: { float: [[0.5]] } })).toBe(true);
  expect(isWholeBody("/v1/embeddings", { data: [{ embedding: [0.5] }] })).toBe(true);
  for (const path of ["/v2/embed", "/v1/embeddings"]) expect(isWholeBody(path, { results: [] })).toBe(false);
});
