/** What a report says beyond each target's own figures, as tables that every form of it has. */

import type { BenchReport } from "../results/schema.js";
import { ablationSections, type Section } from "./ablation-tables.js";
import { type Ratios, ratiosOf } from "./summary.js";
import { ratioRows } from "./tables.js";
import { ratioText, voidMark } from "./words.js";

const ratioSection = (ratios: Ratios): Section => ({
  title: `${ratios.first} ÷ ${ratios.second}`,
  note: `All cells together: ${ratioText(ratios.throughput)} output tokens/s, ${ratioText(ratios.ttft)} TTFT${voidMark(ratios.isVoid)}.`,
  rows: ratioRows(ratios),
});

/** Of an ablation its layers, else the first target's ratio to each other one. */
export function comparisonsOf(report: BenchReport): Section[] {
  return report.plan.ablation === undefined ? ratiosOf(report).map(ratioSection) : ablationSections(report);
}
