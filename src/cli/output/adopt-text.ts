/** A student's and its teacher's cost, as lines. */
import { formatUsd } from "../../core/quantities.js";
import type { Replacement } from "../../plan/replacement.js";
import { formatTable } from "./format.js";

export function costText(cost: Replacement | string): string {
  if (typeof cost === "string") return `cost: ${cost}`;
  const { teacher, student, savedPerMonth } = cost;
  const table = formatTable([
    ["", "a month", "by"],
    ["teacher", formatUsd(teacher.usdPerMonth), teacher.source],
    ["student", formatUsd(student.usdPerMonth), student.source],
  ]);
  const saved =
    savedPerMonth > 0
      ? `saved: ${formatUsd(savedPerMonth)} a month; ${paybackText(cost)}`
      : "saved: nothing; the training never pays back";
  return `${table}\n${saved}`;
}

function paybackText({ trainingUsd, paybackMonths }: Replacement): string {
  if (trainingUsd === undefined || paybackMonths === undefined)
    return "--training-cost tells when that has paid the training";
  return `training for ${formatUsd(trainingUsd)} is paid back in ${paybackMonths.toFixed(1)} months`;
}
