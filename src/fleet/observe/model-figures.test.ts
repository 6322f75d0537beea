import { expect, test } from "vitest";
import { attemptRow, requestRow } from "../../../test/helpers/ledger-rows.js";
import type { AttemptRow, RequestRow } from "../../gateway/ledger/ledger-rows.js";
import { parseMetrics } from "../../observe/live/metrics-text.js";
import { MOST_MODELS, ModelFigures } from "./model-figures.js";

const attempt = (model: string, cost: bigint | undefined): AttemptRow =>
  attemptRow({
    instance: `${model}-0`,
    model,
    counts: { fresh: 10, cacheRead: 30, cacheWrite: 2, output: 7, reasoning: 0 },
    cost,
  });

const row = (attempts: readonly AttemptRow[], more: Partial<RequestRow> = {}): RequestRow =>
  requestRow({ tenant: "secret-tenant", asked: "alias", attempts, ...more });

const totalsOf = (figures: ModelFigures, name: string): Readonly<Record<string, number>> =>
  Object.fromEntries(
    parseMetrics(figures.text())
      .filter((sample) => sample.name === `millrace_model:${name}`)
      .map(({ labels, value }) => [labels.model!, value]),
  );

test("each attempt counts for its model, and a cached answer saves for the model that its name stands for", () => {
  const figures = new ModelFigures((name) => (name === "alias" ? "large" : name));
  figures.count(row([attempt("small", 1_000_000n), attempt("large", 20_000_000n)], { served: "large" }));
  figures.count(row([], { saved: 250_000_000n, savedBy: "cache" }));
  figures.count(row([attempt("free", undefined)]));
  expect(totalsOf(figures, "cost_dollars_total")).toEqual({ small: 0.001, large: 0.02, free: 0 });
  expect(totalsOf(figures, "saved_dollars_total")).toEqual({ small: 0, large: 0.25, free: 0 });
  expect(totalsOf(figures, "prompt_tokens_total")).toEqual({ small: 42, large: 42, free: 42 });
  expect(totalsOf(figures, "generation_tokens_total")).toEqual({ small: 7, large: 7, free: 7 });
  expect(figures.text()).not.toContain("secret-tenant");
});

test("names that clients make up are one series, and models beyond the bound are another", () => {
  const figures = new ModelFigures((name) => (name.startsWith("m-") ? name : undefined));
  for (let i = 0; i < 9; i++) figures.count(row([], { asked: `made up ${i}`, saved: 1_000_000_000n }));
  figures.count(row([], { asked: "made up, and refused" }));
  expect(totalsOf(figures, "saved_dollars_total")).toEqual({ unknown: 9 });
  for (let i = 0; i < 2 * MOST_MODELS; i++) figures.count(row([attempt(`m-${i}`, 1_000_000_000n)]));
  const costs = totalsOf(figures, "cost_dollars_total");
  expect(Object.keys(costs)).toHaveLength(MOST_MODELS);
  expect(Object.values(costs).reduce((sum, cost) => sum + cost, 0)).toBe(2 * MOST_MODELS);
});
