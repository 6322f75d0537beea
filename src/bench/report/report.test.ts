/** All forms of the report, from synthetic runs with known figures. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import type { RequestRecord } from "../load/record.js";
import { measureRun } from "../measure/run-metrics.js";
import { type BenchReport, type BenchRun, readReport, writeReport } from "../results/schema.js";
import { planFor } from "../run/plan.js";
import { lineChart, WIDTH } from "./charts.js";
import { ratioHeadlines, resultHeadlines } from "./headlines.js";
import { htmlOf } from "./html.js";
import { markdownOf } from "./markdown.js";
import { mergeReports } from "./merge.js";
import { pictureOf } from "./picture.js";
import { frontierOf, type Ratios, ratiosOf, summarize } from "./summary.js";
import { warningLines } from "./words.js";

const folder = mkdtempSync(join(tmpdir(), "report-"));
afterAll(() => rmSync(folder, { recursive: true }));

const { plan } = planFor({
  scenario: "quick",
  isReplay: false,
  scale: 1,
  seed: 0,
  concurrency: [1, 4],
  pricePerHour: 3.6,
  slo: { name: "x", ttftMs: 50 },
});

const LOAD = { kind: "closed", concurrency: 1, rampMs: 0 } as const;

/** 40 requests one after another, each with 5 tokens, the first after ttftMs, then 10 ms apart ÷ speed. */
function run(target: string, cell: number, round: number, speed: number, more: Partial<BenchRun> = {}): BenchRun {
  const [ttftMs, tpotMs] = [20 / speed, 10 / speed];
  const records = Array.from({ length: 40 }, (_, i): RequestRecord => {
    const sentMs = i * (ttftMs + 4 * tpotMs);
    const chunkAtMs = [0, 1, 2, 3, 4].map((token) => sentMs + ttftMs + token * tpotMs);
    return {
      session: i,
      turn: 0,
      intendedMs: sentMs,
      sentMs,
      chunkAtMs,
      answerAtMs: chunkAtMs[0],
      lastMs: chunkAtMs[4]!,
      numPromptTokens: 15,
      numCachedTokens: 0,
      numOutputTokens: 5,
      finishReason: "length",
      failure: undefined,
    };
  });
  return {
    target,
    cell: plan.cells[cell]!.name,
    round,
    startedAt: "2026-01-01T00:00:00.000Z",
    voidReasons: [],
    metrics: measureRun(records, LOAD, plan.slo),
    client: { numChunks: 200, meanMs: 0.01, maxMs: 0.1, cpuWaitMs: 0, utilization: 0.1, numWorkers: 1 },
    requests: records.map((record) => ({
      session: record.session,
      turn: 0,
      intendedMs: record.intendedMs,
      sentMs: record.sentMs,
      firstMs: record.chunkAtMs[0],
      lastMs: record.lastMs,
      chunks: 5,
      prompt: 15,
      cached: 0,
      output: 5,
    })),
    ...more,
  };
}

function report(names: readonly string[], runs: BenchRun[]): BenchReport {
  const target = { model: "m", promptsAs: "ids", ignoresEos: true, tokensPerWord: 1 } as const;
  return {
    format: "millrace-bench",
    version: 1,
    createdAt: "2026-01-01T00:00:00.000Z",
    isComplete: true,
    notes: [],
    machine: { cpu: "c", numCpus: 2, memoryBytes: 2 ** 34, platform: "linux x64" },
    versions: { millrace: "1", node: "20" },
    plan,
    runs,
    targets: names.map((name) => ({ name, ...target })),
  };
}

const SPEEDS = [1, 1.1, 0.9];
const one = (name: string, factor: number) =>
  [0, 1].flatMap((cell) => SPEEDS.map((speed, i) => run(name, cell, i + 1, factor * speed)));

test("a cell's figures are medians over runs, its distributions cover all requests, and its cost comes from sums", () => {
  const [first] = summarize(report(["a"], one("a", 1)));
  // 5 tokens in 60 ms.
  expect(first!.outputTokensPerS.median).toBeCloseTo(83.3, 0);
  expect(first!.tokensPerSPerUser!.median).toBeCloseTo(100, 6);
  expect(first!.ttftMs).toMatchObject({
    count: 120,
    percentiles: { p50: expect.closeTo(20), p99: expect.closeTo(20 / 0.9) },
  });
  expect(first).toMatchObject({ attainment: 1, isVoid: false, numRuns: 3, numRequests: 120, numFailed: 0 });
  // Every second costs a thousandth of the price.
  const seconds = SPEEDS.reduce((sum, speed) => sum + (40 * 0.06) / speed, 0);
  expect(first!.cost!.perMillionOutput).toBeCloseTo((1e6 * seconds * 0.001) / 600, 6);
  expect(first!.cost!.perMillionTotal).toBeCloseTo(first!.cost!.perMillionOutput / 4, 6);
});

test("void runs are left out while others remain; otherwise they are shown as void", () => {
  const spoilt = { voidReasons: ["late"] };
  const some = report(["a"], [run("a", 0, 1, 1), run("a", 0, 2, 9, spoilt)]);
  expect(summarize(some)[0]).toMatchObject({
    numRuns: 1,
    isVoid: false,
    outputTokensPerS: { median: expect.closeTo(83.3, 0) },
  });
  const none = report(["a"], [run("a", 0, 1, 1, spoilt)]);
  expect(summarize(none)[0]).toMatchObject({ numRuns: 0, isVoid: true });
  expect(markdownOf(none)).toMatch(/\(void\).*VOID: late/s);
});

test("ratios use rounds that both servers have, and common drift does not widen their interval", () => {
  const both = report(["a", "b"], [...one("a", 3), ...one("b", 2), run("a", 0, 4, 99)]);
  const [{ cells, throughput }] = ratiosOf(both) as [Ratios];
  for (const estimate of [throughput, cells[0]!.throughput]) {
    expect(estimate).toMatchObject({ value: expect.closeTo(1.5, 3), low: expect.closeTo(1.5, 3), numRuns: 3 });
  }
  expect(cells[1]!.ttft!.value).toBeCloseTo(2 / 3, 6);
  expect(ratiosOf(report(["a"], one("a", 1)))).toEqual([]);
});

test("a server that completes more of a time-limited cell is compared at equal work", () => {
  const repeated = (target: string, cell: number, speed: number, times: number): BenchRun => {
    const made = run(target, cell, 1, speed);
    const { outputTokens, durationMs, plateau: _, ...metrics } = made.metrics;
    return { ...made, metrics: { ...metrics, outputTokens: times * outputTokens, durationMs: times * durationMs } };
  };
  // Five times as fast in both cells; thirty times as many tokens in the second.
  const runs = [repeated("a", 0, 5, 1), repeated("a", 1, 50, 30), repeated("b", 0, 1, 1), repeated("b", 1, 10, 1)];
  const [{ throughput, cells }] = ratiosOf(report(["a", "b"], runs)) as [Ratios];
  for (const { throughput: own } of cells) expect(own!.value).toBeCloseTo(5, 3);
  expect(throughput!.value).toBeCloseTo(5, 3);
});

test("a round with an unanswered cell has no sum of times to the first token", () => {
  const runs = ["a", "b"].flatMap((name) => one(name, name === "a" ? 1 : 2));
  const silent = { ...runs[0]!, metrics: { ...runs[0]!.metrics, ttftMs: undefined } };
  const [{ ttft }] = ratiosOf(report(["a", "b"], [silent, ...runs.slice(1)])) as [Ratios];
  expect(ttft).toMatchObject({ value: expect.closeTo(2, 6), numRuns: 2 });
});

test("the frontier has the valid points that no other valid point beats in both figures", () => {
  const cellsOnFrontier = (runs: BenchRun[]) => frontierOf(summarize(report(["a"], runs))).map(({ cell }) => cell.name);
  const [first, second] = plan.cells.map((cell) => cell.name);
  expect(cellsOnFrontier([run("a", 0, 1, 1), run("a", 1, 1, 2)])).toEqual([second]);
  // A void point is neither on the frontier nor displaces a sound one.
  expect(cellsOnFrontier([run("a", 0, 1, 1), run("a", 1, 1, 2, { voidReasons: ["late"] })])).toEqual([first]);
});

test("headlines use cells that count for every server, or name the missing cell", () => {
  const late = { voidReasons: ["late"] };
  const headlines = (runs: BenchRun[]) => resultHeadlines(summarize(report(["a"], runs)));
  const sound = headlines([run("a", 0, 1, 1), run("a", 1, 1, 2)]);
  expect(sound.map(({ label, note }) => [label, note])).toEqual([
    ["output tokens/s, most", plan.cells[1]!.name],
    ["tokens/s for one user, most", plan.cells[1]!.name],
    ["time to first token, p50, least", plan.cells[1]!.name],
    ["cost of a million output tokens, least", plan.cells[1]!.name],
  ]);
  // Without a sound cell of one client, no other cell's figure replaces it.
  const [most, user, ttft] = headlines([run("a", 0, 1, 2, late), run("a", 1, 1, 1)]);
  expect(most).toMatchObject({ note: plan.cells[1]!.name, value: expect.stringMatching(/^8\d/) });
  const gap = { value: "–", note: `no run of ${plan.cells[0]!.name} counts for every server` };
  expect([user, ttft]).toMatchObject([gap, gap]);
  const both = report(["a", "b"], [...one("a", 3), ...one("b", 2).map((each) => ({ ...each, ...late }))]);
  expect(ratioHeadlines(ratiosOf(both)[0]!)).toEqual([
    { label: "output tokens/s, all cells together", value: "–", note: expect.stringContaining("counts for both") },
  ]);
});

test("labels of points overlap nothing and stay within the plot", () => {
  const points = Array.from({ length: 12 }, (_, i) => ({ x: 100 + i, y: 50 + (i % 3), label: "64", isVoid: false }));
  const series = [0, 1].map((index) => ({ name: `s${index}`, index, points }));
  const chart = lineChart({ title: "t", xLabel: "x", yLabel: "y", isDoubling: false, series });
  const places = [...chart.matchAll(/<text x="([\d.]+)" y="([\d.]+)" class="tick">64</g)].map((match) =>
    match.slice(1).map(Number),
  );
  expect(places.length).toBeGreaterThan(0);
  for (const [i, [x, y]] of places.entries()) {
    for (const [otherX, otherY] of places.slice(0, i)) {
      expect(Math.abs(x! - otherX!) >= 14 || Math.abs(y! - otherY!) >= 12).toBe(true);
    }
    expect(x! + 14).toBeLessThanOrEqual(WIDTH - 18);
  }
});

test("one round gives no intervals", () => {
  const [summary] = summarize(report(["a"], [run("a", 0, 1, 1)]));
  expect(summary).toMatchObject({ ttftP50Interval: undefined });
  expect(summary!.outputTokensPerS).not.toHaveProperty("low");
  expect(markdownOf(report(["a", "b"], [run("a", 0, 1, 1), run("b", 0, 1, 2)]))).not.toMatch(/\d to \d/);
});

test("files other than complete reports of this version are refused", () => {
  const path = join(folder, "a.json");
  const saved = report(["a"], one("a", 1));
  writeReport(path, saved);
  expect(summarize(readReport(path))).toEqual(summarize(saved));
  writeFileSync(path, JSON.stringify({ ...saved, version: 99 }));
  expect(() => readReport(path)).toThrow(expect.objectContaining({ code: "file_unreadable" }));
  writeFileSync(path, readFileSync(path, "utf8").slice(0, 50));
  expect(() => readReport(path)).toThrow(/expected results of millrace bench run/);
});

test("two merged files give one report, with a note that they were not measured in alternation", () => {
  const merged = mergeReports(report(["a"], one("a", 3)), report(["a"], one("a", 2)));
  expect(merged.targets.map((target) => target.name)).toEqual(["a (a)", "a (b)"]);
  expect(merged.notes).toEqual([expect.stringContaining("not in alternation")]);
  expect(ratiosOf(merged)[0]!.throughput!.value).toBeCloseTo(1.5, 3);
  const half = { ...report(["b"], one("b", 1)), plan: { ...plan, cells: plan.cells.slice(1) } };
  const common = mergeReports(report(["a"], one("a", 3)), half);
  expect(new Set(common.runs.map((each) => each.cell))).toEqual(new Set([plan.cells[1]!.name]));
  const other = { ...report(["b"], []), plan: { ...plan, cells: [] } };
  expect(() => mergeReports(report(["a"], []), other)).toThrow(/common cells/);
});

test("the page loads nothing from the network, and escapes all text", () => {
  const name = '<img src="https://x.example">&';
  const page = htmlOf(report([name, "b"], [...one(name, 3), ...one("b", 2)]));
  expect(page).not.toMatch(/<img|<script|<link|@import|url\(/);
  expect(page).toContain("&lt;img");
  expect(page).toContain("1.50 ×");
  expect(page.match(/<svg /g)).toHaveLength(6);
  expect(page).not.toMatch(/NaN|undefined|Infinity/);
});

test("the picture is self-contained, with a legend and a panel for each workload", () => {
  const name = '<b>"&';
  const picture = pictureOf(report([name, "b"], [...one(name, 3), ...one("b", 2)]));
  expect(picture).toMatch(/^<svg xmlns="http:\/\/www.w3.org\/2000\/svg" /);
  expect(picture).not.toMatch(/<b>|<image|url\(|NaN|undefined|Infinity/);
  expect(picture.match(/<svg /g)).toHaveLength(2);
  expect(picture).toContain("&lt;b&gt;&quot;&amp;");
});

test("a report without runs or with failures only is still valid", () => {
  const empty = { ...report(["a"], []), isComplete: false };
  expect(htmlOf(empty)).toContain("Incomplete");
  const failed = run("a", 0, 1, 1, { voidReasons: ["no request was answered"], requests: [] });
  const metrics = measureRun([], LOAD, undefined);
  expect(pictureOf(empty)).toContain("</svg>");
  for (const text of [htmlOf, markdownOf].map((form) => form(report(["a"], [{ ...failed, metrics }])))) {
    expect(text).toContain("no request was answered");
    expect(text).not.toMatch(/NaN|undefined|Infinity/);
  }
});

test("a warning for many cells states their number and the largest effect", () => {
  const noisy = (name: string, factor: number) => [1, factor].map((speed, i) => run(name, 0, i + 1, speed));
  const names = ["a", "b", "c", "d", "e"];
  const [counted, ...others] = warningLines(
    summarize(report([...names, "f"], [...names.flatMap((name, i) => noisy(name, 2 + i)), run("f", 0, 1, 1)])),
  );
  expect(counted).toMatch(/^5 of 6 pairs of cell and server: runs differ .*, at most 101 %$/);
  expect(others).toEqual([]);
});
