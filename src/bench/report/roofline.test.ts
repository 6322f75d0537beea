import { expect, test } from "vitest";
import type { Ceilings, ModelWork } from "../results/schema.js";
import { rooflineTokensPerS } from "./roofline.js";

const WORK: ModelWork = {
  weightBytes: 1e9,
  kvBytesPerToken: 1e4,
  layerMacs: { narrow8: 1e9 },
  outputMacs: { scaled4: 1e8 },
  attentionMacs: 1e4,
};
const reading = (bytesPerS: number) => ({ bytesPerS, macsPerS: { narrow8: 5e11, scaled4: 2e11, float: 1e11 } });
const CEILINGS: Ceilings = { numThreads: 2, readings: [reading(30e9), reading(40e9), reading(90e9)] };
const traffic = (concurrency: number, promptTokens: number, cached = 0) => ({
  concurrency,
  promptTokens,
  computedPromptTokens: promptTokens - cached,
  outputTokens: 100,
});

test("one sequence is bound by reading weights and its own context, at the median bandwidth", () => {
  // Each token reads 1 GB and a context of 50 + 100 / 2 tokens.
  const bytes = 1e9 + 100 * 1e4;
  expect(rooflineTokensPerS(WORK, CEILINGS, traffic(1, 50))).toBeCloseTo(40e9 / bytes, 6);
});

test("many sequences are bound by multiply-adds, including prompts except their cached part", () => {
  const layers = 1e9 / 5e11;
  const output = 1e8 / 2e11;
  const secondsFor = (computed: number) => {
    const pairs = 100 * 250 + computed * (200 - computed / 2);
    return (computed + 100) * layers + 100 * output + (1e4 * pairs) / 1e11;
  };
  expect(rooflineTokensPerS(WORK, CEILINGS, traffic(64, 200))).toBeCloseTo(100 / secondsFor(200), 6);
  expect(rooflineTokensPerS(WORK, CEILINGS, traffic(64, 200, 150))).toBeCloseTo(100 / secondsFor(50), 6);
});

test("layers with a window attend only to tokens within it", () => {
  const windows = [{ tokens: 120, layerShare: 0.75 }];
  // The 100 tokens are at positions 100 to 200; three quarters of the layers attend to at most 120 tokens.
  const pairs = 0.25 * 100 * 150 + 0.75 * (20 * 110 + 80 * 120);
  const rate = rooflineTokensPerS({ ...WORK, windows }, CEILINGS, traffic(1, 100));
  expect(rate).toBeCloseTo(100 / ((100 * 1e9 + pairs * 1e4) / 40e9), 6);
});

test("without a reading of memory, of a needed instruction mix, or without answers there is no roofline", () => {
  expect(rooflineTokensPerS(WORK, { ...CEILINGS, readings: [] }, traffic(1, 50))).toBeUndefined();
  expect(rooflineTokensPerS({ ...WORK, layerMacs: { wide: 1 } }, CEILINGS, traffic(1, 50))).toBeUndefined();
  expect(rooflineTokensPerS(WORK, CEILINGS, { ...traffic(1, 50), outputTokens: 0 })).toBeUndefined();
});
