/** A benchmark's report: files, a table on stdout, and an exit code that says whether all measurements are complete. */
import { existsSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import type { BenchReport } from "../../bench/results/schema.js";
import { MillraceError } from "../../core/errors.js";
import { formatTable } from "./format.js";

/** Files of a report. */
export interface ReportFiles {
  readonly out?: string;
  readonly html?: string;
  readonly svg?: string;
  readonly md?: string;
}

/** Throws invalid_option for a file whose folder does not exist, before anything is measured. */
export function assertFolders({ out, html, svg, md }: ReportFiles): void {
  for (const [name, path] of Object.entries({ out, html, svg, md })) {
    if (path === undefined || existsSync(dirname(path))) continue;
    throw new MillraceError("invalid_option", `expected --${name} in a folder that exists, got ${path}`);
  }
}

/** @param outputs without `out`, since that file is saved during the measurement */
export async function presentReport(
  report: BenchReport,
  outputs: ReportFiles & { readonly json?: boolean },
): Promise<void> {
  const [{ htmlOf }, { pictureOf }, { markdownOf }] = await Promise.all([
    import("../../bench/report/html.js"),
    import("../../bench/report/picture.js"),
    import("../../bench/report/markdown.js"),
  ]);
  assertFolders(outputs);
  process.stdout.write(outputs.json === true ? `${JSON.stringify(report)}\n` : await textOf(report));
  const { html, svg, md } = outputs;
  if (html !== undefined) writeFileSync(html, htmlOf(report));
  if (svg !== undefined) writeFileSync(svg, pictureOf(report));
  if (md !== undefined) writeFileSync(md, markdownOf(report));
  if (report.isComplete) return;
  process.stderr.write("incomplete: stopped, or a server died, before everything was measured\n");
  process.exitCode = 1;
}

async function textOf(report: BenchReport): Promise<string> {
  const [{ comparisonsOf }, { summarize }, { resultColumns }, { isSentence, warningLines }] = await Promise.all([
    import("../../bench/report/comparisons.js"),
    import("../../bench/report/summary.js"),
    import("../../bench/report/tables.js"),
    import("../../bench/report/words.js"),
  ]);
  const summaries = summarize(report);
  const columns = resultColumns(summaries);
  const rows = summaries.map((summary) => columns.map((column) => column.text(summary)));
  const parts = summaries.length === 0 ? [] : [formatTable([columns.map((column) => column.title), ...rows])];
  /** Rows with sentences become blocks of lines. */
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
