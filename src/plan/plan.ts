/** From a request to ranked configurations: what the rules allow is judged by the speed model and ordered by what was asked for. */
import { MillraceError } from "../core/errors.js";
import { SPECULATION } from "./data/constants.js";
import { KV_TYPES } from "./data/quantizations.js";
import { renderOptions } from "./engine-options.js";
import { type Evaluation, evaluate } from "./evaluate.js";
import { explain } from "./explain.js";
import { instanceFor, missingSentence, narrowestWidth, nearestFits } from "./fitting.js";
import { linkOf } from "./hardware.js";
import { eagle3Drafting } from "./predict.js";
import type { Candidate, Configuration, Plan, PlanRequest, Refusal } from "./request.js";
import { chooseEngine, narrowKv, type WeightChoice, weightChoices, widthsOf } from "./rules.js";
import { suggestionsFor } from "./suggestions.js";

/** Requests at once in an instance up to which memory, not arithmetic, sets the pace of 16-bit products. */
const FEW_SEQUENCES = 4;

/** An instance wider than it takes to fit must be so much better than narrow ones, with each doubling. */
const WIDE_MUST_WIN = 1.1;
/** Acceptance depends on the text. */
const DRAFTS_MUST_WIN = 1.25;

/** Room for requests of twice the mean, in steps of 1024 tokens. */
export function maxModelLenOf({ model, inputTokens, outputTokens, maxModelLen }: PlanRequest): number {
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

interface Judged {
  readonly evaluation: Evaluation;
  readonly weights: WeightChoice;
  /** The first of the narrowest width: what a wider one is held against. */
  readonly narrow: Evaluation;
}

function instanceCounts({ machine, objective }: PlanRequest, width: number): readonly number[] {
  const most = Math.floor(machine.count / width);
  return objective === "cost" ? Array.from({ length: most }, (_, i) => i + 1) : [most];
}

/** Keys and values in fewer bits only where memory binds. */
function withKv(request: PlanRequest, candidate: Omit<Candidate, "kv">, maxModelLen: number): Evaluation | undefined {
  const wide = evaluate(request, { ...candidate, kv: KV_TYPES["16"] }, maxModelLen);
  if (wide !== undefined && wide.seats >= wide.wantedSeats) return wide;
  const kv = narrowKv(request.machine, candidate.engine);
  return (kv === undefined ? undefined : evaluate(request, { ...candidate, kv }, maxModelLen)) ?? wide;
}

/** Drafts where latency matters and they win a tenth at least. */
function withDrafts(request: PlanRequest, plain: Evaluation, maxModelLen: number): Evaluation {
  const { objective, slo, model, machine } = request;
  const isWanted = objective === "latency" || (slo.tpotMs !== undefined && plain.prediction.tpotMs > slo.tpotMs);
  const canDraft = machine.kind === "gpu" && plain.engine !== "llama-server" && model.eagle3 !== undefined;
  if (!isWanted || !canDraft) return plain;
  const drafted = evaluate(request, { ...plain, drafting: eagle3Drafting(plain.instance) }, maxModelLen);
  if (drafted === undefined) return plain;
  return plain.prediction.tpotMs / drafted.prediction.tpotMs >= SPECULATION.smallestGain.value ? drafted : plain;
}

/** All widths and counts of one weight type. Wider than it takes to fit: where a latency asks for it, or NVLink makes it cheap. */
function judgeWeights(request: PlanRequest, weights: WeightChoice, maxModelLen: number): Judged[] {
  const { engine } = chooseEngine(request);
  const { quantization } = weights;
  const { machine, objective } = request;
  const narrowest = narrowestWidth(request, quantization, maxModelLen);
  if (narrowest === undefined) return [];
  const judged: Judged[] = [];
  for (const tensorParallel of widthsOf(request.model, machine, engine, quantization)) {
    if (tensorParallel < narrowest) continue;
    const hasGood = judged.some(({ evaluation }) => evaluation.misses.length === 0);
    const isCheap = machine.kind === "gpu" && linkOf(machine.device, tensorParallel).kind === "nvlink";
    if (tensorParallel > narrowest && hasGood && objective !== "latency" && !isCheap) break;
    for (const instances of instanceCounts(request, tensorParallel)) {
      const candidate = { engine, quantization, tensorParallel, instances, drafting: undefined };
      const plain = withKv(request, candidate, maxModelLen);
      if (plain === undefined) continue;
      const evaluation = withDrafts(request, plain, maxModelLen);
      judged.push({ evaluation, weights, narrow: judged[0]?.evaluation ?? evaluation });
    }
  }
  return judged;
}

/** INT4 weights are for where memory binds: too few seats or more GPUs otherwise; or where a latency is asked of so few sequences that only reading counts. */
function withoutIdleInt4(
  request: PlanRequest,
  judged: readonly Judged[],
): { readonly kept: readonly Judged[]; readonly refusals: readonly Refusal[] } {
  const isInt4 = ({ evaluation }: Judged): boolean => evaluation.quantization.id === "awq";
  const others = judged.filter((each) => !isInt4(each));
  const int4 = judged.filter(isInt4);
  if (int4.length === 0 || request.quantization === "awq") return { kept: judged, refusals: [] };
  const isFew =
    request.objective === "latency" && int4.some(({ evaluation }) => evaluation.wantedSeats <= FEW_SEQUENCES);
  const enough = others.find(({ evaluation: { seats, wantedSeats } }) => seats >= wantedSeats && !isFew);
  const isNarrower =
    Math.min(...int4.map((each) => each.narrow.tensorParallel)) <
    Math.min(...others.map((each) => each.narrow.tensorParallel));
  if (enough === undefined || isNarrower) return { kept: judged, refusals: [] };
  const { quantization, seats, wantedSeats } = enough.evaluation;
  const because = `memory does not bind: in ${quantization.label} ${seats} sequences fit where ${wantedSeats} are there at once, and more of the quality stays`;
  return { kept: others, refusals: [{ what: int4[0]!.evaluation.quantization.label, because }] };
}

/** How far over its targets, as a factor. */
function overshoot({ slo }: PlanRequest, { prediction }: Evaluation): number {
  // More requests come than it serves: whatever the targets, the one that serves most is next.
  if (!Number.isFinite(prediction.ttftP95Ms)) return 1e15 - prediction.outputTokensPerS;
  const of = (value: number, target: number | undefined): number => (target === undefined ? 0 : value / target);
  return Math.max(of(prediction.ttftP95Ms, slo.ttftMs), of(prediction.tpotMs, slo.tpotMs));
}

/** Smaller is better. Targets first, then what was asked for, then the other of speed and money. */
function rank(request: PlanRequest, { evaluation, narrow }: Judged): readonly number[] {
  const { misses, prediction, cost } = evaluation;
  const { ttftMs, tpotMs, outputTokensPerS } = prediction;
  const latency = Number.isFinite(ttftMs) ? ttftMs + tpotMs * request.outputTokens : 1e15 - outputTokensPerS;
  // Width has prices the model does not see: stragglers, and one failure that takes all GPUs.
  const doublings = request.objective === "latency" ? 0 : Math.log2(evaluation.tensorParallel / narrow.tensorParallel);
  const handicap = WIDE_MUST_WIN ** doublings;
  const unsure = evaluation.drafting === undefined || request.objective === "latency" ? 1 : DRAFTS_MUST_WIN;
  const own = {
    latency,
    throughput: -outputTokensPerS / handicap / unsure,
    cost: cost.usdPerMillionOutput * handicap * unsure,
  }[request.objective];
  // Who keeps requests waiting for a seat comes after all who do not.
  const late = misses.length > 0 ? overshoot(request, evaluation) : prediction.isSaturated ? 0.5 : 0;
  // Closer than a thousandth is equal.
  return [late, Number(own.toPrecision(3)), latency, cost.usdPerMillionOutput];
}

function compareRanks(a: readonly number[], b: readonly number[]): number {
  const index = a.findIndex((value, i) => value !== b[i]);
  return index < 0 ? 0 : a[index]! - b[index]!;
}

function configurationOf(
  request: PlanRequest,
  { evaluation, weights, narrow }: Judged,
  maxModelLen: number,
): Configuration {
  const { engine, quantization, kv, tensorParallel, instances, drafting, memory, seats } = evaluation;
  const { sustainableConcurrency, prediction, cost, misses } = evaluation;
  return {
    ...{ engine, quantization, kv, tensorParallel, instances, drafting, memory, seats },
    ...{ sustainableConcurrency, prediction, cost, misses, meetsSlo: misses.length === 0 },
    choices: explain(request, evaluation, weights.because, narrow),
    ...renderOptions(request, evaluation, maxModelLen),
  };
}

export function makePlan(request: PlanRequest): Plan {
  const maxModelLen = maxModelLenOf(request);
  const { choices, refusals } = weightChoices(request, maxModelLen);
  if (choices.length === 0) throw noWeights(request, refusals);
  const judged = choices.map((weights) => judgeWeights(request, weights, maxModelLen));
  const missing = choices
    .filter((_, i) => judged[i]!.length === 0)
    .map(({ quantization }) => ({
      what: quantization.label,
      because: missingSentence(request, quantization, maxModelLen),
    }));
  const { kept, refusals: idle } = withoutIdleInt4(request, judged.flat());
  const configurations = kept
    .toSorted((a, b) => compareRanks(rank(request, a), rank(request, b)))
    .map((each) => configurationOf(request, each, maxModelLen));
  return {
    ...{ request, maxModelLen, configurations },
    refusals: [...refusals, ...missing, ...idle],
    nearest: configurations.length > 0 ? [] : nearestFits(request, maxModelLen),
    suggestions: configurations.length > 0 ? suggestionsFor(request, configurations[0]!, instanceFor) : [],
  };
}

function noWeights({ machine, quantization, model }: PlanRequest, refusals: readonly Refusal[]): MillraceError {
  const message =
    quantization === undefined
      ? `expected a weight type within --min-quality, got none: ${refusals.map(({ what }) => what).join(", ")} are below it`
      : `expected a --quantization that ${machine.device.label} has for ${model.name}, got ${quantization}`;
  return new MillraceError("invalid_option", message, { hint: "leave the flag out to see what there is" });
}
