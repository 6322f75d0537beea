import fc from "fast-check";
import { Histogram as Counter, Registry } from "prom-client";
import { expect, test } from "vitest";
import { isFigure, keyOf, loadBetween, partOf, readingOf, readingsOfParts } from "./load.js";
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

test("steps, caches, drafts, memory and seats have their figures, where the engine tells them", () => {
  const text = (k: number) =>
    [
      `millrace:engine_step_seconds_total ${2 * k}`,
      `millrace:engine_prompt_seconds_total ${0.5 * k}`,
      `millrace:engine_kernel_seconds_total ${1.8 * k}`,
      `millrace:kv_evicted_tokens_total ${30 * k}`,
      `millrace:prefix_cache_hits_total ${70 * k}`,
      `millrace:spec_decode_num_accepted_tokens_total ${20 * k}`,
      'millrace:cache_config_info{block_size="16",max_num_seqs="8"} 1',
      "process_resident_memory_bytes 1000",
    ].join("\n");
  const at = (k: number) => readingOf(parseMetrics(text(k), isFigure), 1000 * k);
  const load = loadBetween(at(0), at(2));
  expect(load).toMatchObject({ seats: 8, memoryBytes: 1000, promptShare: 0.25 });
  expect(load).toMatchObject({ evictedPerS: 30, prefixSavedPerS: 70, draftedPerS: 20 });
  expect(load.hostShare).toBeCloseTo(0.1, 9);
  const bare = loadBetween(readingOf([], 0), readingOf([], 1000));
  const { seats, memoryBytes, promptShare, hostShare, evictedPerS, draftedPerS } = bare;
  expect(new Set([seats, memoryBytes, promptShare, hostShare, evictedPerS, draftedPerS])).toEqual(new Set([undefined]));
});

test("shares are those since the reading before where the earlier one does not have them", () => {
  const at = (text: string, atMs: number) => readingOf(parseMetrics(text), atMs);
  const steps = (step: number, prompt: number) =>
    `millrace:engine_step_seconds_total ${step}\nmillrace:engine_prompt_seconds_total ${prompt}\n`;
  const [before, now] = [at(steps(1, 0.5), 9000), at(steps(3, 1), 10_000)];
  for (const long of [at("", 0), at(steps(100, 50), 0)]) expect(loadBetween(before, now, long).promptShare).toBe(0.25);
  expect(loadBetween(before, now, at(steps(0, 0), 0)).promptShare).toBeCloseTo(1 / 3, 9);
});

test("a fleet has the seats and the memory of all instances, where each says how many it has", () => {
  const line = (name: string, id: string, value: number) => `${name}{model="m",instance="${id}"} ${value}\n`;
  const text =
    "process_resident_memory_bytes 10\n" +
    ["m-0", "m-1"]
      .map(
        (id) =>
          line("millrace:num_requests_running", id, 1) +
          line("millrace_fleet:in_flight", id, 1) +
          line("millrace_fleet:instance_seats", id, 4) +
          line("millrace_fleet:instance_resident_memory_bytes", id, 100),
      )
      .join("");
  expect(readingOf(parseMetrics(text), 0)).toMatchObject({ seats: 8, memoryBytes: 210 });
  const part = readingsOfParts(parseMetrics(text), 0).get("instance=m-1");
  expect(part).toMatchObject({ seats: 4, memoryBytes: 100 });
  const other = text + line("millrace:num_requests_running", "m-2", 1);
  expect(readingOf(parseMetrics(other), 0).seats).toBeUndefined();
});

test("histograms of other bounds are added up so that counts never shrink", () => {
  const lines = (instance: string, buckets: readonly (readonly [string, number])[]) =>
    buckets.map(([le, count]) => `h_bucket{le="${le}",instance="${instance}"} ${count}\n`).join("");
  const a = lines("a", [
    ["0.1", 4],
    ["1", 6],
    ["+Inf", 8],
  ]);
  const b = lines("b", [
    ["0.5", 10],
    ["+Inf", 20],
  ]);
  const sum = histogramOf(parseMetrics(b + a), "h");
  expect([...sum]).toEqual([
    [0.1, 4],
    [0.5, 14],
    [1, 16],
    [Number.POSITIVE_INFINITY, 28],
  ]);
});

const fleetText = (tokens: number) =>
  [
    'millrace_fleet:queue_depth{model="m"} 1',
    'millrace_fleet:queue_depth{model="n"} 0',
    `millrace_fleet:requests_total{model="m",instance="",outcome="failed"} ${tokens}`,
    `millrace_fleet:requests_total{model="unknown",instance="",outcome="failed"} ${tokens}`,
    ...["m-0", "m-1"].flatMap((id, i) => [
      `millrace_fleet:in_flight{model="m",instance="${id}",engine="vllm"} ${i}`,
      `millrace:generation_tokens_total{model="m",instance="${id}",engine="vllm"} ${(i + 1) * tokens}`,
      `millrace:kv_cache_usage_perc{model="m",instance="${id}",engine="vllm"} 0.${i + 1}`,
      `millrace_fleet:requests_total{model="m",instance="${id}",outcome="answered"} ${tokens}`,
      `millrace_fleet:time_to_first_byte_seconds_bucket{le="0.1",model="m",instance="${id}"} ${tokens}`,
      `millrace_fleet:time_to_first_byte_seconds_bucket{le="+Inf",model="m",instance="${id}"} ${tokens}`,
      `millrace_fleet:instance_state{model="m",instance="${id}",engine="vllm",state="ready"} 1`,
    ]),
  ].join("\n");

test("each model and each instance has the figures of its own labels", () => {
  const [before, now] = [0, 10].map((tokens, i) => readingsOfParts(parseMetrics(fleetText(tokens)), 1000 * i));
  expect([...now!.keys()]).toEqual(["model=m", "model=n", "instance=m-0", "instance=m-1"]);
  const load = (key: string) => loadBetween(before!.get(key)!, now!.get(key)!);
  const ofModel = { tokensOutPerS: 30, requestsPerS: 30, running: 1, waiting: 1, kvUse: 0.2 };
  expect(load("model=m")).toMatchObject(ofModel);
  expect(load("instance=m-1")).toMatchObject({ tokensOutPerS: 20, requestsPerS: 10, running: 1, kvUse: 0.2 });
  expect(load("instance=m-0")).toMatchObject({ running: 0, waiting: undefined });
  expect(load("instance=m-0").ttft.p50).toBeCloseTo(50, 9);
  expect(load("model=n")).toMatchObject({ tokensOutPerS: undefined, waiting: 0 });
  const one = readingsOfParts(parseMetrics(fleetText(1)), 0, new Set(["instance=m-1", "instance=gone"]));
  expect([...one].map(([key, { counters }]) => [key, counters.tokensOut])).toEqual([
    ["instance=m-1", 2],
    ["instance=gone", undefined],
  ]);
});

test("a reading needs only the lines that it names", () => {
  const all = readingOf(parseMetrics(fleetText(3)), 0);
  expect(readingOf(parseMetrics(fleetText(3), isFigure), 0)).toEqual(all);
  expect(parseMetrics(fleetText(3), isFigure).some(({ name }) => name.endsWith("instance_state"))).toBe(false);
});

test("a key stands for its part alone, whatever the name", () => {
  fc.assert(
    fc.property(fc.constantFrom("model", "instance"), fc.string({ unit: "grapheme", minLength: 1 }), (kind, name) => {
      const key = keyOf({ kind, name });
      expect(key).toMatch(/^[\w=%.~!*'()-]+$/);
      expect(partOf(key)).toEqual({ kind, name });
    }),
  );
  for (const key of ["", "model=", "model=%", "key=a", "history", "model=a=b"]) expect(partOf(key)).toBeUndefined();
});
