import { expect, test } from "vitest";
import { tokensText } from "./text-divergence-text.js";

test("a text that is scored in part says how much of it is", () => {
  const window = { ids: new Array(10).fill(1), places: [] };
  expect(tokensText({ windows: new Array(5120).fill(window), numTokens: 300_000 })).toBe("51,200 of 300,000 tokens");
});
