import { expect, test } from "vitest";
import type { ShownSample } from "../../gateway/quality/quality-app.js";
import { itemsOf } from "./quality-items.js";

const corrected = (correction: string): ShownSample =>
  ({
    verdicts: {},
    text: { messages: [{ role: "user", content: "a" }], answer: "b", format: null, plain: true },
    feedback: { score: -1, correction, comment: null },
  }) as unknown as ShownSample;

test("a correction of spaces alone is nothing to check", () => {
  const { items, left } = itemsOf([corrected(" \n"), corrected(" Paris ")]);
  expect(items.map(({ messages }) => messages.at(-1)?.content)).toEqual(["Paris"]);
  expect(left["with nothing to check"]).toBe(1);
});
