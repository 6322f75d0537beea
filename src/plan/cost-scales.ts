/** The cost of a number of tokens a day, beside an engine without optimisations, and divided by its causes. */
import { HOURS_PER_MONTH, PEAK_FACTOR, paybackMonths } from "./cost.js";
import { DISTILLATION, FLEET } from "./data/constants.js";
import type { Machine } from "./data/device.js";
import { GPU_WATTS } from "./data/prices.js";
import { KV_TYPES, QUANTIZATIONS } from "./data/quantizations.js";
import { evaluate, settle } from "./evaluate.js";
import { instanceOf } from "./fitting.js";
import { capacityOf, heldBy } from "./load-curve.js";
import { makePlan, requiredLengthOf } from "./plan.js";
import { type Drafting, draftSeconds, expectedTokens } from "./predict.js";
import type { Configuration, PlanRequest } from "./request.js";
import { chooseEngine, widthsOf } from "./rules.js";
import { devicesOf } from "./sharing.js";
import { DECODE, type StepTime, stepTime } from "./step-time.js";
import { smallerOf } from "./suggestions.js";

/** Tokens a day, prompts and answers. */
const TOKEN_SCALES = [1e6, 1e8, 1e9];

interface Priced {
  readonly usdPerHour: number;
  readonly requestsPerS: number;
}

/** Shares of the cost, by cause. */
interface CostSplit {
  readonly arithmetic: number;
  readonly bandwidth: number;
  /** All-reduces and the host's share of a step. */
  readonly linksAndHost: number;
  /** Machines that are needed to hold the weights, beyond those for the busiest hour. */
  readonly capacity: number;
  /** Machines that the busiest hour needs and other hours leave idle. */
  readonly idle: number;
}

export interface TokenScale {
  readonly tokensPerDay: number;
  readonly numMachines: number;
  readonly usdPerMonth: number;
  readonly usdPerThousandRequests: number;
  readonly kilowatts: number;
  /**
   * 16 bits, one wide instance, no drafts, within the same targets, on the cheapest machine; undefined: no machine
   * qualifies.
   */
  readonly vanillaUsdPerMonth: number | undefined;
  readonly whyNoVanilla: string | undefined;
  readonly split: CostSplit;
  /** Saving by a smaller model of the family; undefined: no such model is known, or it saves nothing. */
  readonly distillation:
    | {
        readonly model: string;
        readonly savedPerMonth: number;
        readonly months: number;
        /** The saving repays the training soon enough. */
        readonly isWorthIt: boolean;
      }
    | undefined;
}

function kilowattsOf({ device, kind }: Machine, numDevices: number): number {
  return kind === "gpu" ? (GPU_WATTS[device.id]! * FLEET.hostWatts.value * numDevices) / 1000 : 0;
}

/** Dollars a month of the machines that the busiest hour needs. @param requestsPerS the mean */
const monthlyOf = ({ usdPerHour, requestsPerS: capacity }: Priced, requestsPerS: number): number =>
  machinesFor(requestsPerS, capacity) * usdPerHour * HOURS_PER_MONTH;

export const usdPerMonthOf = (request: PlanRequest, best: Configuration, requestsPerS: number): number =>
  monthlyOf(pricedOf(request, best), requestsPerS);

const pricedOf = (request: PlanRequest, best: Configuration): Priced => ({
  usdPerHour: best.cost.usdPerHour,
  requestsPerS: capacityOf(request, best).requestsPerS,
});

/**
 * The model in 16 bits as one instance: as wide as the machine, and as larger machines of the same GPUs.
 * @returns a text where none of them serves within the targets
 */
function vanillasOf(request: PlanRequest): readonly Priced[] | string {
  const { machine, model } = request;
  if (machine.kind === "cpu") return "not on CPUs";
  if (model.stored !== undefined || model.native !== undefined) return "not in 16 bits";
  const { engine } = chooseEngine(request);
  const plain = { engine, quantization: QUANTIZATIONS.bf16, kv: KV_TYPES["16"], instances: 1, drafting: undefined };
  const larger = [2, 4, 8].filter((each) => each > machine.count && each <= machine.device.maxPerNode);
  const fitting = [machine.count, ...larger].flatMap((count) => {
    const wider: PlanRequest = { ...request, machine: { ...machine, count } };
    const tensorParallel = widthsOf(model, wider.machine, engine, plain.quantization).at(-1)!;
    const found = evaluate(wider, { ...plain, tensorParallel }, requiredLengthOf(wider));
    return found === undefined ? [] : [settle(wider, found)];
  });
  const held = fitting.flatMap((settled) => {
    const prediction = heldBy(request, { ...settled, options: settled });
    return prediction === undefined ? [] : [{ ...prediction, usdPerHour: settled.cost.usdPerHour }];
  });
  return held.length > 0 ? held : fitting.length > 0 ? "misses targets" : "does not fit";
}

type Busy = Pick<CostSplit, "arithmetic" | "bandwidth" | "linksAndHost">;

/** Seconds of a step. Memory and arithmetic overlap: each gets its share of the time that both take together. */
function partsOf(step: StepTime, drafting: Drafting | undefined): Busy {
  const memory = step.weightSeconds + step.kvSeconds;
  const alone = step.allReduceSeconds + step.hostSeconds + step.overheadSeconds;
  const overlap = (step.totalSeconds - alone) / (memory + step.computeSeconds);
  const drafts = draftSeconds(step, drafting);
  return {
    arithmetic: step.computeSeconds * overlap,
    bandwidth: memory * overlap + drafts.bandwidth,
    linksAndHost: alone + drafts.host,
  };
}

/**
 * Seconds of a full instance's time for one request: its share of the decoding steps, some of which also compute its
 * prompt.
 */
export function busySeconds(request: PlanRequest, best: Configuration): Busy {
  const { inputTokens, outputTokens, prefixShare } = request;
  const { drafting, instances, options } = best;
  const instance = instanceOf(request, best);
  // Sequences of one group: all groups have as many.
  const numDecoding = Math.max(1, capacityOf(request, best).numDecoding / instances / (best.dataParallel ?? 1));
  const rowsEach = 1 + (drafting?.depth ?? 0);
  const decoding = { ...DECODE, numDecoding, rowsEach, context: inputTokens + outputTokens / 2 };
  const numSteps = outputTokens / numDecoding / (drafting === undefined ? 1 : expectedTokens(drafting));
  const numNew = Math.max(1, inputTokens * (1 - prefixShare));
  // A step has a part of a long prompt, or several short prompts if several arrive in each step.
  const most = Math.max(1, options.maxNumBatchedTokens - Math.ceil(numDecoding));
  const numPromptTokens = Math.min(most, numNew * Math.max(1, 1 / numSteps));
  const numPrompts = Math.max(1, numPromptTokens / numNew);
  const promptOffset = inputTokens - numNew / 2 - numPromptTokens / numPrompts / 2;
  const numPromptSteps = numNew / numPromptTokens;
  const decode = partsOf(stepTime(instance, decoding), drafting);
  const prompt = partsOf(stepTime(instance, { ...decoding, numPromptTokens, numPrompts, promptOffset }), drafting);
  const seconds = (part: keyof Busy): number =>
    prompt[part] * numPromptSteps + decode[part] * Math.max(0, numSteps - numPromptSteps);
  return { arithmetic: seconds("arithmetic"), bandwidth: seconds("bandwidth"), linksAndHost: seconds("linksAndHost") };
}

const machinesFor = (requestsPerS: number, capacity: number): number =>
  Math.max(1, Math.ceil((requestsPerS * PEAK_FACTOR) / capacity));

export function tokenScales(request: PlanRequest, best: Configuration): readonly TokenScale[] {
  const own = pricedOf(request, best);
  const kilowatts = kilowattsOf(request.machine, best.instances * devicesOf(best));
  const vanillas = vanillasOf(request);
  const smaller = request.model.stored === undefined ? smallerOf(request.model) : undefined;
  const student = smaller === undefined ? undefined : studentOf(request, smaller);
  const busy = busySeconds(request, best);
  const busyTotal = busy.arithmetic + busy.bandwidth + busy.linksAndHost;
  return TOKEN_SCALES.map((tokensPerDay) => {
    const requestsPerS = tokensPerDay / (request.inputTokens + request.outputTokens) / 86_400;
    const monthly = (priced: Priced): number => monthlyOf(priced, requestsPerS);
    const numMachines = machinesFor(requestsPerS, own.requestsPerS);
    const used = requestsPerS / (numMachines * own.requestsPerS);
    const idle = used * (PEAK_FACTOR - 1);
    const perSecond = used / busyTotal;
    const usdPerMonth = monthly(own);
    const savedPerMonth = student === undefined ? 0 : usdPerMonth - monthly(student);
    const months = paybackMonths(DISTILLATION.usd.value, savedPerMonth);
    return {
      tokensPerDay,
      numMachines,
      usdPerMonth,
      usdPerThousandRequests: (usdPerMonth / (requestsPerS * 3600 * HOURS_PER_MONTH)) * 1000,
      kilowatts: numMachines * kilowatts,
      vanillaUsdPerMonth: typeof vanillas === "string" ? undefined : Math.min(...vanillas.map(monthly)),
      whyNoVanilla: typeof vanillas === "string" ? vanillas : undefined,
      split: {
        arithmetic: busy.arithmetic * perSecond,
        bandwidth: busy.bandwidth * perSecond,
        linksAndHost: busy.linksAndHost * perSecond,
        capacity: Math.max(0, 1 - used - idle),
        idle,
      },
      distillation:
        smaller === undefined || months === undefined
          ? undefined
          : { model: smaller.name, savedPerMonth, months, isWorthIt: months <= DISTILLATION.mostMonths.value },
    };
  });
}

/** A smaller model on the fewest of the machine's GPUs that carry the load. */
function studentOf(request: PlanRequest, model: PlanRequest["model"]): Priced | undefined {
  const asked: PlanRequest = { ...request, model, objective: "cost", quantization: undefined, maxModelLen: undefined };
  const [best] = makePlan(asked).configurations;
  return best === undefined ? undefined : pricedOf(asked, best);
}
