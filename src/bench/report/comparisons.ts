/** Comparisons between targets, as tables for every form of the report. */

import type { BenchReport } from "../results/schema.js";
import { ablationSections, type Section } from "./ablation-tables.js";
import { type Ratios, ratiosOf } from "./summary.js";
import { ratioRows, unitsOf } from "./tables.js";
import { ratioText, voidMark } from "./words.js";

const ratioSection = (ratios: Ratios): Section => {
  const [throughput, first] = unitsOf(ratios.cells);
  return {
    title: `${ratios.first} ÷ ${ratios.second}`,
    note: `All cells together: ${ratioText(ratios.throughput)} ${throughput}, ${ratioText(ratios.ttft)} ${first}${voidMark(ratios.isVoid)}.`,
    rows: ratioRows(ratios),
  };
};

/** The layers of an ablation; otherwise the ratios of the first target to each other one. */
export function comparisonsOf(report: BenchReport): Section[] {
  return report.plan.ablation === undefined ? ratiosOf(report).map(ratioSection) : ablationSections(report);
}
