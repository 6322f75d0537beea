/** Names that differ from a field's only in case are refused where the API names members, and nowhere else. */
import { expect, test } from "vitest";
import { assertMemberNames } from "./member-names.js";

test.each([
  ["Model", { Model: "b", model: "a" }],
  ["MAX_TOKENS", { model: "a", MAX_TOKENS: 9 }],
  ["Options", { Options: { num_predict: 9 } }],
  ["ſtream", { ſtream: true }],
  ["toKens", { toKens: [1] }],
  ["Content", { messages: [{ role: "user", Content: "hi" }] }],
  ["Text", { messages: [{ role: "user", content: [{ type: "text", Text: "hi" }] }] }],
  ["Include_Usage", { stream_options: { Include_Usage: true } }],
  ["Description", { tools: [{ function: { name: "f", Description: "hi" } }] }],
  ["Input", { messages: [{ content: [{ type: "tool_use", Input: {} }] }] }],
])("%s is refused", (param, body) => {
  expect(() => assertMemberNames(body)).toThrow(
    expect.objectContaining({ code: "unknown_field", status: 400, param, message: expect.stringContaining(param) }),
  );
});

test.each([
  { model: "a", Unheard: 1, camelCase: 2 },
  { tools: [{ function: { parameters: { properties: { Name: { Type: "x" } } } } }] },
  { tools: [{ name: "f", input_schema: { properties: { Content: {} } } }] },
  { messages: [{ content: [{ type: "tool_use", input: { Model: "T" } }] }] },
  { response_format: { type: "json_schema", json_schema: { schema: { properties: { Title: {} } } } } },
  { response_format: { type: "json_object", value: { properties: { Title: {} } } } },
  { text: { format: { type: "json_schema", schema: { properties: { Text: {} } } } } },
  { metadata: { User: "u" }, prompt: Int32Array.of(1), input: ["a", null] },
])("the client's own names pass: %j", (body) => {
  expect(() => assertMemberNames(body)).not.toThrow();
});
