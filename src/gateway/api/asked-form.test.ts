import { expect, test } from "vitest";
import { askedForm } from "./asked-form.js";

const schema = { type: "object" };

test.each<[string, Record<string, unknown>, unknown]>([
  ["chats", { response_format: { type: "json_schema", json_schema: { name: "a", schema } } }, schema],
  ["responses", { text: { format: { type: "json_schema", name: "a", schema } } }, schema],
  ["messages", { output_config: { format: { type: "json_schema", schema } } }, schema],
  ["messages, earlier", { output_format: { type: "json_schema", schema } }, schema],
  ["llama-server", { json_schema: schema }, schema],
  ["llama-server beside text", { json_schema: schema, response_format: { type: "text" } }, schema],
  ["llama-server's object", { response_format: { type: "json_object", schema } }, schema],
  ["Hugging Face's clients", { response_format: { type: "json_object", value: schema } }, schema],
  ["TGI's clients", { response_format: { type: "json", value: schema } }, schema],
])("a schema of %s", (_, body, expected) => {
  expect(askedForm(body)).toEqual({ type: "json_schema", schema: expected });
});

test("any object, and no form", () => {
  expect(askedForm({ response_format: { type: "json_object" } })).toEqual({ type: "json_object" });
  expect(askedForm({ response_format: { type: "json_schema" } })).toEqual({ type: "json_schema", schema: {} });
  for (const body of [{}, { response_format: { type: "text" } }, { response_format: 7, text: "a", json_schema: null }])
    expect(askedForm(body)).toBeUndefined();
});
