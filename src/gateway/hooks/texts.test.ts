import { expect, test } from "vitest";
import { FoundTexts, mapAnswerTexts, mapRequestTexts } from "./texts.js";

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

test("a spoken answer has its transcript", () => {
  const audio = { id: "audio_1", data: "UklGR", transcript: "said", expires_at: 1 };
  const found = new FoundTexts();
  mapAnswerTexts({ choices: [{ message: { content: null, audio } }] }, found.visit);
  expect(found.texts).toEqual(["said"]);
  expect(textsOf({ audio: { voice: "alloy" }, messages: [{ role: "assistant", audio: { id: "audio_1" } }] })).toEqual(
    [],
  );
});
