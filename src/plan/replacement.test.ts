import { expect, test } from "vitest";
import { planRequest } from "../../test/helpers/plan-request.js";
import { plannedCost, pricedCost, replacementOf } from "./replacement.js";

const traffic = { requestsPerMonth: 3e6, inputTokens: 1000, outputTokens: 500 };
const api = { name: "given", usdPerMillionInput: 2.5, usdPerMillionOutput: 10, date: "given" };

test("tokens at a price", () => {
  // 3 billion input tokens and 1.5 billion output tokens.
  expect(pricedCost(api, traffic).usdPerMonth).toBeCloseTo(7500 + 15_000, 6);
});

test("a saving pays the training after some months, and no saving never does", () => {
  const [teacher, student] = [22_500, 2500].map((usdPerMonth) => ({ usdPerMonth, source: "" })) as [never, never];
  expect(replacementOf(teacher, student, 30_000)).toMatchObject({ savedPerMonth: 20_000, paybackMonths: 1.5 });
  expect(replacementOf(teacher, student, undefined).paybackMonths).toBeUndefined();
  expect(replacementOf(student, teacher, 30_000)).toMatchObject({ savedPerMonth: -20_000, paybackMonths: undefined });
  expect(replacementOf(teacher, student, 0).paybackMonths).toBe(0);
});

test("a smaller model on the same machine needs fewer of them", () => {
  const busy = { ...traffic, requestsPerMonth: 3e7 };
  const [large, small] = ["llama-3.3-70b", "llama-3.1-8b"].map(
    (model) => plannedCost(planRequest(model, "h100x4"), busy)!,
  );
  expect(large!.usdPerMonth).toBeGreaterThan(2 * small!.usdPerMonth);
  expect(small!.source).toMatch(/^predicted for .*H100.*, prices of /);
});

test("a model that does not fit has no cost", () => {
  expect(plannedCost(planRequest("llama-3.3-70b", "h100x1"), traffic)).toBeUndefined();
});
