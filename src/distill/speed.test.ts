import { expect, test } from "vitest";
import { MillraceError } from "../core/errors.js";
import { type Ask, seedOf } from "../quality/ask.js";
import { parsePrompts } from "./prompts.js";
import { compareAnswers } from "./speed.js";

const lines = Array.from({ length: 6 }, (_, i) => JSON.stringify({ messages: [{ role: "user", content: `Q${i}` }] }));
const prompts = parsePrompts(lines.join("\n"), "file");
const signal = new AbortController().signal;
const answers: Ask = async () => ({ text: "a", end: "stop", numPromptTokens: 1, numOutputTokens: 2 });
const failing =
  (code: "endpoint_failed" | "invalid_request", from = 0): Ask =>
  async (messages, stop) => {
    if (Number(messages[0]!.content.slice(1)) >= from) throw new MillraceError(code, "no");
    return answers(messages, stop);
  };

test("prompts that the teacher refuses are left out, and a lost teacher is reported", async () => {
  expect(await compareAnswers(failing("invalid_request", 3), answers, prompts, signal)).toMatchObject({
    ratio: { numRuns: 3 },
  });
  expect(await compareAnswers(failing("invalid_request"), answers, prompts, signal)).toMatch(/refused every prompt/);
  expect(await compareAnswers(failing("endpoint_failed", 5), answers, prompts, signal)).toBe("the teacher fails: no");
  const broken: Ask = () => Promise.reject(new Error("a bug"));
  await expect(compareAnswers(answers, broken, prompts, signal)).rejects.toThrow("a bug");
});

test("every prompt has a seed of its own, the same each time", () => {
  const seeds = prompts.map(({ messages }) => seedOf(1, messages));
  expect(new Set(seeds).size).toBe(prompts.length);
  expect(prompts.map(({ messages }) => seedOf(1, messages))).toEqual(seeds);
  expect(seeds.every((seed) => Number.isInteger(seed) && seed >= 0 && seed < 2 ** 31)).toBe(true);
  expect(seedOf(2, prompts[0]!.messages)).not.toBe(seeds[0]);
});
