/** Merges two saved reports of one server each, to compare the servers. */
import { isDeepStrictEqual } from "node:util";
import { MillraceError } from "../../core/errors.js";
import type { BenchReport } from "../results/schema.js";

/** Throws invalid_option for reports without common cells. */
export function mergeReports(a: BenchReport, b: BenchReport): BenchReport {
  const cells = a.plan.cells.filter((cell) => b.plan.cells.some((other) => isDeepStrictEqual(cell, other)));
  if (a.targets.length !== 1 || b.targets.length !== 1 || cells.length === 0) {
    throw new MillraceError("invalid_option", "expected two files of one server each with common cells, got others", {
      hint: "measure both with the same options, or give two URLs",
    });
  }
  const names = [a.targets[0]!.name, b.targets[0]!.name] as const;
  const [first, second] = names[0] === names[1] ? ([`${names[0]} (a)`, `${names[1]} (b)`] as const) : names;
  const renamed = (report: BenchReport, target: string) => report.runs.map((run) => ({ ...run, target }));
  const rounds = Math.min(a.plan.rounds, b.plan.rounds);
  const differences = [
    "Measured one after the other, not in alternation: the ratios include changes of the machine in between.",
    ...(a.plan.seed === b.plan.seed ? [] : ["Measured with different seeds: the prompts differ."]),
    ...(a.plan.pricePerHour === b.plan.pricePerHour ? [] : ["Costs of both use the first file's price per hour."]),
    ...(isDeepStrictEqual(a.plan.slo, b.plan.slo)
      ? []
      : ["Measured with different objectives: goodput is not comparable."]),
    ...(isDeepStrictEqual(a.machine, b.machine) ? [] : ["Measured on different machines."]),
  ];
  return {
    ...a,
    isComplete: a.isComplete && b.isComplete,
    plan: { ...a.plan, cells, rounds },
    targets: [
      { ...a.targets[0]!, name: first },
      { ...b.targets[0]!, name: second },
    ],
    runs: [...renamed(a, first), ...renamed(b, second)].filter(
      (run) => run.round <= rounds && cells.some((cell) => cell.name === run.cell),
    ),
    notes: [...differences, ...a.notes, ...b.notes],
  };
}
