/** Determines the number of instances of a model with `instances: auto`. */
import { toMillraceError } from "../../core/errors.js";
import type { StartStage } from "../../core/stages.js";
import type { ModelEntry } from "../../fleet/config/schema.js";
import type { Split } from "../../fleet/scaling/instance-plan.js";
import { bestSplit, keptSplit } from "./best-split.js";
import type { SplitQuestion } from "./measure-split.js";

/** The number of concurrent requests for measuring a split, unless the configuration has one. */
const EXPECTED_REQUESTS = 16;

export interface SplitPlace {
  /** CPUs of each physical core of the machine. */
  readonly cores: readonly (readonly number[])[];
  /** If true, nothing is measured: measurement and requests would slow each other down, and the wrong result would be stored. */
  readonly isServing: boolean;
}

const shown = ({ instances, coresPerInstance, tokensPerS }: Split & { readonly tokensPerS: number }): string =>
  `${instances} × ${coresPerInstance} cores: ${Math.round(tokensPerS)} tokens/s`;

/** One instance if nothing can be measured, because a server with too few instances is better than none. */
export async function splitForModel(
  model: ModelEntry,
  modelPath: string,
  { cores, isServing }: SplitPlace,
  engineFor: SplitQuestion["engineFor"],
  startStage: StartStage,
): Promise<Split> {
  const stage = startStage("instances");
  const usable = model.cores === undefined ? cores : model.cores.map((cpu) => [cpu]);
  if (usable.length === 0) return { instances: 1, coresPerInstance: 1 };
  const concurrency = model.options.maxNumSeqs ?? EXPECTED_REQUESTS;
  const question = { modelPath, cores: usable, concurrency, engineFor };
  const whole = { instances: 1, coresPerInstance: usable.length };
  try {
    const answer = isServing ? keptSplit(question) : await bestSplit(question, (split) => stage.update(shown(split)));
    if (answer === undefined) {
      stage.note(`${model.name} gets one instance: how many are fastest is measured at a start only`);
      return whole;
    }
    const { chosen, measured, wasKnown } = answer;
    const known = wasKnown ? " (measured before)" : "";
    stage.done(`${measured.map(shown).join(", ")}; ${chosen.instances} of ${model.name}${known}`);
    return chosen;
  } catch (thrown) {
    const { message } = toMillraceError(thrown);
    stage.note(`${model.name} could not be measured, so it gets one instance: ${message.slice(-500)}`);
    return whole;
  }
}
