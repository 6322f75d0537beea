/**
 * Techniques to try first for a model and its traffic. No trial runs: the plan with each technique is compared with the
 * plan without it, in the order of effort.
 */
import { formatUsd } from "../core/quantities.js";
import { apiPerMillionOutput } from "./cost.js";
import { API_PRICES } from "./data/prices.js";
import { KV_TYPES, QUANTIZATIONS, type QuantizationId } from "./data/quantizations.js";
import { type Evaluation, evaluate } from "./evaluate.js";
import { ALLOW_PUBLISHED, weightsGrade } from "./evidence.js";
import { instanceFor } from "./fitting.js";
import { draftings, makePlan, requiredLengthOf } from "./plan.js";
import { ranked } from "./ranking.js";
import type { PlanCandidate, PlanRequest } from "./request.js";
import { chooseEngine, kvTypesOf, takesGguf, weightChoices, widthsOf } from "./rules.js";
import { smallerOf } from "./suggestions.js";

export const BOTTLENECKS = ["cost", "latency", "throughput", "quality"] as const;
export type Bottleneck = (typeof BOTTLENECKS)[number];

const EFFORTS = ["low", "medium", "high", "very high"] as const;

export interface Technique {
  readonly name: string;
  /**
   * Cost and time of a request, as shares of a request's without the technique; undefined: the technique is impossible
   * here.
   */
  readonly cost: number | undefined;
  readonly latency: number | undefined;
  readonly quality: string;
  readonly effort: (typeof EFFORTS)[number];
  /** Assumptions of the figures, or the reason why the technique is impossible. */
  readonly note: string;
}

export interface Advice {
  /**
   * The load of the figures: the requested load or, where its requests come too fast for the machine, the most requests
   * that the machine holds at once.
   */
  readonly load: PlanRequest["load"];
  readonly techniques: readonly Technique[];
  /** Names of the techniques, in the order to try them. */
  readonly order: readonly string[];
  readonly notTo: readonly string[];
}

/** Assumed: the middle of the reference guide's ranges, since only a product's logs have the true shares. */
const [SHORTER_PROMPT, REPEATED, SHARED_PROMPT] = [0.7, 0.3, 0.5];
/** A change smaller than this decides nothing. */
const WORTH = 0.95;

const millisecondsOf = ({ outputTokens }: PlanRequest, { prediction }: Pick<Evaluation, "prediction">): number =>
  prediction.ttftMs + prediction.tpotMs * outputTokens;

/** The best width and number of instances of a candidate on the whole machine. */
function bestOf(
  request: PlanRequest,
  types: Pick<PlanCandidate, "quantization" | "kv">,
  hasDrafts = false,
): Evaluation | undefined {
  const { machine, model } = request;
  const { engine } = chooseEngine(request);
  const found = widthsOf(model, machine, engine, types.quantization).flatMap((tensorParallel) => {
    const instance = instanceFor(request, types.quantization, tensorParallel);
    const drafting = hasDrafts ? draftings(request, engine, instance).at(-1) : undefined;
    const most = Math.floor(machine.count / tensorParallel);
    const instances = "concurrency" in request.load ? Math.min(most, request.load.concurrency) : most;
    return (
      evaluate(request, { engine, ...types, tensorParallel, instances, drafting }, requiredLengthOf(request)) ?? []
    );
  });
  return ranked(request, found)[0];
}

type Predicted = Pick<Evaluation, "cost" | "prediction">;

interface Beside {
  readonly before: Predicted;
  readonly after: Predicted | undefined;
  /** The changed request that `after` serves, if the technique changes it. */
  readonly request?: PlanRequest;
}

/** In proportion to the dollars of a request. */
const costPerRequest = ({ cost, prediction }: Predicted): number => cost.usdPerHour / prediction.requestsPerS;

/** Cost and time of a request, as shares of a request's without the technique. */
function shares(
  request: PlanRequest,
  { before, after, request: other = request }: Beside,
): Pick<Technique, "cost" | "latency"> {
  if (after === undefined) return { cost: undefined, latency: undefined };
  return {
    cost: costPerRequest(after) / costPerRequest(before),
    latency: millisecondsOf(other, after) / millisecondsOf(request, before),
  };
}

/** All weight types that plans of the model may have, also when the request asks for one type: advice only compares. */
const weightsFor = (request: PlanRequest) =>
  weightChoices({ ...request, quantization: undefined, allowsPublished: true }, requiredLengthOf(request));

/**
 * The best configuration with the widest weights. If they do not fit: with the plan's own weights, and then also with
 * its own KV type.
 */
function startOf(request: PlanRequest): Evaluation | undefined {
  const own = makePlan(request).configurations[0];
  if (own === undefined) return undefined;
  const [plain] = weightsFor(request).choices;
  const kv = KV_TYPES["16"];
  return (
    (plain && bestOf(request, { ...plain, kv })) ??
    bestOf(request, { quantization: own.quantization, kv }) ??
    bestOf(request, { quantization: own.quantization, kv: own.kv })
  );
}

function quantized(request: PlanRequest, before: Evaluation, id: QuantizationId): Beside & { readonly note: string } {
  const { model } = request;
  const { choices, refusals } = weightsFor(request);
  const choice = choices.find(({ quantization }) => quantization.id === id && id !== before.quantization.id);
  if (choice === undefined) {
    const isFixed = model.stored !== undefined || model.native !== undefined;
    const refused = refusals.find(({ what }) => what === QUANTIZATIONS[id].label)?.because;
    const note = refused ?? (isFixed ? "the weights are published so" : "what the others are compared with");
    return { before, after: undefined, note };
  }
  const after = bestOf(request, { ...choice, kv: before.kv });
  const isPublished = weightsGrade(model, choice.quantization) === "published";
  const alone = isPublished ? `; published figures alone speak for it (${ALLOW_PUBLISHED})` : "";
  return {
    before,
    after,
    note: after === undefined ? "it does not fit" : `beside ${before.quantization.label}${alone}`,
  };
}

function techniquesOf(asked: PlanRequest, before: Evaluation): readonly Technique[] {
  // Keeps the engine: a shared prefix may call for another one, whose gain would count as the technique's.
  const request: PlanRequest = { ...asked, engine: before.engine };
  const [eight, four] = takesGguf(request)
    ? (["q8_0", "q4_k_m"] as const)
    : ([request.machine.device.flops.fp8 === undefined ? "int8" : "fp8", "awq"] as const);
  return [
    shorterPrompts(request, before),
    CACHED_RESPONSES,
    continuousBatching(request, before),
    sharedAndNarrowKeys(request, before),
    fewerBits(request, before, { bits: 8, id: eight, quality: "under 1 % lost", effort: "low" }),
    fewerBits(request, before, { bits: 4, id: four, quality: "2 to 5 % lost", effort: "medium" }),
    speculativeDecoding(request, before),
    distillation(asked, before),
  ];
}

const typesOf = ({ quantization, kv }: Evaluation) => ({ quantization, kv });

function shorterPrompts(request: PlanRequest, before: Evaluation): Technique {
  const shorter = { ...request, inputTokens: Math.max(1, Math.round(request.inputTokens * SHORTER_PROMPT)) };
  return {
    name: "shorter prompts",
    ...shares(request, { before, after: bestOf(shorter, typesOf(before)), request: shorter }),
    quality: "none lost",
    effort: "low",
    note: `${Math.round(100 * (1 - SHORTER_PROMPT))} % fewer prompt tokens`,
  };
}

const CACHED_RESPONSES: Technique = {
  name: "cached responses",
  cost: 1 - REPEATED,
  latency: 1 - REPEATED,
  quality: "none lost for exact repeats",
  effort: "low",
  note: `${Math.round(100 * REPEATED)} % of the requests repeat: count them in your logs first`,
};

function continuousBatching(request: PlanRequest, before: Evaluation): Technique {
  const { load } = request;
  const one = evaluate(
    { ...request, load: { concurrency: 1 } },
    { ...before, instances: 1 },
    requiredLengthOf(request),
  )!;
  const perInstance = before.cost.usdPerHour / before.instances / one.prediction.requestsPerS;
  return {
    name: "continuous batching",
    cost: costPerRequest(before) / perInstance,
    latency: millisecondsOf(request, before) / millisecondsOf(request, one),
    quality: "none lost",
    effort: "low",
    note: `beside one request at a time; every engine here has it${"concurrency" in load ? `; ${load.concurrency} at once` : ""}`,
  };
}

function sharedAndNarrowKeys(request: PlanRequest, before: Evaluation): Technique {
  const shared = { ...request, prefixShare: Math.max(request.prefixShare, SHARED_PROMPT) };
  const narrow = kvTypesOf(request.machine, before.engine).at(-1)!;
  return {
    name: "KV cache: shared prefixes, narrow keys",
    ...shares(request, { before, after: bestOf(shared, { ...typesOf(before), kv: narrow }) }),
    quality: narrow.id === "16" ? "none lost" : narrow.evidence,
    effort: "low",
    note: `${Math.round(100 * shared.prefixShare)} % of each prompt shared${narrow.id === before.kv.id ? "" : `, keys in ${narrow.label}`}`,
  };
}

interface FewerBits extends Pick<Technique, "quality" | "effort"> {
  readonly bits: number;
  readonly id: QuantizationId;
}

function fewerBits(request: PlanRequest, before: Evaluation, { bits, id, quality, effort }: FewerBits): Technique {
  const weights = quantized(request, before, id);
  const name = `${bits}-bit weights (${id.toUpperCase()})`;
  return { name, ...shares(request, weights), quality, effort, note: weights.note };
}

function speculativeDecoding(request: PlanRequest, before: Evaluation): Technique {
  const { engine, quantization } = before;
  const canDraft = draftings(request, engine, instanceFor(request, quantization, 1)).length > 1;
  const whyNot =
    request.model.eagle3 === undefined
      ? "no drafter of this model is known here"
      : `none are planned for ${engine} here`;
  return {
    name: "speculative decoding",
    ...shares(request, { before, after: canDraft ? bestOf(request, typesOf(before), true) : undefined }),
    quality: "none lost",
    effort: "high",
    note: canDraft ? "EAGLE-3, a chain of three" : whyNot,
  };
}

/** @param asked leaves the engine open, since the student's may differ */
function distillation(asked: PlanRequest, before: Evaluation): Technique {
  const smaller = asked.model.stored === undefined ? smallerOf(asked.model) : undefined;
  const student =
    smaller === undefined
      ? undefined
      : makePlan({ ...asked, model: smaller, objective: "cost", quantization: undefined, maxModelLen: undefined })
          .configurations[0];
  return {
    name: "distillation",
    ...shares(asked, { before, after: student }),
    quality: "5 to 10 % lost, on its task alone",
    effort: "very high",
    note:
      smaller === undefined
        ? "no smaller model of the family is known here"
        : `to ${smaller.name}; plan costs says when it pays back`,
  };
}

/** Names of the techniques that improve the bottleneck's figure, in the order to try them. */
function orderOf(techniques: readonly Technique[], bottleneck: Bottleneck): readonly string[] {
  if (bottleneck === "quality") return [];
  const gain = ({ cost, latency }: Technique): number => (bottleneck === "latency" ? latency : cost) ?? 1;
  return techniques
    .filter((each) => gain(each) < WORTH)
    .toSorted((a, b) => EFFORTS.indexOf(a.effort) - EFFORTS.indexOf(b.effort) || gain(a) - gain(b))
    .map(({ name }) => name);
}

function notTo(request: PlanRequest, techniques: readonly Technique[], bottleneck: Bottleneck): string[] {
  const { model, inputTokens, outputTokens } = request;
  const best = makePlan({ ...request, objective: "cost" }).configurations[0];
  const cheapest = API_PRICES.find(({ name }) => name.startsWith("hosted")) ?? API_PRICES[0]!;
  const api = apiPerMillionOutput(cheapest, inputTokens / outputTokens);
  const drafts = techniques.find(({ name }) => name === "speculative decoding")!;
  const smaller = smallerOf(model);
  return [
    ...(bottleneck === "quality"
      ? ["no technique here betters answers: a better model, better prompts or retrieval do"]
      : []),
    ...(best !== undefined && best.cost.usdPerMillionOutput > api
      ? [
          `do not serve this load yourself for the money: ${formatUsd(best.cost.usdPerMillionOutput)} a million output tokens against ${formatUsd(api)} at an API (${cheapest.name}, ${cheapest.date}, prompts included)`,
        ]
      : []),
    ...((drafts.cost ?? 1) > WORTH || bottleneck !== "latency"
      ? [
          "no speculation for batch work, where nobody waits for a token: many requests at once use the arithmetic already",
        ]
      : []),
    ...(smaller === undefined
      ? []
      : [`not this model for simple tasks: try ${smaller.name} on your own prompts first (millrace eval)`]),
    "no 4-bit weights for mathematics, law or medicine without an evaluation of your own",
  ];
}

/** @returns undefined where the model does not fit */
export function advise(asked: PlanRequest, bottleneck: Bottleneck): Advice | undefined {
  const start = startOf(asked);
  if (start === undefined) return undefined;
  // If requests come faster than the machine serves them, they wait endlessly with every technique. The load of a full
  // machine shows the differences.
  const isTooFast = !Number.isFinite(millisecondsOf(asked, start));
  const load = isTooFast ? { concurrency: Math.max(1, start.seats * start.instances) } : asked.load;
  const request = { ...asked, load };
  const before = isTooFast ? startOf(request)! : start;
  const techniques = techniquesOf(request, before);
  return { load, techniques, order: orderOf(techniques, bottleneck), notTo: notTo(request, techniques, bottleneck) };
}
