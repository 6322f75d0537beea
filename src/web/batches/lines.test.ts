import { expect, test } from "vitest";
import { firstLineOf, resultsOf } from "./lines.js";

const line = { custom_id: "a", method: "POST", url: "/v1/embeddings", body: {} };

test.each([
  ["its first line", `${JSON.stringify(line)}\n…`, false, { url: "/v1/embeddings" }],
  ["a mark and blank lines before it", `\uFEFF\r\n${JSON.stringify(line)}\r\n`, true, { url: "/v1/embeddings" }],
  ["one line without an end", JSON.stringify(line), true, { url: "/v1/embeddings" }],
  ["a line that is longer than what was read", '{"custom_id": "a", "body": "', false, {}],
  ["nothing", "", true, { problem: expect.stringMatching(/empty/) }],
  ["text", "Hello\n", true, { problem: expect.stringMatching(/^Line 1 is no JSON object/) }],
  ["a list", "\n[1]\n", true, { problem: expect.stringMatching(/^Line 2 is no JSON object/) }],
  ["a request without an id", '{"url": "/v1/embeddings"}\n', true, { problem: expect.stringMatching(/custom_id/) }],
  ["a request without a path", '{"custom_id": "a"}\n', true, { problem: expect.stringMatching(/url/) }],
])("of a file with %s", (_, start, isWhole, first) => {
  expect(firstLineOf(start, isWhole)).toEqual(first);
});

const answered = (body: unknown, status = 200) =>
  JSON.stringify({ custom_id: "a", response: { status_code: status, body }, error: null });

test.each([
  ["a chat", { choices: [{ message: { content: "Hi" } }] }, "Hi"],
  ["a completion", { choices: [{ text: "there" }] }, "there"],
  ["a response", { output: [{ type: "reasoning" }, { content: [{ text: "So" }] }] }, "So"],
  ["vectors", { object: "list", data: [{}, {}] }, "2 results"],
  ["a body that is no JSON", "plain", "plain"],
  ["anything else", { results: [] }, '{"results":[]}'],
])("the text of %s", (_, body, text) => {
  expect(resultsOf(answered(body), true, 9)).toEqual([{ customId: "a", status: "200", isError: false, text }]);
});

test("errors of the engine, of the batch's end, and of both APIs", () => {
  const lines = [
    answered({ error: { message: "too long" } }, 400),
    JSON.stringify({ custom_id: "b", response: null, error: { code: "batch_expired", message: "late" } }),
    JSON.stringify({ custom_id: "c", result: { type: "succeeded", message: { content: [{ text: "Yes" }] } } }),
    JSON.stringify({ custom_id: "d", result: { type: "errored", error: { error: { message: "no" } } } }),
    JSON.stringify({ custom_id: "e", result: { type: "canceled" } }),
  ];
  expect(resultsOf(lines.join("\n"), true, 9)).toEqual([
    { customId: "a", status: "400", isError: true, text: "too long" },
    { customId: "b", status: "batch_expired", isError: true, text: "late" },
    { customId: "c", status: "succeeded", isError: false, text: "Yes" },
    { customId: "d", status: "errored", isError: true, text: "no" },
    { customId: "e", status: "canceled", isError: true, text: "" },
  ]);
});

test("a cut line is left out, further ones too, and marks that turn the direction are not shown", () => {
  const hostile = JSON.stringify({ custom_id: "\u202Ea", response: { status_code: 200, body: { error: 1 } } });
  const [first, ...more] = resultsOf(`${hostile}\n${hostile}\n{"custom`, false, 9);
  expect(first).toEqual({ customId: "a", status: "200", isError: false, text: '{"error":1}' });
  expect(more).toHaveLength(1);
  expect(resultsOf(`${hostile}\n${hostile}`, true, 1)).toHaveLength(1);
  expect(resultsOf("not JSON", true, 9)[0]!.text).toBe("not JSON");
});
