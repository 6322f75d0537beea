import { expect, test } from "vitest";
import { defaultNumThreads } from "../../core/cpu.js";
import { CPU_CORE_HOUR } from "../../plan/data/prices.js";
import { priceOfThisMachine } from "./machine-price.js";

test("without a flag, the hour costs what the planner takes for the cores", async () => {
  const { usd, source } = await priceOfThisMachine(false);
  expect(usd).toBeCloseTo(CPU_CORE_HOUR.usd * defaultNumThreads(), 9);
  expect(source).toBe(CPU_CORE_HOUR.source);
});
