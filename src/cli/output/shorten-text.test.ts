import { expect, test } from "vitest";
import type { Shortened } from "../../lab/shorten/search.js";
import { compare } from "../../quality/compare.js";
import { type ItemResult, resultOf } from "../../quality/run-task.js";
import { shortenedJson, shortenedText } from "./shorten-text.js";

const items = Array.from(
  { length: 20 },
  (_, i): ItemResult => ({
    prompt: [{ role: "user", content: `${i}` }],
    answer: "yes",
    expected: "yes",
    score: 1,
    exact: true,
    numPromptTokens: 0,
    numOutputTokens: 1,
    end: "stop",
  }),
);
const comparison = compare([resultOf("a", items, 1)], [resultOf("a", items, 1)], 0.5);

/** @param tokens as the server counted them */
const confirmed = (tokens: Shortened["tokens"]): Shortened => ({
  decisions: [{ name: "white space", method: "rules", numTokens: 6, saved: 0.4, verdict: "passes", comparison }],
  kept: [],
  tasks: [],
  tokens: { before: 10, after: 6 },
  confirmation: { comparison, tokens },
});

test("what the server's tokens save is a share of those before", () => {
  const result = confirmed({ before: 200, after: 50 });
  expect(shortenedText(result, undefined)).toContain("200 prompt tokens become 50, 75.0 % less;");
  expect(shortenedJson("m", [], result, undefined)).toMatchObject({ saved: 0.4, confirmation: { saved: 0.75 } });
});

test("a server that counts no tokens shows no saving", () => {
  const result = confirmed({ before: 0, after: 0 });
  const text = shortenedText(result, undefined);
  expect(text).toContain("other items: the server counts no prompt tokens; right 100.0 %");
  expect(text).not.toContain("% less");
  expect(shortenedJson("m", [], result, undefined)).toMatchObject({ saved: 0.4, confirmation: { saved: null } });
});
