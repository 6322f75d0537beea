/**
 * Predicts an instance under a load: time to first token, time per token, throughput. Pure functions over
 * `step-time.ts`.
 */

import { isRecurrent, tableParameters } from "../model/description/sizes.js";
import { SPECULATION } from "./data/constants.js";
import { DECODE, type PlannedInstance, type StepTime, type StepWork, stepTime } from "./step-time.js";

/** Traffic of one instance: a constant number of concurrent requests, or a rate of requests per second. */
export interface InstanceTraffic {
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Share of prompt tokens that come from the prefix cache. */
  readonly prefixHit: number;
  readonly load: { readonly concurrency: number } | { readonly requestsPerS: number };
}

export interface Drafting {
  /** Tokens drafted per step. */
  readonly depth: number;
  /** Probability that a drafted token is right if the tokens before it are. */
  readonly acceptance: number;
  /** Time of a drafted token, as a share of the time to read the model's weights. */
  readonly weightShare: number;
  readonly weightBytes: number;
}

interface Limits {
  /** Most sequences at once. */
  readonly seats: number;
  readonly maxNumBatchedTokens: number;
}

export interface Prediction {
  /** Time to the first token in ms: the mean, and the 95th percentile. */
  readonly ttftMs: number;
  readonly ttftP95Ms: number;
  /** Mean time between two tokens of one user in ms, including delays by other prompts. */
  readonly tpotMs: number;
  readonly requestsPerS: number;
  readonly outputTokensPerS: number;
  readonly tokensPerSPerUser: number;
  /** Sequences that decode at once, on average. */
  readonly numDecoding: number;
  /** Requests come faster than the instance serves them, so the rest waits. */
  readonly isSaturated: boolean;
  readonly bound: "memory" | "arithmetic";
  /** Tokens per step and sequence: 1, or more with drafts. */
  readonly tokensPerStep: number;
}

/** Mean tokens of a step that drafts `depth` tokens: the accepted ones and the model's own. */
export function expectedTokens({ depth, acceptance }: Drafting): number {
  return acceptance === 1 ? depth + 1 : (1 - acceptance ** (depth + 1)) / (1 - acceptance);
}

/** EAGLE-3: each drafted token reads one layer and a reduced output matrix. */
export function eagle3Drafting({ model }: PlannedInstance): Drafting {
  const { eagle3Acceptance, eagle3Depth, eagle3LayerShare, eagle3VocabShare } = SPECULATION;
  const heads = eagle3VocabShare.value * tableParameters(model);
  const layer = (model.width * model.width * 12 + heads) * eagle3LayerShare.value;
  const whole = model.layers.length * model.width * model.width * 12 + tableParameters(model);
  return {
    depth: eagle3Depth.value,
    acceptance: eagle3Acceptance.value,
    weightShare: layer / whole,
    weightBytes: 2 * layer,
  };
}

/** Seconds that drafting adds to a step: reading the drafter, and starting it. */
export function draftSeconds(
  { weightSeconds, overheadSeconds }: StepTime,
  drafting: Drafting | undefined,
): { readonly bandwidth: number; readonly host: number } {
  const { depth, weightShare } = drafting ?? { depth: 0, weightShare: 0 };
  return { bandwidth: depth * weightShare * weightSeconds, host: (depth * overheadSeconds) / 4 };
}

interface Times {
  /** Seconds of a step without prompts. */
  readonly decode: number;
  /** Seconds that a prompt adds to its steps. */
  readonly prefillExtra: number;
  /** Seconds from the start of a prompt's first step to the end of its last. */
  readonly prefill: number;
  readonly bound: "memory" | "arithmetic";
}

/**
 * Seconds and number of the steps that compute a prompt; the number is below one where several prompts share a step.
 */
function promptSteps(
  instance: PlannedInstance,
  base: StepWork,
  { inputTokens, prefixHit }: InstanceTraffic,
  { maxNumBatchedTokens }: Limits,
  arrivals: number,
): { readonly seconds: number; readonly stepsEach: number } {
  const cached = isRecurrent(instance.model) ? 0 : Math.min(inputTokens - 1, Math.floor(inputTokens * prefixHit));
  const numNew = inputTokens - cached;
  const chunk = Math.max(1, maxNumBatchedTokens - Math.ceil(base.numDecoding));
  if (numNew <= chunk) {
    const together = Math.min(Math.max(1, arrivals), chunk / numNew);
    const numPromptGroups = promptGroups(instance, arrivals / together);
    const work = {
      ...base,
      numPromptTokens: together * numNew,
      promptOffset: cached,
      numPrompts: together,
      numPromptGroups,
    };
    return { seconds: stepTime(instance, work).totalSeconds, stepsEach: 1 / together };
  }
  let seconds = 0;
  const stepsEach = Math.ceil(numNew / chunk);
  const numPromptGroups = promptGroups(instance, arrivals * stepsEach);
  for (let done = cached; done < inputTokens; done += chunk) {
    const numPromptTokens = Math.min(chunk, inputTokens - done);
    seconds += stepTime(instance, { ...base, numPromptTokens, promptOffset: done, numPromptGroups }).totalSeconds;
  }
  return { seconds, stepsEach };
}

/**
 * Expected number of groups with a prompt, in a step in which this group has one. @param share of a group's steps that
 * have one
 */
function promptGroups({ busyGroups = 1 }: PlannedInstance, share: number): number {
  return 1 + (busyGroups - 1) * Math.min(1, share);
}

/**
 * Steps that a prompt of any group delays, as a multiple of those with a prompt of one: groups that share experts wait
 * for the slowest group in every step.
 */
function heldUp({ busyGroups = 1 }: PlannedInstance, share: number): number {
  if (busyGroups <= 1) return 1;
  const own = Math.min(1, share);
  return own < 1e-9 ? busyGroups : (1 - (1 - own) ** busyGroups) / own;
}

/** Work of a step without prompts. */
function decodeWork(
  { inputTokens, outputTokens }: InstanceTraffic,
  drafting: Drafting | undefined,
  numDecoding: number,
): StepWork {
  const context = inputTokens + outputTokens / 2;
  const { numPromptTokens, numPrompts, promptOffset } = DECODE;
  // Copies field by field: plans call this a hundred thousand times, and a spread takes longer than the arithmetic.
  return { numDecoding, context, rowsEach: 1 + (drafting?.depth ?? 0), numPromptTokens, numPrompts, promptOffset };
}

/** Sequences that end in each step; as many prompts arrive. */
function arrivalsPerStep({ outputTokens }: InstanceTraffic, drafting: Drafting | undefined, numDecoding: number) {
  const tokensPerStep = drafting === undefined ? 1 : expectedTokens(drafting);
  return (numDecoding * tokensPerStep) / Math.max(1, outputTokens - 1);
}

function timesAt(
  instance: PlannedInstance,
  traffic: InstanceTraffic,
  limits: Limits,
  drafting: Drafting | undefined,
  numDecoding: number,
): Times {
  const base = decodeWork(traffic, drafting, numDecoding);
  // At least one sequence: a decoding sequence decodes in whole steps.
  const step = stepTime(instance, { ...base, numDecoding: Math.max(1, numDecoding) });
  const drafts = draftSeconds(step, drafting);
  const decode = step.totalSeconds + drafts.bandwidth + drafts.host;
  const idle = numDecoding === 0 ? 0 : numDecoding >= 1 ? step.totalSeconds : stepTime(instance, base).totalSeconds;
  const arrivals = arrivalsPerStep(traffic, drafting, numDecoding);
  const { seconds, stepsEach } = promptSteps(instance, base, traffic, limits, arrivals);
  // A step with a prompt also decodes, so its decoding time is not extra. Short answers cause more steps with prompts
  // than decoding steps.
  const shared = Math.min(stepsEach, arrivals === 0 ? stepsEach : 1 / arrivals);
  const ownExtra = Math.max(0, seconds * Math.min(1, stepsEach) - shared * idle);
  const prefillExtra = ownExtra * heldUp(instance, arrivals * stepsEach);
  return { decode, prefillExtra, prefill: seconds, bound: step.bound };
}

interface State extends Times {
  readonly requestsPerS: number;
  readonly decodeSeconds: number;
  readonly ttft: number;
  readonly ttftP95: number;
  /** Requests in the instance: decoding, or before their first token. */
  readonly inside: number;
}

/** @param population most concurrent requests; a request does not wait for itself */
function stateAt(
  instance: PlannedInstance,
  traffic: InstanceTraffic,
  limits: Limits,
  drafting: Drafting | undefined,
  numDecoding: number,
  population: number,
): State {
  const others = 1 - 1 / population;
  const times = timesAt(instance, traffic, limits, drafting, numDecoding);
  const beside = decodeWork(traffic, drafting, numDecoding * others);
  const arrivals = arrivalsPerStep(traffic, drafting, numDecoding * others);
  const ownPrefill = promptSteps(instance, beside, traffic, limits, arrivals).seconds;
  const perToken = times.decode / (drafting === undefined ? 1 : expectedTokens(drafting));
  // The first token comes with the prompt.
  const numTokens = Math.max(1, traffic.outputTokens - 1);
  const requestsPerS = numDecoding / (numTokens * perToken + numDecoding * others * times.prefillExtra);
  const busy = Math.min(0.999, requestsPerS * times.prefillExtra * others);
  const queue = (busy * times.prefill) / (2 * (1 - busy));
  const residual = (others * times.decode) / 2;
  const ttft = residual + queue + ownPrefill;
  // Waiting times fall off about exponentially: the share above t is busy · exp(−t · busy ÷ mean).
  const lateQueue = busy <= 0.05 ? queue : (queue / busy) * Math.log(busy / 0.05);
  const ttftP95 = 2 * residual + Math.max(queue, lateQueue) + ownPrefill;
  const inside = numDecoding + requestsPerS * ttft;
  const { decode, prefillExtra, prefill, bound } = times;
  const decodeSeconds = numDecoding / requestsPerS;
  return { decode, prefillExtra, prefill, bound, requestsPerS, decodeSeconds, ttft, ttftP95, inside };
}

/** The largest number in (0, limit] for which `isBelow` holds. */
function bisect(limit: number, isBelow: (value: number) => boolean): number {
  if (isBelow(limit)) return limit;
  let [low, high] = [0, limit];
  for (let round = 0; round < 26; round++) {
    const middle = (low + high) / 2;
    if (isBelow(middle)) low = middle;
    else high = middle;
  }
  return high;
}

/**
 * In a pipeline, each stage works on its own share of the sequences while the others work on theirs: the pipeline is as
 * fast as that many narrow instances, each with a share of the load and of the seats. A single request has the speed of
 * one. The same holds for groups that share experts, which step together.
 * @param limits seats of all stages and groups together, at least one; tokens in a step of each of them
 */
export function predict(
  instance: PlannedInstance,
  traffic: InstanceTraffic,
  limits: Limits,
  drafting?: Drafting,
): Prediction {
  const { pipelineParallel = 1, dataParallel = 1 } = instance;
  const parts = pipelineParallel * dataParallel;
  if (parts === 1) return predictStage(instance, traffic, limits, drafting);
  const { load } = traffic;
  const busy = "concurrency" in load ? Math.min(parts, Math.max(1, load.concurrency)) : parts;
  const each =
    "concurrency" in load ? { concurrency: load.concurrency / busy } : { requestsPerS: load.requestsPerS / busy };
  const seats = Math.max(1, Math.floor(limits.seats / (dataParallel === 1 ? busy : parts)));
  const part = dataParallel === 1 ? instance : { ...instance, busyGroups: Math.min(dataParallel, busy) };
  const own = predictStage(part, { ...traffic, load: each }, { ...limits, seats }, drafting);
  return {
    ...own,
    requestsPerS: own.requestsPerS * busy,
    outputTokensPerS: own.outputTokensPerS * busy,
    numDecoding: own.numDecoding * busy,
  };
}

function predictStage(
  instance: PlannedInstance,
  traffic: InstanceTraffic,
  limits: Limits,
  drafting?: Drafting,
): Prediction {
  const { load, outputTokens } = traffic;
  const isClosed = "concurrency" in load;
  const population = isClosed ? load.concurrency : Number.POSITIVE_INFINITY;
  const at = (numDecoding: number) =>
    stateAt(instance, traffic, limits, drafting, numDecoding, Math.max(1, population));
  const numDecoding = bisect(Math.min(limits.seats, population), (count) => {
    const state = at(count);
    return isClosed ? state.inside <= load.concurrency : state.requestsPerS <= load.requestsPerS;
  });
  const state = at(numDecoding);
  const isSaturated = isClosed
    ? load.concurrency > limits.seats && state.inside < load.concurrency
    : state.requestsPerS < load.requestsPerS * 0.999;
  // A request without a seat waits, by Little's law, as long as the requests before it take.
  const waiting = isSaturated
    ? isClosed
      ? (load.concurrency - state.inside) / state.requestsPerS
      : Number.POSITIVE_INFINITY
    : 0;
  const tpot = state.decodeSeconds / Math.max(1, outputTokens - 1);
  return {
    ttftMs: 1000 * (state.ttft + waiting),
    ttftP95Ms: 1000 * (state.ttftP95 + waiting),
    tpotMs: 1000 * tpot,
    requestsPerS: state.requestsPerS,
    outputTokensPerS: state.requestsPerS * outputTokens,
    tokensPerSPerUser: 1 / tpot,
    numDecoding,
    isSaturated,
    bound: state.bound,
    tokensPerStep: drafting === undefined ? 1 : expectedTokens(drafting),
  };
}
