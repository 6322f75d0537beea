import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { MillraceError } from "../core/errors.js";
import type { Ask, Message } from "../quality/ask.js";
import { answered, collectAnswers, corpusOf, openAnswers } from "./answers.js";
import { type Prompt, parsePrompts } from "./prompts.js";

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "millrace-answers-"));
  path = join(folder, "answers.jsonl");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const prompts: readonly Prompt[] = parsePrompts(
  Array.from({ length: 20 }, (_, i) => JSON.stringify({ messages: [{ role: "user", content: `Question ${i}` }] })).join(
    "\n",
  ),
  "file",
);

const replyTo = (messages: readonly Message[]) =>
  ({ text: `to ${messages.at(-1)!.content}`, end: "stop", numPromptTokens: 3, numOutputTokens: 2 }) as const;

/** Counts its calls; `fail` may throw before the n-th answer, from 0 on. */
function teacher(fail: (n: number) => void = () => {}): { ask: Ask; asked: string[] } {
  const asked: string[] = [];
  const ask: Ask = async (messages) => {
    asked.push(messages.at(-1)!.content);
    const n = asked.length - 1;
    await Promise.resolve();
    fail(n);
    return replyTo(messages);
  };
  return { ask, asked };
}

const neverStopped = new AbortController().signal;
const collect = (ask: Ask, { concurrency = 4, signal = neverStopped } = {}) =>
  collectAnswers({ file: openAnswers(path), prompts, ask, concurrency, signal }, () => {});

const idsInFile = (): string[] => {
  const lines = readFileSync(path, "utf8").split("\n").slice(0, -1);
  return lines.map((line) => (JSON.parse(line) as { id: string }).id);
};

test("asks for every prompt once, and nothing again", async () => {
  const first = teacher();
  expect(await collect(first.ask)).toEqual({ numAnswers: 20, numResumed: 0, numRefused: 0, refusal: undefined });
  expect(first.asked).toHaveLength(20);
  expect(new Set(idsInFile())).toEqual(new Set(prompts.map(({ id }) => id)));
  const second = teacher();
  expect(await collect(second.ask)).toMatchObject({ numAnswers: 20, numResumed: 20 });
  expect(second.asked).toEqual([]);
});

test("a failure ends the collection, with the answers so far in the file; the next run asks for the rest", async () => {
  const failing = teacher((n) => {
    if (n === 9) throw new MillraceError("endpoint_failed", "gone");
  });
  await expect(collect(failing.ask)).rejects.toThrow("gone");
  const kept = idsInFile();
  expect(kept.length).toBeGreaterThanOrEqual(6);
  expect(failing.asked.length).toBeLessThan(20);
  const next = teacher();
  expect(await collect(next.ask)).toMatchObject({ numAnswers: 20, numResumed: kept.length });
  expect(next.asked).toHaveLength(20 - kept.length);
});

test("when stopped, it keeps the answers and throws the signal's reason", async () => {
  const stopping = new AbortController();
  const { ask, asked } = teacher((n) => {
    if (n === 7) stopping.abort(new Error("stopped"));
  });
  await expect(collect(ask, { signal: stopping.signal })).rejects.toThrow("stopped");
  expect(asked.length).toBeLessThan(20);
  expect(idsInFile().length).toBeGreaterThanOrEqual(4);
});

test("an incomplete last line is asked for again, wherever it was cut", async () => {
  await collect(teacher().ask);
  const whole = readFileSync(path);
  const lastLine = whole.lastIndexOf("\n", whole.length - 2) + 1;
  for (const length of [lastLine + 1, lastLine + 10, whole.length - 2, whole.length - 1]) {
    writeFileSync(path, whole.subarray(0, length));
    const { ask, asked } = teacher();
    await collect(ask);
    expect({ length, asked: asked.length }).toEqual({ length, asked: 1 });
    expect(readFileSync(path).equals(whole)).toBe(true);
  }
});

test("of two answers to a prompt the first counts", () => {
  const [{ id }] = prompts as [Prompt];
  const answer = { id, text: "first", end: "stop", numPromptTokens: 1, numOutputTokens: 1 };
  writeFileSync(path, `${JSON.stringify(answer)}\n${JSON.stringify({ ...answer, text: "second" })}\n`);
  const file = openAnswers(path);
  file.add({ ...answer, end: "stop", text: "third" });
  expect(answered(openAnswers(path), prompts)).toMatchObject([{ answer: { text: "first" } }]);
});

test("a damaged line inside is named", async () => {
  await collect(teacher().ask);
  appendFileSync(path, '{"id": 7}\n');
  expect(() => openAnswers(path)).toThrow(
    expect.objectContaining({ code: "file_unreadable", message: expect.stringContaining("line 21") }),
  );
});

test("refused prompts are counted, not saved, and asked again", async () => {
  const { ask } = teacher((n) => {
    if (n % 5 === 0) throw new MillraceError("context_length_exceeded", "too long");
  });
  expect(await collect(ask)).toMatchObject({ numAnswers: 16, numRefused: 4, refusal: "too long" });
  const next = teacher();
  await collect(next.ask);
  expect(next.asked).toHaveLength(4);
});

test("a corpus has complete answers only, and is refused without any", () => {
  const answer = { ...replyTo(prompts[0]!.messages), id: prompts[0]!.id };
  const cut = { ...answer, end: "length" } as const;
  const items = [
    { prompt: prompts[0]!, answer },
    { prompt: prompts[1]!, answer: cut },
  ];
  const lines = corpusOf(items, "train on").trimEnd().split("\n");
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    {
      family: "chats",
      answers: "last",
      messages: [...prompts[0]!.messages, { role: "assistant", content: "to Question 0" }],
    },
  ]);
  expect(() => corpusOf(items.slice(1), "train on")).toThrow(/complete answers to train on, got 1 that/);
});
