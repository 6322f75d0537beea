import { expect, test } from "vitest";
import { CODE_EDIT, LENGTHS, MEMORY, PADDED } from "../ablation/cells.js";
import { ALL, HALF, NAIVE, VANILLA } from "../ablation/variants.js";
import { measureRun } from "../measure/run-metrics.js";
import type { BenchReport, BenchRun } from "../results/schema.js";
import { ablationSections } from "./ablation-tables.js";
import { htmlOf } from "./html.js";
import { markdownOf } from "./markdown.js";

const CLOSED = { kind: "closed", concurrency: 1, rampMs: 0 } as const;
const ABLATION = {
  foundation: ["continuous batching", "paged KV"],
  optimisations: ["Q4_0 weights", "speculation"],
  alternatives: ["Q8_0 weights"],
  numThreads: 2,
};

/** Speed of each variant, relative to naive. */
const SPEEDS: Readonly<Record<string, number>> = {
  [NAIVE]: 1,
  "naive + continuous batching": 2,
  "naive + paged KV": 1,
  [VANILLA]: 2,
  "vanilla + Q4_0 weights": 6,
  "vanilla + Q8_0 weights": 3,
  "vanilla + speculation": 4,
  "all but continuous batching": 5,
  "all but paged KV": 10,
  "all but Q4_0 weights": 4,
  "all but speculation": 6,
  [ALL]: 10,
  [HALF]: 5,
};

const cell = (name: string, fields: object = {}) => ({
  name: `${name}, 1 at once`,
  workloadName: name,
  workload: { kind: "random" },
  load: CLOSED,
  ...fields,
});
const CELLS = [
  cell(LENGTHS),
  cell(PADDED, { targets: [NAIVE], usefulShare: 0.25 }),
  cell(MEMORY),
  cell(CODE_EDIT),
  cell("ladder 512/512", { targets: [NAIVE, VANILLA, "all but speculation", ALL, HALF] }),
];

function run(target: string, name: string, speed: number): BenchRun {
  const step = 40 / speed;
  const requests = Array.from({ length: 20 }, (_, session) => {
    const sentMs = session * 10 * step;
    return { session, turn: 0, intendedMs: sentMs, sentMs, firstMs: sentMs + step, lastMs: sentMs + 10 * step };
  });
  const records = requests.map(({ firstMs, ...request }) => ({
    ...request,
    chunkAtMs: [firstMs, request.lastMs],
    answerAtMs: firstMs,
    numPromptTokens: 10,
    numCachedTokens: 0,
    numOutputTokens: 10,
    finishReason: "length",
    failure: undefined,
  }));
  const client = { numChunks: 40, meanMs: 0, maxMs: 0, cpuWaitMs: 0, typicalMs: 0, utilization: 0, numWorkers: 1 };
  return {
    target,
    cell: name,
    round: 1,
    startedAt: "2026-01-01T00:00:00.000Z",
    voidReasons: [],
    client,
    metrics: measureRun(records, CLOSED, undefined),
    server: { maxRunning: 4 * speed, acceptance: 0.8 },
    requests: requests.map((request) => ({ ...request, chunks: 2, prompt: 10, cached: 0, output: 10 })),
  };
}

const REPORT: BenchReport = {
  format: "millrace-bench",
  version: 1,
  createdAt: "2026-01-01T00:00:00.000Z",
  isComplete: true,
  notes: [],
  machine: { cpu: "c", numCpus: 2, memoryBytes: 2 ** 34, platform: "linux x64" },
  versions: { millrace: "1", node: "20" },
  plan: { scenario: "ablation", cells: CELLS, rounds: 1, seed: 0, stopsWhenSaturated: false, ablation: ABLATION },
  targets: Object.keys(SPEEDS).map((name) => ({
    name,
    model: "m",
    promptsAs: "ids" as const,
    ignoresEos: true,
    tokensPerWord: 1,
  })),
  runs: CELLS.flatMap(({ name, targets = Object.keys(SPEEDS) }: { name: string; targets?: readonly string[] }) =>
    targets.map((target) => run(target, name, SPEEDS[target]!)),
  ),
};
const sections = ablationSections(REPORT);
const rowsOf = (title: string) => sections.find((section) => section.title.startsWith(title))!.rows;
const rowOf = (title: string, first: string) => rowsOf(title).find((row) => row[0]!.startsWith(first))!;

test("a layer alone is compared with its baseline, a removed layer with all together, and gains are multiplied", () => {
  const title = `Layers: ${LENGTHS}`;
  expect(rowOf(title, "continuous batching").slice(0, 5)).toEqual([
    "continuous batching",
    "2.00 ×",
    "0.50 ×",
    "0.50 ×",
    "2.00 ×",
  ]);
  expect(rowOf(title, "Q4_0 weights")[1]).toBe("3.00 ×");
  expect(rowOf(title, "Q8_0 weights").slice(1, 5)).toEqual(["1.50 ×", "0.67 ×", "0.67 ×", "–"]);
  expect(rowOf(title, "all together ÷ vanilla")[1]).toBe("5.00 ×");
  // The product is 3 × 2; the measured gain is 5.
  expect(rowOf(title, "product of what they gain on vanilla")[1]).toBe("6.00 ×; together ÷ product: 0.83");
});

test("the ladder shows the gain, the half and the cost of both", () => {
  const [, row] = rowsOf("By load");
  const [all, half] = ["2.00 ×,5.00 ×,0.20 ×,1.67 ×", "2.50 ×"].map((texts) =>
    texts.split(",").map((text) => `${text} (1 pair)`),
  );
  expect(row!.slice(2)).toEqual([...all!, "250", ...half!, "-80.0 %", "-80.0 %"]);
});

test.each([
  [["", ""], "5.00 ×"],
  [["", "late"], "5.00 × (1 pair)"],
  [["late", "late"], "5.00 × (void)"],
])("a gain by load from rounds that are void for %j is %s", (reasons, expected) => {
  const runs = reasons.flatMap((reason, index) =>
    REPORT.runs.map((each) => ({ ...each, round: index + 1, voidReasons: reason === "" ? [] : [reason] })),
  );
  const { rows } = ablationSections({ ...REPORT, runs }).find(({ title }) => title === "By load")!;
  expect(rows[1]![3]).toBe(expected);
});

test("figures over all loads are ratios of sums, from rounds without void runs", () => {
  const [loads] = CELLS.slice(-1);
  const longer = { ...loads!, name: "ladder 1024/512, 1 at once", workloadName: "ladder 1024/512" };
  const speeds: Readonly<Record<string, number>> = { [VANILLA]: 2 / 3, [ALL]: 4 / 3, [HALF]: 1 };
  const slow = Object.entries(speeds).map(([target, speed]) => run(target, longer.name, speed));
  const overall = (voidReasons: string[]) => {
    const runs = [...REPORT.runs, ...slow.map((each) => ({ ...each, voidReasons }))];
    const cells = [...CELLS, longer];
    const { rows } = ablationSections({ ...REPORT, runs, plan: { ...REPORT.plan, cells } }).find(
      ({ title }) => title === "By load",
    )!;
    return rows.at(-1)!;
  };
  const lasts = (speed: number) => 19 * 10 * (40 / speed) + 10 * (40 / speed);
  const gain = (lasts(2) + lasts(2 / 3)) / (lasts(10) + lasts(4 / 3));
  const ttft = (40 / 10 + 40 / (4 / 3)) / (40 / 2 + 40 / (2 / 3));
  expect(overall([]).slice(3, 5)).toEqual([`${gain.toFixed(2)} × (1 pair)`, `${ttft.toFixed(2)} × (1 pair)`]);
  expect(overall([])[8]).toBe(`${gain <= 1 ? "+" : ""}${(100 / gain - 100).toFixed(1)} %`);
  expect(overall(["late"])[3]).toBe(`${gain.toFixed(2)} × (void)`);
});

test("reference ratios are next to ours, and those without a cell are named once below", () => {
  const ours = (first: string) => rowOf("Reference ratios", first)[2];
  expect(ours("continuous against static")).toBe("8.00 × padded; 2.00 × against naive");
  expect(ours("requests at once in the same memory, 8-bit")).toBe("5.00 × (8 → 40)");
  expect(ours("8-bit weights")).toBe("Q8_0 weights: 1.50 ×");
  expect(ours("4-bit weights")).toBe("Q4_0 weights: 3.00 ×");
  expect(ours("speculation")).toBe("code edit: 2.00 × at 80.0 % accepted");
  const { rows, note } = ablationSections(REPORT).find(({ title }) => title === "Reference ratios")!;
  expect(rows.some(([what]) => what!.startsWith("time to the first token"))).toBe(false);
  expect(note).toContain("Not measured in this run: ");
  expect(note).toContain("time to the first token with the prefix cache");
  expect(ours("all together")).toBe("+400 % (512/512, 1 at once)");
});

test("a reference ratio from void runs is marked; concurrent requests do not depend on void runs", () => {
  const runs = REPORT.runs.map((each) => ({ ...each, voidReasons: ["late"] }));
  const rows = ablationSections({ ...REPORT, runs }).find(({ title }) => title === "Reference ratios")!.rows;
  const ours = rows.map((row) => row[2]!);
  expect(ours.filter((text) => text.endsWith("(void)"))).toContain("Q4_0 weights: 3.00 × (void)");
  expect(ours).toContain("5.00 × (8 → 40)");
});

test("an ablation with few measurements still gives a report", () => {
  const runs = REPORT.runs.filter(({ target }) => target === VANILLA);
  for (const text of [htmlOf, markdownOf].flatMap((form) => [form(REPORT), form({ ...REPORT, runs })])) {
    expect(text).toContain("Gain of each optimisation of millrace: m");
    expect(text).not.toMatch(/NaN|undefined|Infinity/);
  }
});
