import { expect, test } from "vitest";
import { argumentsOf, canaryOf, conditionText, countsText, keptShare, ratioText, savedBy } from "./routing-view.js";

test.each([
  [{}, "any other request"],
  [{ prompt_tokens: { min: 4000 }, tools: false }, "prompt tokens from 4000, tools false"],
  [{ prompt_bytes: { min: 1, max: 2 }, language: ["de", "fr"] }, "prompt bytes from 1 to 2, language de or fr"],
])("a rule for %o", (when, text) => {
  expect(conditionText(when)).toBe(text);
});

test("counts come with their shares", () => {
  expect(countsText([])).toBe("–");
  expect(
    countsText([
      { model: "a", count: 3000 },
      { model: "b", count: 1000 },
    ]),
  ).toBe("a 3,000 (75.0 %), b 1,000 (25.0 %)");
});

const decisions = [
  { decision: "kept", count: 60 },
  { decision: "escalated", count: 30 },
  { decision: "audited", count: 10 },
  { decision: "bypassed", count: 100 },
];

test("a cascade saves what the large model would cost more, less what the small one cost in vain", () => {
  expect(keptShare({ decisions })).toBe(0.6);
  expect(keptShare({ decisions: decisions.slice(3) })).toBe(undefined);
  // 60 answers that each save 9, 40 wasted ones at 1.
  expect(savedBy({ decisions }, { small: 1, large: 10 })).toBe(500);
  expect(savedBy({ decisions }, { small: 1, large: 1 })).toBe(-40);
});

test("arguments are cut as a shell does it", () => {
  expect(argumentsOf(`  --max-num-seqs 32 --name "two words" --x='a b'c ''`)).toEqual([
    "--max-num-seqs",
    "32",
    "--name",
    "two words",
    "--x=a bc",
    "",
  ]);
});

test("a canary needs a change", () => {
  const wish = { model: "m", args: " ", weights: " ", minutes: "30", share: "" };
  expect(canaryOf(wish)).toMatch(/^Give flags or weights/);
  expect(canaryOf({ ...wish, args: "--threads 2" })).toEqual({ model: "m", args: ["--threads", "2"], minutes: 30 });
  expect(canaryOf({ ...wish, weights: "b.gguf", share: "5" })).toEqual({
    model: "m",
    args: [],
    minutes: 30,
    weights: "b.gguf",
    share: 0.05,
  });
});

test("ratios have their bounds", () => {
  expect([ratioText(null), ratioText({ value: 0.761, low: 0.7, high: 0.83 })]).toEqual(["–", "0.76 × (0.70 to 0.83)"]);
});
