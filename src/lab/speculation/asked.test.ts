/** Recorded requests in the form for the engine, and the sample of them. */
import { expect, test } from "vitest";
import { tempTree } from "../../../test/scripts/temp-tree.js";
import { readRequests } from "../../prompts/requests.js";
import { askedBody, evenly, withoutAnswer } from "./asked.js";

const user = { role: "user", content: [{ type: "text", text: "hi" }] };
const LINES = [
  { messages: [user], temperature: 0.5, n: 3, stream: true, model: "x", class: "greeting", max_completion_tokens: 9 },
  { request: { system: "Be brief.", messages: [user], tools: [], max_tokens: 900 }, response: null, class: "own" },
  { family: "chat", messages: [user, { role: "assistant", content: "hello" }] },
  { body: { messages: [user], response_format: { type: "json_object" } }, custom_id: "1" },
];

test("all forms of recorded requests are asked for one plain answer, with their own sampling and form", () => {
  const folder = tempTree({ "requests.jsonl": LINES.map((line) => JSON.stringify(line)).join("\n") });
  const requests = readRequests(`${folder}/requests.jsonl`).map(withoutAnswer);
  expect(requests.map((each) => askedBody(each, 64))).toEqual([
    { messages: [user], temperature: 0.5, max_tokens: 9 },
    { messages: [{ role: "system", content: "Be brief." }, user], tools: [], max_tokens: 64 },
    { family: "chat", messages: [user], max_tokens: 64 },
    { messages: [user], response_format: { type: "json_object" }, max_tokens: 64 },
  ]);
  expect(requests.map(({ label, answer }) => [label, answer])).toEqual([
    ["greeting", undefined],
    ["own", undefined],
    [undefined, "hello"],
    [undefined, undefined],
  ]);
});

test("a sample comes from all over the file", () => {
  expect(evenly([..."abcdefgh"], 3)).toEqual(["a", "c", "f"]);
  expect(evenly(["a"], 3)).toEqual(["a"]);
});
