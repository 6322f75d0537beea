/** The rule of decision 46. */
import { expect, test } from "vitest";
import { batchedTokensRule, defaultBatchedTokens } from "./batched-tokens.js";

test("a step has four tokens a sequence, and 128 at least", () => {
  expect([1, 32, 33, 64, 256].map(defaultBatchedTokens)).toEqual([128, 128, 132, 256, 1024]);
  expect(batchedTokensRule("of 33 sequences")).toBe("four tokens for each of 33 sequences, 128 at least");
});
