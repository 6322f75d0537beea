import fc from "fast-check";
import { expect, test } from "vitest";
import { attemptRow, requestRow } from "../../../test/helpers/ledger-rows.js";
import { cases } from "../../../test/helpers/long.js";
import type { AttemptRow, RequestRow } from "../../gateway/ledger/ledger-rows.js";
import type { TokenCounts } from "../../gateway/usage/record.js";
import { parseMetrics, type Sample } from "../../observe/live/metrics-text.js";
import { MOST_TENANTS, OTHER, TenantFigures } from "./tenant-figures.js";

const START = Date.UTC(2026, 0, 1);
const HOUR = 3_600_000;

const counts = (output: number, more: Partial<TokenCounts> = {}): TokenCounts => ({
  fresh: 10,
  cacheRead: 30,
  cacheWrite: 2,
  output,
  reasoning: 0,
  ...more,
});

const attempt = (own: TokenCounts | undefined, cost?: bigint, outcome = "answered"): AttemptRow =>
  attemptRow({ counts: own, cost, outcome });

const row = (tenant: string, more: Partial<RequestRow> = {}): RequestRow =>
  requestRow({
    beganMs: START,
    tenant,
    isStream: true,
    served: "m",
    attempts: [attempt(counts(11), 2_000_000n)],
    ...more,
  });

const samplesOf = (figures: TenantFigures): readonly Sample[] => parseMetrics(figures.text());
const totalOf = (figures: TenantFigures, name: string, labels: Readonly<Record<string, string>>): number => {
  const isIt = (own: Sample["labels"]): boolean => Object.entries(labels).every(([key, text]) => own[key] === text);
  const found = samplesOf(figures).filter((sample) => sample.name === `millrace_tenant:${name}` && isIt(sample.labels));
  return found.reduce((sum, { value }) => sum + value, 0);
};

test("a tenant's requests, tokens, money and times are those of the ledger's rows", () => {
  const figures = new TenantFigures();
  figures.count(row("search"));
  // A retry costs as well; a cached answer has no attempt.
  figures.count(row("search", { attempts: [attempt(counts(3), 500_000_000n, "broken"), attempt(counts(11), 1n)] }));
  figures.count(row("search", { attempts: [], saved: 250_000_000n, savedBy: "cache" }));
  figures.count(row("search", { outcome: "refused", status: 429, firstByteMs: undefined, attempts: [] }));
  figures.count(row("ads", { isStream: false }));
  const of = (name: string, more = {}) => totalOf(figures, name, { tenant: "search", ...more });
  expect([of("requests_total", { outcome: "answered" }), of("requests_total", { outcome: "refused" })]).toEqual([3, 1]);
  expect([of("prompt_tokens_total"), of("prompt_tokens_cached_total"), of("generation_tokens_total")]).toEqual([
    126, 90, 25,
  ]);
  expect(of("cost_dollars_total")).toBeCloseTo(0.502000001, 12);
  expect(of("saved_dollars_total")).toBe(0.25);
  expect(of("time_to_first_token_seconds_count")).toBe(3);
  expect(of("time_to_first_token_seconds_bucket", { le: "0.08" })).toBe(0);
  expect(of("time_to_first_token_seconds_bucket", { le: "0.1" })).toBe(3);
  // One second for ten tokens after the first; tokens of a broken attempt do not count.
  expect(of("request_time_per_output_token_seconds_count")).toBe(2);
  expect(of("request_time_per_output_token_seconds_sum")).toBeCloseTo(0.2, 9);
  expect(totalOf(figures, "time_to_first_token_seconds_count", { tenant: "ads" })).toBe(0);
  expect(totalOf(figures, "generation_tokens_total", { tenant: "ads" })).toBe(11);
});

test.each([
  ["an error", { status: 400 }],
  ["several answers at once", { numAnswers: 2 }],
  ["estimated tokens", { attempts: [attempt(counts(11, { isEstimated: true }))] }],
  ["one token", { attempts: [attempt(counts(1))] }],
  ["two answers, one of them hidden", { attempts: [attempt(counts(5)), attempt(counts(5))] }],
  ["a client that left", { outcome: "cancelled", status: 499 }],
] as const)("no time per token comes of %s", (_, more) => {
  const figures = new TenantFigures();
  figures.count(row("search", more));
  expect(totalOf(figures, "request_time_per_output_token_seconds_count", { tenant: "search" })).toBe(0);
});

test("labels are escaped, and a time beyond the last bucket counts", () => {
  const figures = new TenantFigures();
  figures.count(row('a"\\\n', { firstByteMs: 9e6, totalMs: 9e6 }));
  const tenant = 'a"\\\n';
  expect(totalOf(figures, "time_to_first_token_seconds_bucket", { tenant, le: "600" })).toBe(0);
  expect(totalOf(figures, "time_to_first_token_seconds_bucket", { tenant, le: "+Inf" })).toBe(1);
});

test("the tenant of a gateway without keys is no part of the dashboard", () => {
  const figures = new TenantFigures();
  figures.count(row(""));
  expect(totalOf(figures, "requests_total", { tenant: "" })).toBe(1);
  expect([...figures.readings(START).keys()]).toEqual([]);
});

type Step =
  | { readonly kind: "request"; readonly tenant: number }
  | { readonly kind: "wait"; readonly minutes: number }
  | { readonly kind: "delete"; readonly tenant: number };

test("however many tenants come, go and are deleted, the bound holds, and no request is lost or counted twice", () => {
  const tenant = fc.integer({ min: 0, max: 3 * MOST_TENANTS });
  const step: fc.Arbitrary<Step> = fc.oneof(
    { weight: 30, arbitrary: fc.record({ kind: fc.constant("request" as const), tenant }) },
    {
      weight: 2,
      arbitrary: fc.record({ kind: fc.constant("wait" as const), minutes: fc.integer({ min: 0, max: 90 }) }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("delete" as const), tenant }) },
  );
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 600 }), (steps) => {
      const figures = new TenantFigures();
      const deleted = new Set<string>();
      const latest = new Map<string, number>();
      let nowMs = START;
      let before = new Map<string, number>();
      for (const each of steps) {
        if (each.kind === "wait") nowMs += each.minutes * 60_000;
        else if (each.kind === "delete") deleted.add(`t-${each.tenant}`);
        else if (!deleted.has(`t-${each.tenant}`)) {
          figures.count(row(`t-${each.tenant}`, { beganMs: nowMs - 1100 }));
          latest.set(`t-${each.tenant}`, nowMs);
        }
        const isCounted = each.kind === "request" && !deleted.has(`t-${each.tenant}`);
        if (!isCounted) figures.look(nowMs, (name) => !deleted.has(name));
        const now = new Map(
          samplesOf(figures)
            .filter(({ name, labels }) => name === "millrace_tenant:requests_total" && labels.outcome === "answered")
            .map(({ labels, value }) => [labels.tenant!, value]),
        );
        expect(now.size).toBeLessThanOrEqual(MOST_TENANTS);
        for (const name of now.keys()) if (name !== OTHER) expect(deleted.has(name)).toBe(false);
        const sum = (map: ReadonlyMap<string, number>) => [...map.values()].reduce((total, value) => total + value, 0);
        if (isCounted) expect(sum(now)).toBe(sum(before) + 1);
        // A tenant with a request within the hour keeps its place.
        else
          for (const name of before.keys())
            if (name !== OTHER && !deleted.has(name) && !now.has(name))
              expect(nowMs - latest.get(name)!).toBeGreaterThan(HOUR);
        expect(figures.readings(nowMs).size).toBe(now.size);
        before = now;
      }
    }),
    { numRuns: cases(10, 200) },
  );
});

test("a tenant that finds no place is counted with the others, until one has been quiet for an hour", () => {
  const figures = new TenantFigures();
  for (let i = 0; i < MOST_TENANTS - 1; i++) figures.count(row(`t-${i}`, { beganMs: START + i }));
  figures.look(START + 5 * HOUR, () => true);
  expect(figures.placeFor("t-0", START)).toBe("t-0");
  expect(figures.placeFor("late", START + HOUR)).toBe(OTHER);
  for (let i = 1; i < MOST_TENANTS - 1; i++) figures.count(row(`t-${i}`, { beganMs: START + HOUR }));
  figures.look(START + HOUR + 60_000, () => true);
  expect(figures.placeFor("late", START + HOUR + 60_000)).toBe("late");
  expect(figures.placeFor("t-0", START + HOUR + 60_000)).toBe(OTHER);
  // A tenant of exactly this name counts with the others.
  expect(figures.placeFor(OTHER, START)).toBe(OTHER);
});
