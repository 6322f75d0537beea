/** The report as Markdown. */

import type { BenchReport } from "../results/schema.js";
import { comparisonsOf } from "./comparisons.js";
import { summarize } from "./summary.js";
import { type Column, DEFINITIONS, detailColumns, factsOf, resultColumns, serverFacts, titleOf } from "./tables.js";
import { warningLines } from "./words.js";

function table(rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replace(/\|/g, "\\|")).join(" | ")} |`;
  const [header = [], ...body] = rows;
  return [line(header), line(header.map(() => "---")), ...body.map(line)].join("\n");
}

export function markdownOf(report: BenchReport): string {
  const summaries = summarize(report);
  const rows = (columns: readonly Column[]) => [
    columns.map((column) => column.title),
    ...summaries.map((summary) => columns.map((column) => column.text(summary))),
  ];
  const warnings = warningLines(summaries).map((line) => `- ${line}`);
  const several = comparisonsOf(report).flatMap(({ title, note, rows }) => [`## ${title}`, note, table(rows)]);
  return `${[
    `# ${titleOf(report)}`,
    ...(report.isComplete ? [] : ["**Incomplete: stopped, or a server died, before everything was measured.**"]),
    ...report.notes,
    [...factsOf(report), ...serverFacts(report)].map(([name, value]) => `- ${name}: ${value}`).join("\n"),
    ...several,
    ...(summaries.length === 0
      ? []
      : ["## Results", table(rows(resultColumns(summaries))), table(rows(detailColumns(summaries)))]),
    ...(warnings.length === 0 ? [] : [`Warnings:\n\n${warnings.join("\n")}`]),
    DEFINITIONS.map(([name, meaning]) => `- **${name}**: ${meaning}`).join("\n"),
  ].join("\n\n")}\n`;
}
