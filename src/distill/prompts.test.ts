import fc from "fast-check";
import { expect, test } from "vitest";
import { isHeldOut, parsePrompts, promptsOfTask, splitPrompts } from "./prompts.js";

const user = (content: string) => ({ role: "user", content });
const assistant = (content: string) => ({ role: "assistant", content });
const line = (messages: readonly object[], extra: object = {}): string => JSON.stringify({ messages, ...extra });
const hundred = Array.from({ length: 100 }, (_, i) => line([user(`Question ${i}`)]));

test("an assistant's last message is the expected answer and no part of the prompt", () => {
  const text = [
    line([user("a"), assistant("b")], { family: "f", check: { kind: "exact" } }),
    line([user("c"), assistant("d"), user("e")]),
  ].join("\n\n");
  expect(parsePrompts(text, "file")).toMatchObject([
    { family: "f", messages: [user("a")], expected: "b", check: { kind: "exact" }, line: 1 },
    { family: undefined, messages: [user("c"), assistant("d"), user("e")], expected: undefined, line: 3 },
  ]);
});

test("equal prompts are one, whatever their answers; other roles or contents differ", () => {
  const text = [
    line([user("a"), assistant("b")]),
    line([user("a")]),
    line([{ role: "system", content: "a" }, user("a")]),
  ];
  expect(parsePrompts(text.join("\n"), "file").map((prompt) => prompt.line)).toEqual([1, 3]);
});

test.each([
  ["{", "invalid JSON"],
  ["7", "another line (expected an object, got 7)"],
  [line([]), "messages: "],
  [line([{ role: "user" }]), "messages[0].content: "],
  [line([{ role: "tool", content: "a" }]), "messages[0].role: "],
  [line([assistant("a")]), "no message of the user"],
  [line([user("a"), assistant("b"), { role: "system", content: "c" }]), "no message of the user"],
  [line([user("a")], { check: { kind: "magic" } }), "check"],
])("refuses %s with the line's number", (bad, problem) => {
  expect(() => parsePrompts(`${hundred[0]}\n${bad}`, "file.jsonl")).toThrow(
    expect.objectContaining({ code: "invalid_option", message: expect.stringMatching(/file\.jsonl, line 2/) }),
  );
  expect(() => parsePrompts(bad, "file")).toThrow(problem);
});

test("a file without prompts is refused", () => {
  for (const text of ["", "\n \n"]) expect(() => parsePrompts(text, "empty")).toThrow(/prompts in empty, got none/);
});

test("holding out depends on the prompt only, and has about the share asked for", () => {
  const all = parsePrompts(hundred.join("\n"), "file");
  const { training, heldOut } = splitPrompts(all, 0.3);
  expect([...training, ...heldOut].sort((a, b) => a.line - b.line)).toEqual(all);
  expect(heldOut.length).toBeGreaterThan(15);
  expect(heldOut.length).toBeLessThan(45);
  const fewer = parsePrompts(hundred.slice(50).reverse().join("\n"), "other");
  const ids = new Set(heldOut.map(({ id }) => id));
  for (const prompt of fewer) expect(isHeldOut(prompt, 0.3)).toBe(ids.has(prompt.id));
});

test("a larger share holds out more, and all of the smaller one", () => {
  const shares = fc.tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.double({ min: 0, max: 1, noNaN: true }));
  const ids = fc.array(fc.constantFrom(..."0123456789abcdef"), { minLength: 32, maxLength: 32 });
  fc.assert(
    fc.property(ids, shares, (digits, [a, b]) => {
      const prompt = { id: digits.join("") };
      if (isHeldOut(prompt, Math.min(a, b))) expect(isHeldOut(prompt, Math.max(a, b))).toBe(true);
      expect([isHeldOut(prompt, 0), isHeldOut(prompt, 1)]).toEqual([false, true]);
    }),
  );
});

test("neither part may be empty", () => {
  const one = parsePrompts(hundred[0]!, "file");
  for (const share of [0, 1]) expect(() => splitPrompts(one, share)).toThrow(/train on and prompts held out/);
});

test("a task takes its family and lines without one, and each must have a check and an expected answer", () => {
  const check = { kind: "exact" };
  const good = [
    line([user("a"), assistant("b")], { check }),
    line([user("c"), assistant("d")], { family: "x", check }),
  ];
  const other = line([user("e")], { family: "y" });
  const all = parsePrompts([...good, other].join("\n"), "file");
  expect(promptsOfTask(all, "x", "file").map((prompt) => prompt.line)).toEqual([1, 2]);
  expect(() => promptsOfTask(all, "y", "file")).toThrow(/a check in file, line 3, got none/);
  const unanswered = parsePrompts(line([user("a")], { check }), "file");
  expect(() => promptsOfTask(unanswered, "x", "file")).toThrow(/expected answer in file, line 1/);
  expect(() => promptsOfTask(all.slice(1), "z", "file")).toThrow(/family of file \(x, y\), got "z"/);
});
