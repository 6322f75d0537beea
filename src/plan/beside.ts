/** The alternatives to a configuration: the best plan for each other choice. */
import { against } from "./compare.js";
import type { Evaluation } from "./evaluate.js";
import type { Choice, PlanRequest, Refusal } from "./request.js";

export interface Context {
  readonly request: PlanRequest;
  /** Tokens of a sequence that must fit. */
  readonly required: number;
  /** All permitted configurations, best first. */
  readonly all: readonly Evaluation[];
  readonly refusals: readonly Refusal[];
  /** Purposes of weights, by their label. */
  readonly weights: ReadonlyMap<string, string>;
}

export type Reason = Pick<Choice, "because" | "versus">;

/** Compares with the best configuration for which `isOther` holds; undefined if there is none. */
export function beside(
  { request, all }: Context,
  mine: Evaluation,
  isOther: (other: Evaluation) => boolean,
): Reason | undefined {
  const other = all.find(isOther);
  if (other === undefined) return undefined;
  const { text, versus } = against(request, mine, other);
  return { because: text, versus };
}
