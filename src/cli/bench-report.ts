/** What measuring servers ends with: files, a table on stdout, and an exit code that says whether everything was measured. */
import { writeFileSync } from "node:fs";
import type { BenchReport } from "../bench/report/schema.js";
import type { Planned } from "../bench/run/plan.js";
import type { Target } from "../bench/run/target.js";
import { type OutputFlags, resumedReport } from "./bench-options.js";
import { benchView } from "./bench-view.js";
import { formatTable } from "./format.js";

export interface MeasureJob {
  readonly targets: readonly Target[];
  readonly planned: Planned;
  readonly isFreshEachRun?: boolean;
}

/** Ctrl-C ends it with what there is, a second one at once. */
export async function measureServers(
  { targets, planned, isFreshEachRun = false }: MeasureJob,
  flags: OutputFlags,
): Promise<void> {
  const [{ runBench }, { writeReport }] = await Promise.all([
    import("../bench/run/bench.js"),
    import("../bench/report/schema.js"),
  ]);
  const resumed = await resumedReport(flags);
  const stopping = new AbortController();
  const onSignal = () => {
    if (stopping.signal.aborted) process.exit(130);
    process.stderr.write("\nstopping; once more to stop at once\n");
    stopping.abort();
  };
  process.on("SIGINT", onSignal).on("SIGTERM", onSignal);
  try {
    const job = { targets, planned, isFreshEachRun, resumed, numWorkers: flags.workers, signal: stopping.signal };
    const report = await runBench(job, {
      ...benchView(process.stderr),
      onTargets: (live) => {
        for (const { name, address, facts } of live)
          process.stderr.write(`${name}: ${facts.model} at ${address.url}\n`);
      },
      onReport: (unfinished) => {
        if (flags.json !== undefined) writeReport(flags.json, unfinished);
      },
    });
    await presentReport(report, flags);
  } finally {
    process.off("SIGINT", onSignal).off("SIGTERM", onSignal);
  }
}

export async function presentReport(
  report: BenchReport,
  { html, md }: Pick<OutputFlags, "html" | "md">,
): Promise<void> {
  const [{ htmlOf }, { markdownOf }] = await Promise.all([
    import("../bench/report/html.js"),
    import("../bench/report/markdown.js"),
  ]);
  if (html !== undefined) writeFileSync(html, htmlOf(report));
  if (md !== undefined) writeFileSync(md, markdownOf(report));
  process.stdout.write(await textOf(report));
  if (report.isComplete) return;
  process.stderr.write("incomplete: it was stopped, or a server died, before all was measured\n");
  process.exitCode = 1;
}

async function textOf(report: BenchReport): Promise<string> {
  const [{ comparisonsOf }, { summarize }, { resultColumns }, { warningLines }] = await Promise.all([
    import("../bench/report/comparisons.js"),
    import("../bench/report/summary.js"),
    import("../bench/report/tables.js"),
    import("../bench/report/words.js"),
  ]);
  const summaries = summarize(report);
  const columns = resultColumns(summaries);
  const rows = summaries.map((summary) => columns.map((column) => column.text(summary)));
  const parts = summaries.length === 0 ? [] : [formatTable([columns.map((column) => column.title), ...rows])];
  for (const { title, note, rows: table } of comparisonsOf(report)) parts.push(`${title}\n${formatTable(table)}`, note);
  const warnings = warningLines(summaries).map((line) => `! ${line}`);
  return [...parts, warnings.join("\n"), ...report.notes]
    .filter((part) => part !== "")
    .map((part) => `${part}\n`)
    .join("\n");
}
