import fc from "fast-check";
import { Histogram as Counter, Registry } from "prom-client";
import { expect, test } from "vitest";
import { loadBetween, readingOf } from "./load.js";
import { histogramOf, parseMetrics, quantileBetween, sumOf } from "./metrics-text.js";

test("labels with every escape are read, and lines of another form left out", () => {
  const text = '# HELP a b\na{x="1,}\\"\\\\\\n",y="2"} 3\na 4e2\nnot a line at all!\nb{le="+Inf"} +Inf\n';
  expect(parseMetrics(text)).toEqual([
    { name: "a", labels: { x: '1,}"\\\n', y: "2" }, value: 3 },
    { name: "a", labels: {}, value: 400 },
    { name: "b", labels: { le: "+Inf" }, value: Number.POSITIVE_INFINITY },
  ]);
  expect(sumOf(parseMetrics(text), "a")).toBe(403);
  expect(sumOf(parseMetrics(text), "c")).toBeUndefined();
});

test("a quantile lies in the bucket of the true one", async () => {
  const buckets = [0.01, 0.05, 0.1, 0.5, 1, 5];
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.double({ min: 0, max: 4.9, noNaN: true }), { minLength: 1, maxLength: 60 }),
      fc.array(fc.double({ min: 0, max: 4.9, noNaN: true }), { maxLength: 20 }),
      fc.constantFrom(0.5, 0.95, 0.99),
      async (values, earlier, share) => {
        const registry = new Registry();
        const histogram = new Counter({ name: "h", help: "h", buckets, registers: [registry] });
        for (const value of earlier) histogram.observe(value);
        const before = histogramOf(parseMetrics(await registry.metrics()), "h");
        for (const value of values) histogram.observe(value);
        const now = histogramOf(parseMetrics(await registry.metrics()), "h");
        const exact = values.toSorted((a, b) => a - b)[Math.ceil(share * values.length) - 1]!;
        const high = buckets.find((bound) => exact <= bound)!;
        const low = buckets.findLast((bound) => bound < high) ?? 0;
        const found = quantileBetween(before, now, share)!;
        expect(found).toBeGreaterThanOrEqual(low);
        expect(found).toBeLessThanOrEqual(high);
      },
    ),
  );
});

const textAt = (tokens: number, waiting: number, kvUse: number) =>
  [
    `millrace:generation_tokens_total{model_name="m"} ${tokens}`,
    `millrace:num_requests_running{model_name="m"} 2`,
    `millrace:num_requests_waiting{model_name="m"} ${waiting}`,
    `millrace:kv_cache_usage_perc{model_name="m"} ${kvUse}`,
  ].join("\n");

test("rates are those between two readings; a server that starts again has none", () => {
  const before = readingOf(parseMetrics(textAt(100, 0, 0.1)), 1000);
  const load = loadBetween(before, readingOf(parseMetrics(textAt(150, 3, 0.2)), 3000));
  expect(load).toMatchObject({ tokensOutPerS: 25, running: 2, waiting: 3, kvUse: 0.2, prefixHits: undefined });
  expect(loadBetween(before, readingOf(parseMetrics(textAt(7, 0, 0)), 3000)).tokensOutPerS).toBeUndefined();
});
