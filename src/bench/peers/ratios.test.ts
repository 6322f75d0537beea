import { expect, test } from "vitest";
import { pictureOf } from "./picture.js";
import { markdownOf, ratiosOf } from "./ratios.js";
import type { PeerRun } from "./run.js";
import { shapesOf } from "./shapes.js";

const [PREFILL, DECODE, CONTEXT] = shapesOf({
  prefillTokens: 512,
  decodePrompt: 64,
  genTokens: 16,
  batches: [1, 2],
  context: 4096,
});

/** One process's rows: decode speeds by batch size; prefill is ten times the first. */
function run(contender: string, round: number, shape: PeerRun["shape"], speeds: readonly number[]): PeerRun {
  const rows = speeds.map((decodeTokensPerS, index) => ({
    batch: shape.batches[index]!,
    promptTokens: shape.promptTokens,
    genTokens: shape.genTokens,
    prefillTokensPerS: 10 * speeds[0]!,
    decodeTokensPerS,
  }));
  return { model: "m-q4_0", shape, contender, round, rows };
}

const RUNS: readonly PeerRun[] = [
  run("millrace", 1, DECODE!, [30, 60]),
  run("slow", 1, DECODE!, [10, 15]),
  run("fast", 1, DECODE!, [40, 50]),
  run("fast", 2, DECODE!, [40, 50]),
  run("slow", 2, DECODE!, [12, 25]),
  run("millrace", 2, DECODE!, [36, 80]),
  run("millrace", 1, PREFILL!, [9]),
  run("fast", 1, PREFILL!, [10]),
  run("fast", 1, CONTEXT!, [10]),
];

test("each cell has ratios of medians for the peers that measured it", () => {
  const cells = ratiosOf(RUNS);
  expect(cells.map(({ label, ours, peers }) => [label, ours.median, ...peers.map((p) => [p.name, p.ratio])])).toEqual([
    ["decode, 1 sequence", 33, ["slow", 3], ["fast", 0.825]],
    ["decode, 2 sequences", 70, ["slow", 3.5], ["fast", 1.4]],
    // Prefill counts prompt tokens; the long context we did not measure has no ratio.
    ["prefill 512", 90, ["fast", 0.9]],
  ]);
});

test("the context shape ends at the requested context", () => {
  expect(CONTEXT).toMatchObject({ promptTokens: 4080, genTokens: 16, batches: [1] });
});

test("the Markdown table has a line per cell and leaves unmeasured peers empty", () => {
  const lines = markdownOf(ratiosOf(RUNS)).split("\n");
  expect(lines[0]).toBe("| Model | Cell | millrace | slow | ratio | fast | ratio |");
  expect(lines[2]).toBe(
    "| m-q4_0 | decode, 1 sequence | 33.0 (30.0 to 36.0) | 11.0 (10.0 to 12.0) | **3.00** | 40.0 | **0.82** |",
  );
  expect(lines[4]).toBe("| m-q4_0 | prefill 512 | 90.0 |  |  | 100.0 | **0.90** |");
});

test("the chart has a bar of the right length for each ratio, and escapes names of models", () => {
  const svg = pictureOf(ratiosOf(RUNS.map((each) => ({ ...each, model: 'a<b>&"c' }))));
  expect(svg).toContain("a&lt;b&gt;&amp;&quot;c");
  const bars = [...svg.matchAll(/width="([\d.]+)" height="12" fill="#/g)].map((match) => Number(match[1]));
  // First come two squares of the legend, then slow and fast of both decode cells, then fast of prefill.
  expect(bars).toHaveLength(2 + 5);
  expect(bars[2]! / bars[5]!).toBeCloseTo(3 / 1.4, 2);
});
