/** Why a configuration is as it is: each choice beside the best that chooses otherwise, in figures of this plan. */

import { batchedTokensRule } from "../core/batched-tokens.js";
import { kvBytes } from "../model/description/sizes.js";
import { attentionOf } from "./attention.js";
import { against } from "./compare.js";
import { ENGINE_SPEED, SPECULATION } from "./data/constants.js";
import { isLlamaCpp } from "./data/engines.js";
import { type Evaluation, hasTargets, MOST_STRETCH, mixedStepMs, type Settled, takesOwnStep } from "./evaluate.js";
import { kvEvidenceText } from "./evidence.js";
import { missingAt } from "./fitting.js";
import { type LongestSequence, lengthChoice } from "./longest-sequence.js";
import { CHUNKS } from "./memory.js";
import { parserChoices } from "./parsers.js";
import { expectedTokens } from "./predict.js";
import type { Choice, PlanRequest, Refusal } from "./request.js";
import { chooseEngine, kvTypesOf, widthsOf } from "./rules.js";

export interface Context {
  readonly request: PlanRequest;
  /** Tokens of a sequence that must fit. */
  readonly required: number;
  /** All that may be chosen, best first. */
  readonly all: readonly Evaluation[];
  readonly refusals: readonly Refusal[];
  /** Purposes of weights, by their label. */
  readonly weights: ReadonlyMap<string, string>;
}

type Reason = Pick<Choice, "because" | "versus">;

/** Beside the best that differs in the way asked about; undefined: none does. */
function beside(
  { request, all }: Context,
  mine: Evaluation,
  isOther: (other: Evaluation) => boolean,
): Reason | undefined {
  const other = all.find(isOther);
  if (other === undefined) return undefined;
  const { text, versus } = against(request, mine, other);
  return { because: text, versus };
}

/** Combinations that a rule has left out. */
function refused({ refusals }: Context, what: string): Reason | undefined {
  const found = refusals.find((refusal) => refusal.what === what);
  return found === undefined ? undefined : { because: `${what}: ${found.because}`, versus: found.versus };
}

function weightsChoice(context: Context, mine: Evaluation): Choice {
  const { quantization } = mine;
  const about = { about: "weights", choice: quantization.label };
  const rule = context.weights.get(quantization.label) ?? "";
  const reason = beside(context, mine, (other) => other.quantization.id !== quantization.id);
  if (reason === undefined) return { ...about, because: rule };
  return { ...about, ...reason, because: `${reason.because}. ${rule}` };
}

function kvChoice(context: Context, mine: Evaluation): Choice {
  const { kv, instance, seats, wantedSeats, engine } = mine;
  const perToken = `${(kvBytes(instance.model, kv.vectorBytes, 1) / 1024).toFixed(0)} KiB a token`;
  const about = { about: "KV memory", choice: `${kv.label}, ${perToken}` };
  const said = kvEvidenceText(kv, engine);
  const evidence = said === "" ? "" : `. ${said}`;
  const narrower = kvTypesOf(context.request.machine, engine).find(({ id }) => id !== "16");
  const reason =
    beside(context, mine, (other) => other.kv.id !== kv.id) ??
    (narrower === undefined
      ? {
          because: `${engine} has no narrower type on this device: ${seats} sequences fit, ${wantedSeats} are there at once`,
        }
      : (refused(context, `keys and values in ${narrower.label}`) ?? { because: "in 16 bits no sequence fits" }));
  return { ...about, ...reason, because: `${reason.because}${evidence}` };
}

/** As narrow as wins: beside the best of other widths, or the arithmetic of those that do not hold the model. */
function widthChoice(context: Context, mine: Evaluation): Choice {
  const { request, required } = context;
  const { machine, model } = request;
  if (machine.kind === "cpu") {
    const because =
      machine.count > 1
        ? "one instance a memory node: its cores read their own memory"
        : "one instance on all of them: they share the memory's bandwidth";
    return { about: "cores", choice: String(machine.device.numCores), because };
  }
  const about = { about: "GPUs an instance", choice: String(mine.tensorParallel) };
  const reason = beside(context, mine, (other) => other.tensorParallel !== mine.tensorParallel);
  if (reason !== undefined) return { ...about, ...reason };
  const widths = widthsOf(model, machine, mine.engine, mine.quantization);
  const narrower = widths.filter((width) => width < mine.tensorParallel).at(-1);
  if (narrower === undefined) {
    return {
      ...about,
      because: machine.count === 1 ? "there is one" : `${mine.engine} takes no other width of this model`,
    };
  }
  return {
    ...about,
    because: `below it there is no room: ${missingAt(request, mine.quantization, required, narrower)}`,
  };
}

function instancesChoice(context: Context, mine: Evaluation): Choice {
  const { machine } = context.request;
  const { instances, tensorParallel } = mine;
  const about = { about: "instances", choice: String(instances) };
  const isOther = (other: Evaluation) => other.tensorParallel === tensorParallel && other.instances !== instances;
  const reason = beside(context, mine, isOther);
  const used = instances * tensorParallel;
  const left = used < machine.count ? `${used} of ${machine.count} GPUs are used; ` : "";
  if (reason !== undefined) return { ...about, ...reason, because: `${left}${reason.because}` };
  return { ...about, because: `${left}there is room for one of this width` };
}

function draftChoice(context: Context, mine: Evaluation): Choice {
  const { drafting, engine } = mine;
  const { model, machine } = context.request;
  const about = "speculation";
  if (engine === "millrace") {
    const because = "lossless, and switched off wherever it does not pay; not counted in the prediction";
    return { about, choice: "auto", because };
  }
  if (drafting !== undefined) {
    const reason = beside(context, mine, (other) => other.drafting === undefined);
    const { value, source } = SPECULATION.eagle3Acceptance;
    const expected = `${expectedTokens(drafting).toFixed(1)} tokens a step are expected at an acceptance of ${value} (${source})`;
    const because = reason === undefined ? expected : `${reason.because}; ${expected}`;
    return { about, choice: `EAGLE-3, ${drafting.depth} drafts`, ...reason, because };
  }
  const reason = beside(context, mine, (other) => other.drafting !== undefined) ?? refused(context, "EAGLE-3 drafts");
  if (reason !== undefined) return { about, choice: "off", ...reason };
  const because =
    machine.kind === "cpu" || isLlamaCpp(engine)
      ? `none are planned for ${engine} here`
      : model.eagle3 === undefined
        ? "no drafter for this model is known here; prompt lookup (method ngram) costs nothing to try where answers repeat the prompt"
        : "the drafter does not fit beside the model";
  return { about, choice: "off", because };
}

function sequencesChoice(request: PlanRequest, mine: Settled): Choice {
  const { maxNumSeqs, sustainableConcurrency, instances, seats, wantedSeats } = mine;
  const each = Math.floor(sustainableConcurrency / instances);
  const keep = hasTargets(request) ? `${each} keep the latency targets, ` : "";
  const why =
    maxNumSeqs === seats
      ? "as many as there is room for"
      : hasTargets(request) && each >= wantedSeats
        ? "no more than keep the targets, in eights"
        : `twice the load's ${wantedSeats} and 16 at least, for bursts`;
  const because = `${keep}${seats} have room, ${wantedSeats} are there at once: ${why}`;
  return { about: "sequences at once", choice: `${maxNumSeqs} an instance`, because };
}

function stepReason(request: PlanRequest, mine: Settled): string {
  const { maxNumBatchedTokens, maxNumSeqs, instance, wantedSeats } = mine;
  const { machine, slo } = request;
  const chunks = CHUNKS[machine.kind];
  const [largest, smallest] = [chunks[0], chunks.at(-1)!];
  if (takesOwnStep(mine.engine, machine)) {
    return `${batchedTokensRule(`of ${maxNumSeqs} sequences`)}: the kernels are as fast per token in short chunks, and a short step is what everybody waits for`;
  }
  if (machine.kind === "cpu" && maxNumBatchedTokens === largest) return "a short step is what everybody waits for";
  if (maxNumBatchedTokens > largest) return `a row and a half-step's room for each of ${wantedSeats} sequences`;
  if (slo.tpotMs === undefined) {
    return maxNumBatchedTokens === largest
      ? "large chunks of prompts use the arithmetic best; no time per token is asked for"
      : "a larger step would leave no room for one sequence of the length that must fit";
  }
  const most = MOST_STRETCH * slo.tpotMs;
  const ms = mixedStepMs(instance, request, wantedSeats, maxNumBatchedTokens);
  const took = `a step with so many prompt tokens beside ${wantedSeats} sequences takes ${Math.round(ms)} ms`;
  if (ms <= most) return `${took}, at most ${MOST_STRETCH} times the ${slo.tpotMs} ms asked for`;
  return maxNumBatchedTokens === smallest
    ? `the smallest chunk: ${took}, over ${MOST_STRETCH} times the ${slo.tpotMs} ms asked for`
    : `${took}; the ${slo.tpotMs} ms asked for are missed without any prompt, and cutting prompts up would not help`;
}

function engineReason(request: PlanRequest, { engine, instance }: Settled): string {
  const { because } = chooseEngine(request);
  const { value, source } = ENGINE_SPEED[engine];
  return instance.machine.kind === "cpu" || value === 1
    ? because
    : `${because}; its steps are taken as ${value} times as fast as vLLM's (${source})`;
}

export function explain(context: Context, mine: Settled, longest: LongestSequence): readonly Choice[] {
  const { request } = context;
  const { prefixShare } = request;
  return [
    { about: "engine", choice: mine.engine, because: engineReason(request, mine) },
    { about: "attention", ...attentionOf(mine) },
    weightsChoice(context, mine),
    widthChoice(context, mine),
    instancesChoice(context, mine),
    kvChoice(context, mine),
    {
      about: "prefix caching",
      choice: "on",
      because:
        prefixShare > 0
          ? `${Math.round(100 * prefixShare)} % of each prompt need not be computed again`
          : "nothing is said to be shared; vLLM's authors found it to cost under 1 % then",
    },
    draftChoice(context, mine),
    ...parserChoices(request.model, mine.engine),
    sequencesChoice(request, mine),
    lengthChoice(longest),
    { about: "tokens in a step", choice: String(mine.maxNumBatchedTokens), because: stepReason(request, mine) },
  ];
}
