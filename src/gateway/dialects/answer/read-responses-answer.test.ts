import { expect, test } from "vitest";
import { collected } from "../conversation/collected.js";
import { ResponsesAnswerReader } from "./read-responses-answer.js";

const message = (...content: object[]) => ({ type: "message", id: "msg_1", role: "assistant", content });
const said = message({ type: "output_text", text: "Hi" });
const refused = message({ type: "refusal", refusal: "I cannot." });
const called = { type: "function_call", call_id: "c", name: "f", arguments: "{}" };
const response = (more: object) => ({ id: "resp_1", status: "completed", model: "m", output: [said], ...more });

test.each([
  ["end", {}],
  ["calls", { output: [said, called] }],
  ["refusal", { output: [refused] }],
  ["length", { status: "incomplete", incomplete_details: { reason: "max_output_tokens" } }],
  ["filter", { status: "incomplete", incomplete_details: { reason: "content_filter" }, output: [said, called] }],
] as const)("a response that ends by %s", (stop, more) => {
  expect(collected(new ResponsesAnswerReader().whole(response(more))).stop).toBe(stop);
});

test("the items of a response, of tools that take free text too", () => {
  const thought = { type: "reasoning", summary: [{ type: "summary_text", text: "Hm." }], content: [] };
  const patch = { type: "custom_tool_call", call_id: "d", name: "apply_patch", input: "*** Begin" };
  const { blocks } = collected(
    new ResponsesAnswerReader().whole(response({ output: [thought, refused, called, patch] })),
  );
  expect(blocks).toMatchObject([
    { kind: "thought", text: "Hm." },
    { kind: "text", text: "I cannot." },
    { kind: "call", id: "c", name: "f", json: "{}" },
    { kind: "call", id: "d", name: "apply_patch", json: '{"input":"*** Begin"}' },
  ]);
});

test("a stream that broke off has no answer", () => {
  const reader = new ResponsesAnswerReader();
  reader.event({ type: "response.created", response: response({ status: "in_progress" }) });
  reader.event({ type: "error", message: "no" });
  expect(() => reader.end()).toThrow("expected a complete response");
});
