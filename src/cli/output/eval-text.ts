/** An evaluation as tables: one model's tasks, or two models compared. */
import { type Comparison, points, type TaskComparison } from "../../quality/compare.js";
import { isShare } from "../../quality/harness/metrics.js";
import type { TaskResult } from "../../quality/run-task.js";
import { formatTable } from "./format.js";

export const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

/** @param unscored names of tasks whose answers are neither right nor wrong */
export function tasksTable(results: readonly TaskResult[], unscored: ReadonlySet<string> = new Set()): string {
  const header = ["task", "items", "right", "95 % interval", "mean score", "tokens/s"];
  const rows = results.map(({ task, numItems, exact, exactInterval: [low, high], score, tokensPerS, metrics }) => {
    // Texts for perplexity are neither right nor wrong.
    const isJudged = !unscored.has(task) && (metrics === undefined || Object.keys(metrics).some(isShare));
    const judged = [percent(exact), `${(100 * low).toFixed(1)} to ${(100 * high).toFixed(1)}`, score.toFixed(3)];
    return [task, String(numItems), ...(isJudged ? judged : judged.map(() => "")), tokensPerS.toFixed(0)];
  });
  const metrics = metricRows(results);
  const tables = metrics.length === 0 ? [rows] : [rows, metrics];
  return tables.map((table, index) => formatTable([index === 0 ? header : METRIC_HEADER, ...table])).join("\n\n");
}

const METRIC_HEADER = ["task", "metric", "filter", "value", "standard error"];

/** Rows for metrics of task files, with the digits of lm-evaluation-harness. */
const metricRows = (results: readonly TaskResult[]): string[][] =>
  results.flatMap(({ task, metrics = {} }) =>
    Object.entries(metrics).map(([name, { value, stderr }]) => {
      const [metric = "", filter = ""] = name.split(",");
      return [task, metric, filter, value.toFixed(4), stderr?.toFixed(4) ?? ""];
    }),
  );

export function comparisonText(comparison: Comparison): string {
  const { tasks, overall, numUnpaired } = comparison;
  const rows = [...(tasks.length === 1 ? [] : tasks), overall].map(rowOf);
  const header = ["task", "items", "before", "after", "drop in points", "95 % interval", "lost", "won", "McNemar p"];
  return [
    formatTable([header, ...rows]),
    "",
    verdictText(comparison),
    ...(numUnpaired === 0 ? [] : [`${numUnpaired} items have an answer of one model only and are left out.`]),
  ].join("\n");
}

function rowOf({
  task,
  numItems,
  before,
  after,
  drop,
  interval: [low, high],
  numLost,
  numWon,
  p,
}: TaskComparison): string[] {
  const interval = `${(100 * low).toFixed(1)} to ${(100 * high).toFixed(1)}`;
  const counts = [String(numLost), String(numWon)];
  return [task, String(numItems), percent(before), percent(after), points(drop), interval, ...counts, p.toPrecision(2)];
}

/** @example "passes: the drop is below 2 points, with 95 % confidence" */
export function verdictText({ verdict, maxDrop, isSequential, overall, numMoreItems }: Comparison): string {
  const looks = isSequential ? `, after ${overall.numItems} items` : "";
  if (verdict === "passes") return `passes: the drop is below ${points(maxDrop)} points, with 95 % confidence${looks}`;
  if (verdict === "fails") return `fails: the drop is above ${points(maxDrop)} points, with 95 % confidence${looks}`;
  const more =
    numMoreItems === undefined
      ? "the drop is too near to the margin to be told from it by a few more items"
      : `about ${numMoreItems} more items show it with a probability of 80 %, if the models are about equally good`;
  return `undecided: whether the drop is below ${points(maxDrop)} points is open after ${overall.numItems} items; ${more}`;
}
