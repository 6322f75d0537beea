import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openCollection, writeCorpora, writeTrlFiles } from "./collection.js";
import { parsePrompts, splitPrompts } from "./prompts.js";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "millrace-collection-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const terms = { teacher: "big", contentHash: "00", temperature: 0, maxTokens: 8, seed: 1, settings: {} };

test("a folder keeps to one teacher and its terms", () => {
  openCollection(folder, terms);
  openCollection(folder, { ...terms });
  for (const other of [
    { ...terms, contentHash: "01" },
    { ...terms, maxTokens: 9 },
    { ...terms, settings: { chatTemplate: "ab" } },
  ]) {
    expect(() => openCollection(folder, other)).toThrow(/"maxTokens":8.*/);
  }
});

test("trainers get complete answers, with held-out prompts in a file of their own", () => {
  const questions = Array.from({ length: 40 }, (_, i) => ({ messages: [{ role: "user", content: `Question ${i}` }] }));
  const prompts = parsePrompts(questions.map((each) => JSON.stringify(each)).join("\n"), "file");
  const file = openCollection(folder, terms);
  prompts.forEach(({ id }, i) => {
    file.add({ id, text: `${i}`, end: i % 4 === 0 ? "length" : "stop", numPromptTokens: 1, numOutputTokens: 1 });
  });
  const corpora = writeCorpora(folder, file, splitPrompts(prompts, 0.5));
  const trlFolder = writeTrlFiles(folder, corpora);
  const read = (path: string): unknown[] =>
    readFileSync(path, "utf8")
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
  const training = read(join(trlFolder, "train.jsonl")) as { prompt: object[]; completion: object[] }[];
  const heldOut = read(join(trlFolder, "eval.jsonl")) as typeof training;
  expect(training.length + heldOut.length).toBe(30);
  const textsOf = (items: typeof training) => items.map(({ prompt }) => JSON.stringify(prompt));
  expect(textsOf(training).filter((text) => textsOf(heldOut).includes(text))).toEqual([]);
  expect(read(corpora.trainingPath)).toEqual(
    training.map(({ prompt, completion }) => ({
      family: "chats",
      messages: [...prompt, ...completion],
      answers: "last",
    })),
  );
});
