/** One combination of choices, judged: memory, seats, the speed under the load, the cost, and which targets it misses. */
import { costOf } from "./cost.js";
import { instanceFor } from "./fitting.js";
import { type MemoryPlan, planMemory, seatsOf } from "./memory.js";
import { kvBytes } from "./model-shape.js";
import { type Drafting, type Limits, type Prediction, predict, type Traffic } from "./predict.js";
import type { Candidate, Cost, PlanRequest } from "./request.js";
import { DECODE, type Instance, kvBytesPerDevice, stepTime } from "./step-time.js";

export interface Evaluation extends Candidate {
  readonly instance: Instance;
  readonly memory: MemoryPlan;
  readonly seats: number;
  readonly maxNumSeqs: number;
  readonly maxNumBatchedTokens: number;
  readonly sustainableConcurrency: number;
  /** Requests of one instance that are there at once under the load. */
  readonly wantedSeats: number;
  readonly prediction: Prediction;
  readonly cost: Cost;
  readonly misses: readonly string[];
}

/** Sequences in a batch that engines are built for. */
const MOST_SEQUENCES = 1024;
/** A step with a whole chunk of a prompt may hold up the others for so many times the target. */
const MOST_STRETCH = 4;
/** Without targets, room for bursts: memory for what is not there costs nothing. */
const [MOST_SEATS_FACTOR, LEAST_SEATS] = [2, 16];
/** On CPUs the kernels are as fast in short chunks, and short steps are what everybody waits for (docs/decisions.md, 46). */
const CHUNKS = { gpu: [8192, 4096, 2048, 1024, 512], cpu: [128, 64] } as const;

function trafficOf(request: PlanRequest, instances: number): Traffic {
  const { inputTokens, outputTokens, prefixShare, load } = request;
  const each =
    "concurrency" in load
      ? { concurrency: Math.max(1, load.concurrency / instances) }
      : { requestsPerS: load.requestsPerS / instances };
  return { inputTokens, outputTokens, prefixHit: prefixShare, load: each };
}

/** The largest chunk of a prompt that does not hold up the others' tokens for too long. */
function chunkFor(instance: Instance, request: PlanRequest, numDecoding: number): number {
  const chunks = CHUNKS[instance.machine.kind];
  const { tpotMs } = request.slo;
  if (tpotMs === undefined) return chunks[0];
  const context = request.inputTokens + request.outputTokens / 2;
  const isShort = (numPromptTokens: number): boolean =>
    1000 * stepTime(instance, { ...DECODE, numDecoding, context, numPromptTokens }).totalSeconds <=
    (numPromptTokens === 0 ? 1 : MOST_STRETCH) * tpotMs;
  // A target that is missed without any prompt is no reason to cut prompts up.
  return isShort(0) ? (chunks.find(isShort) ?? chunks.at(-1)!) : chunks[0];
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

/** Requests at once in one instance at which the targets still hold. */
function sustainable(instance: Instance, request: PlanRequest, limits: Limits, drafting: Drafting | undefined): number {
  const holds = (concurrency: number): boolean => {
    const traffic = { ...trafficOf(request, 1), load: { concurrency } };
    const prediction = predict(instance, traffic, limits, drafting);
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

/** Seats that the load takes up in one instance, with a quarter to spare. */
function wantedSeats(instance: Instance, request: PlanRequest, instances: number): number {
  const traffic = trafficOf(request, instances);
  if ("concurrency" in traffic.load) return Math.ceil(traffic.load.concurrency);
  const limits = { seats: MOST_SEQUENCES, maxNumBatchedTokens: CHUNKS[instance.machine.kind][0] };
  return Math.ceil(1.25 * predict(instance, traffic, limits).numDecoding) + 1;
}

const roundUp = (value: number, step: number): number => Math.ceil(value / step) * step;

/** @returns undefined where not one longest sequence fits */
export function evaluate(request: PlanRequest, candidate: Candidate, maxModelLen: number): Evaluation | undefined {
  const { inputTokens, outputTokens, prefixShare, machine, price } = request;
  const { engine, quantization, kv, tensorParallel, instances, drafting } = candidate;
  const instance = { ...instanceFor(request, quantization, tensorParallel), kv };
  const wanted = wantedSeats(instance, request, instances);
  const numBatched = chunkFor(instance, request, wanted);
  const demand = { maxNumBatchedTokens: numBatched, maxNumSeqs: Math.min(MOST_SEQUENCES, wanted) };
  const memory = planMemory(instance, demand, drafting);
  // llama-server divides its memory among slots of the longest sequence, and shares nothing between them.
  const isDivided = engine === "llama-server";
  const [perSeat, shared] = isDivided ? [maxModelLen, 0] : [inputTokens + outputTokens, inputTokens * prefixShare];
  const seats = Math.min(MOST_SEQUENCES, seatsOf(instance, memory, perSeat, shared));
  if (memory.kvBytes < kvBytesPerDevice(instance, maxModelLen) || seats < 1) return undefined;
  const limits = { seats, maxNumBatchedTokens: numBatched };
  const own = predict(instance, trafficOf(request, instances), limits, drafting);
  // Of more instances than requests some stand idle.
  const numBusy = "concurrency" in request.load ? Math.min(instances, request.load.concurrency) : instances;
  const prediction: Prediction = {
    ...own,
    requestsPerS: own.requestsPerS * numBusy,
    outputTokensPerS: own.outputTokensPerS * numBusy,
    numDecoding: own.numDecoding * numBusy,
  };
  const each = sustainable(instance, request, limits, drafting);
  const hasTargets = request.slo.ttftMs !== undefined || request.slo.tpotMs !== undefined;
  const most = hasTargets && each >= wanted ? each : Math.max(MOST_SEATS_FACTOR * wanted, LEAST_SEATS);
  const maxNumSeqs = Math.min(seats, roundUp(most, most < 8 ? 1 : 8));
  const usdPerHour = price.usd * (machine.kind === "gpu" ? tensorParallel * instances : 1);
  return {
    ...candidate,
    ...{ instance, memory, seats, prediction, wantedSeats: wanted },
    maxNumSeqs,
    // Engines want room for a row of everybody, and drafts want theirs.
    maxNumBatchedTokens: Math.max(numBatched, maxNumSeqs * (2 + (drafting?.depth ?? 0))),
    sustainableConcurrency: each * instances,
    cost: costOf(usdPerHour, prediction.outputTokensPerS, inputTokens / outputTokens),
    misses: missesOf(request, prediction),
  };
}

/** Of one instance, for `--kv-cache-memory-bytes`. */
export function kvMemoryBytes({ instance, memory, maxNumSeqs }: Evaluation, numTokens: number): number {
  const needed = kvBytes(instance.model, instance.kv, numTokens) * (maxNumSeqs + 1);
  return Math.floor(Math.min(memory.kvBytes, needed));
}
