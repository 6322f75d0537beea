/** The report as Markdown. */
import type { BenchReport } from "./schema.js";
import { ratiosOf, summarize } from "./summary.js";
import { type Column, DEFINITIONS, detailColumns, factsOf, ratioRows, resultColumns } from "./tables.js";
import { ratioText, warningLines } from "./words.js";

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
  const several = ratiosOf(report).flatMap((ratios) => [
    `**${ratios.first} ÷ ${ratios.second}: ${ratioText(ratios.throughput)}** output tokens/s over all cells.`,
    table(ratioRows(ratios)),
  ]);
  return `${[
    `# ${report.targets.map((target) => target.name).join(" and ")}: ${report.plan.scenario}`,
    ...(report.isComplete ? [] : ["**Incomplete: it was stopped, or a server died, before all was measured.**"]),
    ...report.notes,
    factsOf(report)
      .map(([name, value]) => `- ${name}: ${value}`)
      .join("\n"),
    ...several,
    ...(summaries.length === 0 ? [] : [table(rows(resultColumns(summaries))), table(rows(detailColumns(summaries)))]),
    ...(warnings.length === 0 ? [] : [`To be read with care:\n\n${warnings.join("\n")}`]),
    DEFINITIONS.map(([name, meaning]) => `- **${name}**: ${meaning}`).join("\n"),
  ].join("\n\n")}\n`;
}
