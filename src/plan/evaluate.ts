/** Judges one combination of choices: memory, seats, the speed under the load, the cost, and the missed targets. */

import { defaultBatchedTokens } from "../core/batched-tokens.js";
import { kvBytes, stateBytes } from "../model/description/sizes.js";
import { costOf } from "./cost.js";
import { isLlamaCpp, type PlannedEngine } from "./data/engines.js";
import { fits, instanceOf } from "./fitting.js";
import { CHUNKS, type MemoryDemand, type MemoryPlan, planMemory, seatsOf } from "./memory.js";
import { type InstanceTraffic, type Prediction, predict } from "./predict.js";
import type { Cost, PlanCandidate, PlanRequest } from "./request.js";
import { devicesOf } from "./sharing.js";
import { DECODE, type PlannedInstance, stepTime } from "./step-time.js";

export interface Evaluation extends PlanCandidate {
  readonly instance: PlannedInstance;
  readonly memory: MemoryPlan;
  /** Sequences of an instance for which memory and a step have room. */
  readonly seats: number;
  /** Tokens in a step of one group, where there are several. */
  readonly maxNumBatchedTokens: number;
  /** Concurrent requests of one instance under the load. */
  readonly wantedSeats: number;
  readonly prediction: Prediction;
  readonly cost: Cost;
  readonly misses: readonly string[];
}

/** An evaluation with its limit of sequences and its sustainable load. */
export interface Settled extends Evaluation {
  readonly maxNumSeqs: number;
  readonly sustainableConcurrency: number;
}

/** Most sequences of a batch that plans give an engine. */
const MOST_SEQUENCES = 1024;
/** A step with a whole chunk of a prompt may take this multiple of the target time per token. */
export const MOST_STRETCH = 4;
/** Without targets: spare seats for bursts, since unused KV memory is free. */
const [MOST_SEATS_FACTOR, LEAST_SEATS] = [2, 16];
/** Our engine's step is planned for at least this many sequences, if memory allows. */
const LEAST_OWN_SEATS = 64;
/** Rows of a step to reserve per sequence: its own, one for prompts, and one per drafted token. */
export const rowsEach = (draftDepth: number): number => 2 + draftDepth;

const roundUp = (value: number, step: number): number => Math.ceil(value / step) * step;

/** On CPUs, our engine has the step that it would take itself for its number of sequences (decision 46). */
export const takesOwnStep = (engine: PlannedEngine, { kind }: PlanRequest["machine"]): boolean =>
  engine === "millrace" && kind === "cpu";

function trafficOf(request: PlanRequest, instances: number): InstanceTraffic {
  const { inputTokens, outputTokens, prefixShare, load } = request;
  const each =
    "concurrency" in load
      ? { concurrency: Math.max(1, load.concurrency / instances) }
      : { requestsPerS: load.requestsPerS / instances };
  return { inputTokens, outputTokens, prefixHit: prefixShare, load: each };
}

/** Time of a step in which `numDecoding` sequences of a group decode beside `numPromptTokens` tokens of a prompt. */
export function mixedStepMs(
  instance: PlannedInstance,
  { inputTokens, outputTokens }: PlanRequest,
  numDecoding: number,
  numPromptTokens: number,
): number {
  const context = inputTokens + outputTokens / 2;
  return 1000 * stepTime(instance, { ...DECODE, numDecoding, context, numPromptTokens }).totalSeconds;
}

/** The largest chunk of a prompt that delays the other sequences' tokens by an acceptable time. */
function chunkFor(instance: PlannedInstance, request: PlanRequest, numDecoding: number): number {
  const chunks = CHUNKS[instance.machine.kind];
  const { tpotMs } = request.slo;
  if (tpotMs === undefined) return chunks[0];
  const isShort = (numPromptTokens: number): boolean =>
    mixedStepMs(instance, request, numDecoding, numPromptTokens) <= (numPromptTokens === 0 ? 1 : MOST_STRETCH) * tpotMs;
  // If decoding alone already misses the target, smaller chunks do not help.
  return isShort(0) ? (chunks.find(isShort) ?? chunks.at(-1)!) : chunks[0];
}

/**
 * Our engine's step for twice the sequences of the load and its bursts, or for the most that leave room for one
 * sequence of the required length.
 */
function ownDemandFor(instance: PlannedInstance, wanted: number, required: number): MemoryDemand | undefined {
  const most = Math.min(MOST_SEQUENCES, Math.max(2 * MOST_SEATS_FACTOR * wanted, LEAST_OWN_SEATS));
  for (let maxNumSeqs = most; maxNumSeqs >= 1; maxNumSeqs = Math.floor(maxNumSeqs / 2)) {
    const demand = { maxNumBatchedTokens: defaultBatchedTokens(maxNumSeqs), maxNumSeqs };
    if (fits(instance, required, demand)) return demand;
  }
  return undefined;
}

/**
 * The largest step, with as many of the wanted sequences, that leaves room for one sequence of the required length;
 * undefined: no step does.
 */
function demandFor(
  instance: PlannedInstance,
  request: PlanRequest,
  { engine, drafting }: PlanCandidate,
  wanted: number,
  required: number,
): MemoryDemand | undefined {
  if (takesOwnStep(engine, instance.machine)) return ownDemandFor(instance, wanted, required);
  const most = Math.min(MOST_SEQUENCES, wanted);
  const preferred = chunkFor(instance, request, most);
  const of = (chunk: number, maxNumSeqs: number): MemoryDemand => ({
    maxNumBatchedTokens: Math.max(chunk, maxNumSeqs * rowsEach(drafting?.depth ?? 0)),
    maxNumSeqs,
  });
  const chunks = CHUNKS[instance.machine.kind].filter((chunk) => chunk <= preferred);
  const demands = chunks.map((chunk) => of(chunk, most));
  for (let fewer = most; fewer > 1; ) {
    fewer = Math.floor(fewer / 2);
    demands.push(of(CHUNKS[instance.machine.kind].at(-1)!, fewer));
  }
  return demands.find((demand) => fits(instance, required, demand, drafting));
}

function missesOf({ slo }: PlanRequest, { ttftP95Ms, tpotMs, isSaturated }: Prediction): string[] {
  const of = (what: string, value: number, target: number | undefined): string[] =>
    target === undefined || value <= target
      ? []
      : [
          `${what} ${Number.isFinite(value) ? `${Math.round(value)} ms` : "grows without end"}, ${target} ms are asked for`,
        ];
  return [
    ...of("TTFT at the 95th percentile:", ttftP95Ms, slo.ttftMs),
    ...of("time per token:", tpotMs, slo.tpotMs),
    ...(isSaturated && !Number.isFinite(ttftP95Ms) ? ["more requests come than it can serve"] : []),
  ];
}

/** The parts of an evaluation that are known before its step. */
type Limited = Pick<Evaluation, "engine" | "drafting" | "instance" | "seats" | "maxNumBatchedTokens" | "wantedSeats">;

/** Concurrent requests in one instance at which the targets still hold. */
function sustainable({ engine, instance, drafting, ...limits }: Limited, request: PlanRequest): number {
  const isOwnStep = takesOwnStep(engine, instance.machine);
  const holds = (concurrency: number): boolean => {
    const traffic = { ...trafficOf(request, 1), load: { concurrency } };
    const step = isOwnStep ? { maxNumBatchedTokens: defaultBatchedTokens(concurrency) } : {};
    const prediction = predict(instance, traffic, { ...limits, ...step }, drafting);
    return !prediction.isSaturated && missesOf(request, prediction).length === 0;
  };
  let [low, high] = [0, limits.seats];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (holds(middle)) low = middle;
    else high = middle - 1;
  }
  return low;
}

export const hasTargets = ({ slo }: PlanRequest): boolean => slo.ttftMs !== undefined || slo.tpotMs !== undefined;

/**
 * `each`: the concurrent requests that an instance sustains within the targets. `maxNumSeqs`: as many sequences or,
 * without targets or where the load exceeds them, those of the load and spare ones.
 */
function sequencesFor(request: PlanRequest, limited: Limited): { readonly each: number; readonly maxNumSeqs: number } {
  const { wantedSeats: wanted, seats } = limited;
  const each = sustainable(limited, request);
  const most = hasTargets(request) && each >= wanted ? each : Math.max(MOST_SEATS_FACTOR * wanted, LEAST_SEATS);
  return { each, maxNumSeqs: Math.min(seats, roundUp(most, most < 8 ? 1 : 8)) };
}

/** Seats that the load needs in one instance; for a rate of requests, a quarter more than the mean. */
function wantedSeats(instance: PlannedInstance, request: PlanRequest, instances: number): number {
  const traffic = trafficOf(request, instances);
  if ("concurrency" in traffic.load) return Math.ceil(traffic.load.concurrency);
  const limits = { seats: MOST_SEQUENCES, maxNumBatchedTokens: CHUNKS[instance.machine.kind][0] };
  return Math.ceil(1.25 * predict(instance, traffic, limits).numDecoding) + 1;
}

/** @returns undefined where not one sequence of the required length fits */
export function evaluate(request: PlanRequest, candidate: PlanCandidate, required: number): Evaluation | undefined {
  const { inputTokens, outputTokens, prefixShare, machine, price } = request;
  const { engine, instances, drafting, dataParallel = 1 } = candidate;
  const instance = instanceOf(request, candidate);
  const wanted = wantedSeats(instance, request, instances);
  // Groups with their own requests have their own memory and steps.
  const demand = demandFor(instance, request, candidate, Math.ceil(wanted / dataParallel), required);
  if (demand === undefined) return undefined;
  const memory = planMemory(instance, demand, drafting);
  // llama-server divides its memory evenly among its slots, each at least of the required length, without sharing.
  const isDivided = isLlamaCpp(engine);
  const [perSeat, shared] = isDivided ? [required, 0] : [inputTokens + outputTokens, inputTokens * prefixShare];
  const isOwnStep = takesOwnStep(engine, machine);
  const rooms = isOwnStep ? demand.maxNumSeqs : Math.floor(demand.maxNumBatchedTokens / rowsEach(drafting?.depth ?? 0));
  const seatsOfOne = seatsOf(instance, memory, perSeat, shared, isOwnStep ? OWN_STATE_ROOM : 1);
  const seats = dataParallel * Math.min(MOST_SEQUENCES, rooms, seatsOfOne);
  const limited = {
    ...candidate,
    instance,
    seats,
    maxNumBatchedTokens: demand.maxNumBatchedTokens,
    wantedSeats: wanted,
  };
  const maxNumBatchedTokens = isOwnStep
    ? defaultBatchedTokens(sequencesFor(request, limited).maxNumSeqs)
    : demand.maxNumBatchedTokens;
  const own = predict(instance, trafficOf(request, instances), { seats, maxNumBatchedTokens }, drafting);
  // If there are more instances than requests, some are idle.
  const numBusy = "concurrency" in request.load ? Math.min(instances, request.load.concurrency) : instances;
  const prediction: Prediction = {
    ...own,
    requestsPerS: own.requestsPerS * numBusy,
    outputTokensPerS: own.outputTokensPerS * numBusy,
    numDecoding: own.numDecoding * numBusy,
  };
  const usdPerHour = price.usd * (machine.kind === "gpu" ? devicesOf(candidate) * instances : 1);
  return {
    ...limited,
    memory,
    maxNumBatchedTokens,
    prediction,
    cost: costOf(usdPerHour, prediction.outputTokensPerS, inputTokens / outputTokens),
    misses: missesOf(request, prediction),
  };
}

/** The embedded engine keeps states at the ends of prefixes beside those of its seats (`memoryForStates`). */
const OWN_STATE_ROOM = 2;

/** The limits that keep the targets, within the predicted load. */
export function settle(request: PlanRequest, evaluation: Evaluation): Settled {
  const { each, maxNumSeqs } = sequencesFor(request, evaluation);
  return { ...evaluation, maxNumSeqs, sustainableConcurrency: each * evaluation.instances };
}

/**
 * KV memory of one instance, for `--kv-cache-memory-bytes`: for all sequences of the required length and, beside them,
 * one of the longest.
 */
export function kvMemoryBytes({ instance, memory, maxNumSeqs }: Settled, required: number, longest: number): number {
  const of = (numTokens: number): number => kvBytes(instance.model, instance.kv.vectorBytes, numTokens);
  const free = memory.kvBytes - OWN_STATE_ROOM * maxNumSeqs * stateBytes(instance.model);
  return Math.floor(Math.min(free, of(required) * maxNumSeqs + of(longest)));
}
