import { expect, test } from "vitest";
import { parseChats } from "./check.js";

const messages = [
  { role: "user", content: "1 + 1" },
  { role: "assistant", content: "2" },
];

test("reads chats, with defaults for optional fields", () => {
  const line = JSON.stringify({ family: "sum", messages, check: { kind: "number", value: 2 }, id: 7 });
  expect(parseChats(`${line}\n\n${JSON.stringify({ messages })}\n`, "f")).toEqual([
    { family: "sum", messages, check: { kind: "number", value: 2 } },
    { family: "chats", messages, check: { kind: "exact" } },
  ]);
});

test("reads lines of OpenAI's evals, with one or several ideals", () => {
  const input = [{ role: "user", content: "1 + 1" }];
  const lines = [
    { input, ideal: "2" },
    { input, ideal: ["two", "2"], note: "x" },
  ];
  expect(parseChats(lines.map((line) => JSON.stringify(line)).join("\n"), "f")).toEqual([
    { family: "evals", messages, check: { kind: "includes", texts: ["2"] } },
    {
      family: "evals",
      messages: [messages[0], { role: "assistant", content: "two" }],
      check: { kind: "includes", texts: ["two", "2"] },
    },
  ]);
});

test.each([
  ["no JSON", "{", /in f, line 2, got invalid JSON/],
  [
    "no answer at the end",
    JSON.stringify({ messages: [messages[1], messages[0]] }),
    /line 2, got another line \(messages: the last message/,
  ],
  ["one message", JSON.stringify({ messages: [messages[1]] }), /line 2, got another line \(messages/],
  [
    "an unknown check",
    JSON.stringify({ messages, check: { kind: "vibes" } }),
    /line 2, got another line \(check\.kind/,
  ],
  [
    "a pattern that is none",
    JSON.stringify({ messages, check: { kind: "regex", pattern: "(" } }),
    /line 2, got another line \(check\.pattern: no regular expression: "\("/,
  ],
  [
    "a name that is no name",
    JSON.stringify({
      messages,
      check: { kind: "code", language: "python", name: "a()", calls: [{ args: [], expect: 1 }] },
    }),
    /line 2, got another line \(check\.name/,
  ],
  [
    "an expected answer that is no JSON",
    JSON.stringify({ messages: [messages[0], { ...messages[1], content: "{" }], check: { kind: "json" } }),
    /line 2, got a JSON check/,
  ],
  [
    "a check of calls without tools",
    JSON.stringify({ messages, check: { kind: "calls", calls: [{ name: "now", arguments: {} }] } }),
    /line 2, got no tools: expected tools beside a check of calls/,
  ],
])("refuses %s, naming the line", (_, line, message) => {
  expect(() => parseChats(`${JSON.stringify({ messages })}\n${line}`, "f")).toThrow(message);
});
