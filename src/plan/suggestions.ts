/**
 * Other ways to serve the request: a smaller model for a simple task, drafts for answers that repeat their prompts, a
 * larger budget.
 */
import { totalParameters } from "../model/description/sizes.js";
import { KNOWN_MODELS } from "./data/models.js";
import type { Quantization } from "./data/quantizations.js";
import { plannedModelOf } from "./known-model.js";
import type { PlannedModel } from "./planned-model.js";
import type { Configuration, PlanRequest } from "./request.js";
import { DECODE, type PlannedInstance, stepTime } from "./step-time.js";

/** Most size of a smaller model, as a share of the model's, for a simple task. */
const SMALLER = 1 / 4;

export function smallerOf(model: PlannedModel): PlannedModel | undefined {
  const most = totalParameters(model) * SMALLER;
  return KNOWN_MODELS.map(plannedModelOf)
    .filter((each) => each.family === model.family && totalParameters(each) <= most)
    .toSorted((a, b) => totalParameters(b) - totalParameters(a))[0];
}

type InstanceFor = (request: PlanRequest, quantization: Quantization, width: number) => PlannedInstance;

export function suggestionsFor(request: PlanRequest, best: Configuration, instanceFor: InstanceFor): readonly string[] {
  const { model, isSimpleTask, inputTokens } = request;
  if (!isSimpleTask) return [];
  const smaller = model.stored === undefined ? smallerOf(model) : undefined;
  if (smaller === undefined) return ["no smaller model of the family is known here for the simple task"];
  const work = { ...DECODE, numDecoding: 1, context: inputTokens };
  const alone = (of: PlannedModel): number =>
    stepTime(instanceFor({ ...request, model: of }, best.quantization, 1), work).totalSeconds;
  const times = (alone(model) / alone(smaller)).toFixed(1);
  return [
    `for a simple task try ${smaller.name} first: a token takes it ${times} times less on one device; judge it on your own prompts (millrace eval), or train it to the task (millrace distill)`,
  ];
}
