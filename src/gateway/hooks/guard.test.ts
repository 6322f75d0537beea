import { expect, test } from "vitest";
import { Findings, type Guard, guardTexts } from "./guard.js";
import { compilePatterns } from "./pattern-set.js";
import { personalDataPatterns } from "./personal-data.js";
import { FoundTexts, mapAnswerTexts } from "./texts.js";

test("very many short texts are searched in turns with other work", async () => {
  const guard: Guard = {
    name: "g",
    stages: new Set(["answer"]),
    appliesTo: () => true,
    action: "redact",
    patterns: compilePatterns(personalDataPatterns(["email"])),
    checker: undefined,
  };
  const call = { type: "function", function: { name: "f", arguments: '{"to": "a@b.example"}' } };
  const found = new FoundTexts();
  mapAnswerTexts({ choices: [{ message: { tool_calls: Array.from({ length: 2000 }, () => call) } }] }, found.visit);
  let numTurns = 0;
  let isOver = false;
  const turn = (): void => {
    numTurns++;
    if (!isOver) setImmediate(turn);
  };
  setImmediate(turn);
  const clean = await guardTexts([guard], "answer", found, new Findings());
  isOver = true;
  expect(clean.length).toBe(4000);
  expect(clean.at(-1)).toBe('{"to": "[email]"}');
  expect(numTurns).toBeGreaterThan(50);
});
