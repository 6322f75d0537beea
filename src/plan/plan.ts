/**
 * From a request to ranked configurations: the rules list candidates, the speed model judges them, and the objective
 * orders them.
 */
import { MillraceError } from "../core/errors.js";
import { formatUsd } from "../core/quantities.js";
import type { Context } from "./beside.js";
import type { PlannedEngine } from "./data/engines.js";
import { renderOptions } from "./engine-options.js";
import { type Evaluation, evaluate, settle } from "./evaluate.js";
import { ALLOW_PUBLISHED, HOW_TO_MEASURE, kvGrade, weightsGrade } from "./evidence.js";
import { explain } from "./explain.js";
import { instanceFor, instanceOf, missingSentence, nearestFits } from "./fitting.js";
import { headsFor } from "./heads.js";
import { hostSharings, hostThatFits } from "./host-experts.js";
import { sharingsOf } from "./layouts.js";
import { longestSequence } from "./longest-sequence.js";
import { lookupsOf } from "./lookups.js";
import { type Drafting, eagle3Drafting } from "./predict.js";
import { ranked } from "./ranking.js";
import type { Configuration, Plan, PlanRequest, Refusal } from "./request.js";
import {
  allowedKvTypes,
  chooseEngine,
  kvRefusals,
  type WeightChoice,
  weightChoices,
  withEngineBytes,
} from "./rules.js";
import { withoutIdleSacrifices } from "./sacrifices.js";
import { devicesOf, type Sharing, sharingOf } from "./sharing.js";
import { splitsOf } from "./splits.js";
import type { PlannedInstance } from "./step-time.js";
import { suggestionsFor } from "./suggestions.js";

/** Most configurations that a plan lists. */
const MOST_CONFIGURATIONS = 24;

/** Length in tokens of a sequence that must fit: the requested length, or twice the mean request in steps of 1024. */
export function requiredLengthOf({ model, inputTokens, outputTokens, maxModelLen }: PlanRequest): number {
  const needed = inputTokens + outputTokens;
  const longest = maxModelLen ?? Math.min(model.contextLength, Math.ceil((2 * needed) / 1024) * 1024);
  if (longest > model.contextLength) {
    throw lengthError(
      `expected --max-model-len of at most ${model.contextLength}, got ${longest}`,
      "the model was trained for no more",
    );
  }
  if (needed <= longest) return longest;
  const message = `expected prompt and answer within ${longest} tokens, got ${inputTokens} + ${outputTokens}`;
  throw lengthError(message, maxModelLen === undefined ? "the model was trained for no more" : "raise --max-model-len");
}

const lengthError = (message: string, hint: string): MillraceError =>
  new MillraceError("invalid_option", message, { hint });

/** Instance counts to try. More instances than requests would leave some idle. */
function instanceCounts({ machine, load }: PlanRequest, sharing: Sharing): readonly number[] {
  const { pipelineParallel = 1 } = sharing;
  const mostInstances = pipelineParallel > 1 ? 1 : Math.floor(machine.count / devicesOf(sharing));
  const most = "concurrency" in load ? Math.min(mostInstances, load.concurrency) : mostInstances;
  return Array.from({ length: most }, (_, i) => i + 1);
}

/** With and without drafts, where the engine takes drafts and a drafter is known. */
export function draftings(
  { model, machine }: PlanRequest,
  engine: PlannedEngine,
  instance: PlannedInstance,
): (Drafting | undefined)[] {
  const canDraft = machine.kind === "gpu" && headsFor(model, engine) !== undefined;
  return canDraft ? [undefined, eagle3Drafting(instance)] : [undefined];
}

/**
 * Evaluates one weight type with every way to share the GPUs, number of instances and KV type, with and without drafts.
 * @param hosts that an instance spans
 */
function evaluateWeights(
  request: PlanRequest,
  { quantization }: WeightChoice,
  required: number,
  hosts: number,
): Evaluation[] {
  const { engine } = chooseEngine(request);
  const layouts = sharingsOf(request, engine, quantization, hosts);
  return allowedKvTypes(request, engine).flatMap((kv) =>
    [...layouts, ...(hosts === 1 ? hostSharings(request, engine, quantization, kv, required) : [])].flatMap((sharing) =>
      draftings(request, engine, instanceOf(request, { quantization, kv, ...sharing })).flatMap((drafting) =>
        instanceCounts(request, sharing).flatMap((instances) => {
          const candidate = { engine, quantization, kv, ...sharing, instances, drafting };
          return evaluate(request, candidate, required) ?? [];
        }),
      ),
    ),
  );
}

/** Uses the fewest hosts that hold the model: several instances on one host are simpler than one on several. */
function evaluateAll(request: PlanRequest, choices: readonly WeightChoice[], required: number): Evaluation[][] {
  for (let hosts = 1; ; hosts++) {
    const found = choices.map((weights) => evaluateWeights(request, weights, required, hosts));
    if (hosts >= (request.hosts ?? 1) || found.some((each) => each.length > 0)) return found;
  }
}

function configurationOf(context: Context, evaluation: Evaluation): Configuration {
  const { request, required } = context;
  const settled = settle(request, evaluation);
  const { engine, quantization, kv, instances, drafting, memory, seats } = settled;
  const { sustainableConcurrency, prediction, cost, misses } = settled;
  const longest = longestSequence(request, settled, required);
  const lookups = lookupsOf(request, settled);
  return {
    engine,
    quantization,
    kv,
    ...sharingOf(settled),
    instances,
    drafting,
    lookups: lookups === undefined || lookups.mostSequences === 0 ? undefined : lookups,
    memory,
    seats,
    sustainableConcurrency,
    prediction,
    cost,
    misses,
    meetsSlo: misses.length === 0,
    choices: explain(context, settled, { longest, lookups }),
    grades: { weights: weightsGrade(request.model, quantization), kv: kvGrade(kv.id, engine) },
    ...renderOptions(request, settled, { required, longest: longest.numTokens, lookups }),
  };
}

export function makePlan(asked: PlanRequest): Plan {
  const request = withEngineBytes(asked);
  const required = requiredLengthOf(request);
  const { choices, refusals } = weightChoices(request, required);
  if (choices.length === 0) throw noWeights(request, refusals);
  const evaluated = evaluateAll(request, choices, required);
  const missing = choices
    .filter((_, i) => evaluated[i]!.length === 0)
    .map(({ quantization }) => ({
      what: quantization.label,
      because: missingSentence(request, quantization, required),
    }));
  const search = withoutIdleSacrifices(request, evaluated.flat());
  const all = ranked(request, search.kept);
  const weights = new Map(choices.map(({ quantization, because }) => [quantization.label, because]));
  const left = [...kvRefusals(request, chooseEngine(request).engine), ...search.refusals];
  const context: Context = { request, required, all, refusals: left, weights };
  const configurations = all.slice(0, MOST_CONFIGURATIONS).map((each) => configurationOf(context, each));
  return {
    request,
    requiredLength: required,
    configurations,
    refusals: [...refusals, ...missing, ...left],
    nearest: configurations.length > 0 ? [] : nearest(request, required),
    suggestions: configurations.length > 0 ? suggestionsFor(request, configurations[0]!, instanceFor) : [],
    splits: configurations.length > 0 ? splitsOf(request, configurations[0]!, required) : [],
  };
}

function nearest(request: PlanRequest, required: number): readonly string[] {
  const host = hostThatFits(request, required);
  const found = nearestFits(request, required);
  return host.length > 0 && found.length === 1 && found[0]!.startsWith("no machine") ? host : [...host, ...found];
}

/** The same plan with one more suggestion: the gain from compression for which only published figures speak. */
export function withUnasked(plan: Plan): Plan {
  const { request, configurations, suggestions } = plan;
  const [best] = configurations;
  if (best === undefined || request.allowsPublished === true) return plan;
  const [other] = makePlan({ ...request, allowsPublished: true }).configurations;
  if (other === undefined || !isOnPublished(other)) return plan;
  const of = ({ prediction, cost }: Configuration): string =>
    `${Math.round(prediction.outputTokensPerS).toLocaleString("en-US")} tokens/s at ${formatUsd(cost.usdPerMillionOutput)} a million`;
  const types = `${other.quantization.label}${other.kv.id === "16" ? "" : ` with keys and values in ${other.kv.label}`}`;
  const gain = `${ALLOW_PUBLISHED} would choose ${types}: ${of(other)}, against ${of(best)}. Published figures alone speak for it; ${HOW_TO_MEASURE}`;
  return { ...plan, suggestions: [...suggestions, gain] };
}

/** Whether the configuration needs permission to rely on published figures alone. */
export const isOnPublished = ({ grades }: Configuration): boolean => Object.values(grades).includes("published");

function noWeights({ machine, quantization, model }: PlanRequest, refusals: readonly Refusal[]): MillraceError {
  const message =
    quantization === undefined
      ? `expected a weight type that the rules may choose, got none: ${refusals.map(({ what, because }) => `${what}: ${because}`).join("; ")}`
      : `expected a --quantization that ${machine.device.label} has for ${model.name}, got ${quantization}`;
  const hint =
    quantization === undefined
      ? `${ALLOW_PUBLISHED} and a lower --min-quality allow more; or give a file of the model, which is planned as it is`
      : "leave the flag out to see what there is";
  return new MillraceError("invalid_option", message, { hint });
}
