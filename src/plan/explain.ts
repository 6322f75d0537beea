/**
 * Reasons for a configuration: each choice beside the best configuration with another choice, in figures of this plan.
 */

import { batchedTokensRule } from "../core/batched-tokens.js";
import { formatBytes } from "../core/quantities.js";
import { isRecurrent, kvBytes, stateBytes } from "../model/description/sizes.js";
import { attentionOf } from "./attention.js";
import { beside, type Context, type Reason } from "./beside.js";
import { ENGINE_SPEED, SPECULATION } from "./data/constants.js";
import type { PlannedEngine } from "./data/engines.js";
import { type Evaluation, hasTargets, MOST_STRETCH, mixedStepMs, type Settled, takesOwnStep } from "./evaluate.js";
import { kvEvidenceText } from "./evidence.js";
import { sharingChoices } from "./explain-sharing.js";
import { headsFor } from "./heads.js";
import { type LongestSequence, lengthChoice } from "./longest-sequence.js";
import { CHUNKS } from "./memory.js";
import { parserChoices } from "./parsers.js";
import type { PlannedModel } from "./planned-model.js";
import { expectedTokens } from "./predict.js";
import type { Choice, Lookups, PlanRequest } from "./request.js";
import { chooseEngine, kvTypesOf } from "./rules.js";

/** The reason for which a rule left out the combination `what`; undefined: no rule did. */
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
  const state = stateBytes(instance.model);
  const states = state === 0 ? "" : ` and ${formatBytes(state)} of recurrent state for each sequence`;
  const perToken = `${(kvBytes(instance.model, kv.vectorBytes, 1) / 1024).toFixed(0)} KiB a token${states}`;
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

const NO_HEADS = "no heads for this model are known here";
const WITHOUT_SAMPLING = "beside drafts vLLM answers 400 to min_p and logit_bias";

/**
 * Text about drafts of heads: their gain depends on the text, and vLLM offers fewer sampling parameters with any
 * drafts.
 */
function headsText({ model }: PlanRequest, { engine }: Evaluation): string {
  const tokens = model.eagle3?.trainedTokens;
  return [
    ...(tokens === undefined ? [] : [`they were trained on ${tokens} tokens, and fewer are right behind longer texts`]),
    ...(engine === "vllm" ? [WITHOUT_SAMPLING] : []),
  ]
    .map((text) => `; ${text}`)
    .join("");
}

function lookupChoice({ depth, mostSequences, isBounded, stretchOfOne }: Lookups): Omit<Choice, "about"> {
  if (mostSequences === 0) {
    const times = stretchOfOne.toFixed(2);
    const because = `${NO_HEADS}, and prompt lookup is not free: the rows of ${depth} drafts make a step of one sequence ${times} times as long; try it (method ngram) where answers repeat the prompt so often that a step brings more than ${times} tokens`;
    return { choice: "off", because };
  }
  const rows = "the rows of wrong drafts make a step at most a tenth longer";
  const cost = isBounded
    ? `Up to ${mostSequences} at once ${rows}; with more, none are drafted`
    : `At any load ${rows}`;
  const because = `${NO_HEADS}; lookups draft from the request's own text, so that answers which repeat it gain (edits, quotes, code). ${cost}. Not counted in the prediction: measure it on your own requests; ${WITHOUT_SAMPLING}`;
  return { choice: `prompt lookup, ${depth} drafts${isBounded ? ` for up to ${mostSequences} at once` : ""}`, because };
}

function whyNoDrafts({ model, machine }: PlanRequest, engine: PlannedEngine): string {
  if (machine.kind === "cpu") return `none are planned for ${engine} here`;
  if (headsFor(model, engine) !== undefined) return "the drafter does not fit beside the model";
  // SGLang's lookups share one table among all requests.
  if (engine === "sglang") return `${NO_HEADS}, and lookups of sglang draft from the requests of all tenants`;
  return `none are planned for ${engine} here`;
}

function draftChoice(context: Context, mine: Evaluation, lookups: Lookups | undefined): Choice {
  const { drafting, engine } = mine;
  const { request } = context;
  const about = "speculation";
  if (engine === "millrace") {
    const because = "lossless, and switched off wherever it does not pay; not counted in the prediction";
    return { about, choice: "auto", because };
  }
  if (drafting !== undefined) {
    const reason = beside(context, mine, (other) => other.drafting === undefined);
    const { value, source } = SPECULATION.eagle3Acceptance;
    const expected = `${expectedTokens(drafting).toFixed(1)} tokens a step are expected at an acceptance of ${value} (${source})${headsText(request, mine)}`;
    const because = reason === undefined ? expected : `${reason.because}; ${expected}`;
    return { about, choice: `EAGLE-3, ${drafting.depth} drafts`, ...reason, because };
  }
  const reason = beside(context, mine, (other) => other.drafting !== undefined) ?? refused(context, "EAGLE-3 drafts");
  if (reason !== undefined) return { about, choice: "off", ...reason };
  if (lookups !== undefined) return { about, ...lookupChoice(lookups) };
  return { about, choice: "off", because: whyNoDrafts(request, engine) };
}

function sequencesChoice(request: PlanRequest, mine: Settled): Choice {
  const { maxNumSeqs, sustainableConcurrency, instances, seats, wantedSeats, dataParallel = 1 } = mine;
  const each = Math.floor(sustainableConcurrency / instances);
  const keep = hasTargets(request) ? `${each} keep the latency targets, ` : "";
  const why =
    maxNumSeqs === seats
      ? "as many as there is room for"
      : hasTargets(request) && each >= wantedSeats
        ? "no more than keep the targets, in eights"
        : `twice the load's ${wantedSeats} and 16 at least, for bursts`;
  const because = `${keep}${seats} have room, ${wantedSeats} are there at once: ${why}`;
  const groups =
    dataParallel === 1 ? "" : `, ${Math.ceil(maxNumSeqs / dataParallel)} in each of its ${dataParallel} groups`;
  return { about: "sequences at once", choice: `${maxNumSeqs} an instance${groups}`, because };
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

interface Derived {
  readonly longest: LongestSequence;
  readonly lookups: Lookups | undefined;
}

function prefixCaching(model: PlannedModel, prefixShare: number): Pick<Choice, "choice" | "because"> {
  if (isRecurrent(model)) {
    return {
      choice: "not counted on",
      because: "a hit needs the recurrent state at its very end, which is kept in few places",
    };
  }
  const because =
    prefixShare > 0
      ? `${Math.round(100 * prefixShare)} % of each prompt need not be computed again`
      : "nothing is said to be shared; vLLM's authors found it to cost under 1 % then";
  return { choice: "on", because };
}

export function explain(context: Context, mine: Settled, { longest, lookups }: Derived): readonly Choice[] {
  const { request } = context;
  const { prefixShare } = request;
  return [
    { about: "engine", choice: mine.engine, because: engineReason(request, mine) },
    { about: "attention", ...attentionOf(mine) },
    weightsChoice(context, mine),
    ...sharingChoices(context, mine),
    kvChoice(context, mine),
    { about: "prefix caching", ...prefixCaching(request.model, prefixShare) },
    draftChoice(context, mine, lookups),
    ...parserChoices(request.model, mine.engine),
    sequencesChoice(request, mine),
    lengthChoice(longest),
    { about: "tokens in a step", choice: String(mine.maxNumBatchedTokens), because: stepReason(request, mine) },
  ];
}
