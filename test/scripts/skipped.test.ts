import { expect, test } from "vitest";

const { skippedLines } = (await import("../../scripts/setup/skipped.js" as string)) as {
  skippedLines: (skipped: readonly { readonly name: string; readonly reason: string }[]) => readonly string[];
};

test("skipped tests are a line for each reason, most first", () => {
  const inFile = "condition in the test file";
  expect(
    skippedLines([
      { name: "a.test.ts: boots", reason: "needs root" },
      { name: "b.test.ts: equals vectors of x (needs fixtures/tokenizers)", reason: inFile },
      { name: "b.test.ts: equals vectors of y (needs fixtures/tokenizers)", reason: inFile },
      { name: "c.test.ts: equals vectors of z (needs fixtures/tokenizers)", reason: inFile },
      { name: "c.test.ts: other", reason: inFile },
    ]),
  ).toEqual([
    "  3 × needs fixtures/tokenizers: b.test.ts, c.test.ts",
    "  1 × needs root: a.test.ts",
    `  1 × ${inFile}: c.test.ts`,
  ]);
});
