/** Determines the number of instances of a model with `instances: auto`. */
import { statSync } from "node:fs";
import { toMillraceError } from "../../core/errors.js";
import { findOnPath } from "../../core/machine-report.js";
import type { StartStage } from "../../core/stages.js";
import { ADAPTERS } from "../../fleet/adapters/index.js";
import type { ModelEntry } from "../../fleet/config/schema.js";
import type { MeasuredSplit, Split } from "../../fleet/scaling/instance-plan.js";
import type { ModelSpec } from "../../fleet/upstream/model-spec.js";
import { bestSplit, keptSplit, type SplitQuestion } from "./best-split.js";
import { measureServedSplit } from "./measure-served-split.js";
import { type EngineToSplit, measureSplit } from "./measure-split.js";

/** The number of concurrent requests for measuring a split, unless the configuration has one. */
const EXPECTED_REQUESTS = 16;

export interface SplitPlace {
  /** CPUs of each physical core of the machine. */
  readonly cores: readonly (readonly number[])[];
  /**
   * If true, nothing is measured: measurement and requests would slow each other down, and the stored result would be
   * wrong.
   */
  readonly isServing: boolean;
}

/** How to measure a model's splits: our own engine's in separate processes, another engine's as the fleet starts it. */
export type SplitSubject =
  | { readonly engineFor: EngineToSplit["engineFor"] }
  | { readonly specFor: (split: Split) => ModelSpec };

/** One instance if nothing can be measured, because a server with too few instances is better than none. */
export async function splitForModel(
  model: ModelEntry,
  modelPath: string,
  { cores, isServing }: SplitPlace,
  subject: SplitSubject,
  startStage: StartStage,
): Promise<Split> {
  const stage = startStage("instances");
  const usable = model.cores === undefined ? cores : model.cores.map((cpu) => [cpu]);
  const units = model.gpus ?? usable;
  const unit = model.gpus === undefined ? "cores" : "GPUs";
  if (units.length === 0) return { instances: 1, perInstance: 1 };
  const concurrency = model.options.maxNumSeqs ?? EXPECTED_REQUESTS;
  const question = {
    modelPath,
    numUnits: units.length,
    concurrency,
    ...measurementOf(subject, modelPath, usable, concurrency),
  };
  const whole = { instances: 1, perInstance: units.length };
  const shown = ({ instances, perInstance, tokensPerS }: MeasuredSplit): string =>
    `${instances} × ${perInstance} ${unit}: ${tokensPerS === 0 ? "failed" : `${Math.round(tokensPerS)} tokens/s`}`;
  const show = (split: MeasuredSplit, error?: unknown): void => {
    if (error === undefined) stage.update(shown(split));
    else stage.note(`${shown(split)}: ${toMillraceError(error).message.slice(-500)}`);
  };
  try {
    const answer = isServing ? keptSplit(question) : await bestSplit(question, show);
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

function measurementOf(
  subject: SplitSubject,
  modelPath: string,
  cores: SplitPlace["cores"],
  concurrency: number,
): Pick<SplitQuestion, "conditions" | "measure"> {
  if ("engineFor" in subject) {
    const engine = { modelPath, cores, concurrency, engineFor: subject.engineFor };
    return { conditions: [cores, subject.engineFor(concurrency)], measure: (split) => measureSplit(engine, split) };
  }
  const { specFor } = subject;
  const spec = specFor({ instances: 1, perInstance: 1 });
  return {
    conditions: [spec, programStamp(spec)],
    measure: (split) => measureServedSplit(specFor(split), split, concurrency),
  };
}

/** The engine's program with its size and modification time, which change with its version. */
function programStamp({ engine, program = ADAPTERS[engine].program }: ModelSpec): unknown {
  const name = program?.[0] ?? "";
  const path = findOnPath(name) ?? name;
  const { size, mtimeMs } = statSync(path, { throwIfNoEntry: false }) ?? {};
  return [path, size, mtimeMs];
}
