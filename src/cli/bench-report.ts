/** What measuring servers ends with: files, a table on stdout, and an exit code that says whether everything was measured. */
import { existsSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import type { BenchReport } from "../bench/results/schema.js";
import type { Planned } from "../bench/run/plan.js";
import type { ServerUnderTest } from "../bench/run/target.js";
import { MillraceError } from "../core/errors.js";
import { type OutputFlags, resumedReport } from "./bench-options.js";
import { benchView } from "./bench-view.js";
import { cpuCores, defaultNumThreads } from "./cpu.js";
import { formatTable } from "./format.js";
import { withoutRepeats } from "./stop-signal.js";

export interface MeasureJob {
  /** Left out: as many as there are physical cores. */
  readonly numThreads?: number | undefined;
  readonly targets: readonly ServerUnderTest[];
  readonly planned: Planned;
  readonly isFreshEachRun?: boolean;
}

/** Ctrl-C ends it with what there is, a second one at once. */
export async function measureServers(
  { targets, planned, isFreshEachRun = false, numThreads = defaultNumThreads(cpuCores()) }: MeasureJob,
  flags: OutputFlags,
): Promise<void> {
  assertDistinct(targets.map((target) => target.name));
  assertFolders(flags);
  const [{ runBench }, { writeReport }] = await Promise.all([
    import("../bench/run/bench.js"),
    import("../bench/results/schema.js"),
  ]);
  const resumed = await resumedReport(flags);
  const stopping = new AbortController();
  const onSignal = withoutRepeats(() => {
    if (stopping.signal.aborted) process.exit(130);
    process.stderr.write("\nstopping; once more to stop at once\n");
    stopping.abort();
  });
  process.on("SIGINT", onSignal).on("SIGTERM", onSignal);
  try {
    const { signal } = stopping;
    const job = {
      targets,
      planned,
      isFreshEachRun,
      numThreads,
      resumed,
      numWorkers: flags.workers,
      isPolling: flags.poll === true,
      signal,
    };
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
    if (report === undefined) process.exitCode = 130;
    else await presentReport(report, flags);
  } finally {
    process.off("SIGINT", onSignal).off("SIGTERM", onSignal);
  }
}

/** Of commands that keep nothing: the first signal ends them, and with them what they have started. */
export function exitOnSignals(): void {
  process.once("SIGINT", () => process.exit(130)).once("SIGTERM", () => process.exit(143));
}

/** Throws invalid_option where a file could not be written when all is measured. */
export function assertFolders({ json, html, svg, md }: Pick<OutputFlags, "json" | "html" | "svg" | "md">): void {
  for (const [name, path] of Object.entries({ json, html, svg, md })) {
    if (path === undefined || existsSync(dirname(path))) continue;
    throw new MillraceError("invalid_option", `expected --${name} in a folder that exists, got ${path}`);
  }
}

function assertDistinct(names: readonly string[]): void {
  const twice = names.find((name, i) => names.indexOf(name) < i);
  if (twice === undefined) return;
  throw new MillraceError("invalid_option", `expected servers of different names, got ${twice} twice`, {
    hint: "name running servers: first=http://… second=http://…",
  });
}

export async function presentReport(
  report: BenchReport,
  outputs: Pick<OutputFlags, "html" | "svg" | "md">,
): Promise<void> {
  const [{ htmlOf }, { pictureOf }, { markdownOf }] = await Promise.all([
    import("../bench/report/html.js"),
    import("../bench/report/picture.js"),
    import("../bench/report/markdown.js"),
  ]);
  assertFolders(outputs);
  process.stdout.write(await textOf(report));
  const { html, svg, md } = outputs;
  if (html !== undefined) writeFileSync(html, htmlOf(report));
  if (svg !== undefined) writeFileSync(svg, pictureOf(report));
  if (md !== undefined) writeFileSync(md, markdownOf(report));
  if (report.isComplete) return;
  process.stderr.write("incomplete: it was stopped, or a server died, before all was measured\n");
  process.exitCode = 1;
}

async function textOf(report: BenchReport): Promise<string> {
  const [{ comparisonsOf }, { summarize }, { resultColumns }, { isSentence, warningLines }] = await Promise.all([
    import("../bench/report/comparisons.js"),
    import("../bench/report/summary.js"),
    import("../bench/report/tables.js"),
    import("../bench/report/words.js"),
  ]);
  const summaries = summarize(report);
  const columns = resultColumns(summaries);
  const rows = summaries.map((summary) => columns.map((column) => column.text(summary)));
  const parts = summaries.length === 0 ? [] : [formatTable([columns.map((column) => column.title), ...rows])];
  /** Rows with sentences are written one below the other. */
  const tableText = ([head = [], ...body]: readonly (readonly string[])[]): string =>
    body.some((row) => row.slice(1).some(isSentence))
      ? body
          .map(([first, ...others]) => [first, ...others.map((text, i) => `    ${head[i + 1]}: ${text}`)].join("\n"))
          .join("\n")
      : formatTable([head, ...body]);
  for (const { title, note, rows: table } of comparisonsOf(report)) parts.push(`${title}\n${tableText(table)}`, note);
  const warnings = warningLines(summaries).map((line) => `! ${line}`);
  return [...parts, warnings.join("\n"), ...report.notes]
    .filter((part) => part !== "")
    .map((part) => `${part}\n`)
    .join("\n");
}
