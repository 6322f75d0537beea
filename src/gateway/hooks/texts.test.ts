import { expect, test } from "vitest";
import { FoundTexts, mapRequestTexts } from "./texts.js";

function textsOf(body: object): readonly string[] {
  const found = new FoundTexts();
  mapRequestTexts({ ...body }, found.visit);
  return found.texts;
}

test("fields that the gateway does not know are searched, settings and labels are not", () => {
  const labels = { model: "m", user: "u", metadata: { a: "b" }, session_id: "i" };
  expect(
    textsOf({ ...labels, stop: ["s"], foo: { id: ["t"] }, documents: [{ data: "d", text: "e" }], baz: "w" }),
  ).toEqual(["s", "id", "t", "data", "d", "text", "e", "w"]);
});

test("a role that no API has is a text, as a template may print it", () => {
  const messages = [
    { role: "user", content: "hello" },
    { role: "sk-secret", content: "there" },
  ];
  expect(textsOf({ messages })).toEqual(["hello", "sk-secret", "there"]);
});
