/** Reads an ablation's report by cell and by pair of targets. */
import type { BenchPlan, BenchReport, PlannedCell } from "../results/schema.js";
import { type CellRatio, type CellSummary, type Ratios, ratiosBetween, summarize } from "./summary.js";

type AblationPlan = NonNullable<BenchPlan["ablation"]>;

/** Price of half the threads as a share of the full price; half of three threads is one. */
export const priceOfHalf = ({ numThreads }: AblationPlan): number => (numThreads >> 1) / numThreads;

export class AblationReading {
  readonly plan: AblationPlan;
  readonly #summaries: readonly CellSummary[];
  readonly #ratios = new Map<string, Ratios>();
  #hasReadVoid = false;

  /** @param report whose plan has an ablation */
  constructor(private readonly report: BenchReport) {
    this.plan = report.plan.ablation!;
    this.#summaries = summarize(report);
  }

  /** Cells with runs, in the plan's order. */
  cells(isWanted: (cell: PlannedCell) => boolean): PlannedCell[] {
    return this.report.plan.cells.filter(
      (cell) => isWanted(cell) && this.#summaries.some((summary) => summary.cell === cell),
    );
  }

  /** Undefined if the workload was not measured. */
  cellOf(workloadName: string): PlannedCell | undefined {
    return this.cells((cell) => cell.workloadName === workloadName)[0];
  }

  /** The result of `read`, and whether any time or speed that it used comes from void runs only. */
  noting<T>(read: () => T): { readonly value: T; readonly isVoid: boolean } {
    this.#hasReadVoid = false;
    const value = read();
    return { value, isVoid: this.#hasReadVoid };
  }

  summary(cell: PlannedCell | undefined, target: string): CellSummary | undefined {
    const found = this.#summaries.find((summary) => summary.cell === cell && summary.target === target);
    this.#hasReadVoid ||= found?.isVoid === true;
    return found;
  }

  /** Most requests in the batch at once, which does not depend on the client's speed. */
  maxRunning(cell: PlannedCell | undefined, target: string): number | undefined {
    return this.#summaries.find((summary) => summary.cell === cell && summary.target === target)?.server.maxRunning;
  }

  /** first ÷ second over all cells together: the ratio of sums, by round. */
  overall(cells: readonly PlannedCell[], first: string, second: string): Ratios {
    const names = new Set(cells.map((cell) => cell.name));
    const ratios = ratiosBetween(
      { ...this.report, runs: this.report.runs.filter((run) => names.has(run.cell)) },
      first,
      second,
    );
    this.#hasReadVoid ||= ratios.isVoid;
    return ratios;
  }

  /** first ÷ second, paired by rounds that both have. */
  ratio(cell: PlannedCell | undefined, first: string, second: string): CellRatio | undefined {
    const key = `${first} ÷ ${second}`;
    const ratios = this.#ratios.get(key) ?? ratiosBetween(this.report, first, second);
    this.#ratios.set(key, ratios);
    const found = ratios.cells.find((each) => each.cell === cell);
    this.#hasReadVoid ||= found?.isVoid === true;
    return found;
  }
}
