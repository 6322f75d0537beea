/** Predicts the published figures, each in its own case, and says how far off the prediction is. */

import { kvBytes, weightBytes, weightBytesPerStep } from "../model/description/sizes.js";
import type { Machine } from "./data/device.js";
import { PUBLISHED, type PublishedCase, type PublishedFigure, type PublishedMetric } from "./data/published.js";
import { KV_TYPES, QUANTIZATIONS, type Quantization, type QuantizationId } from "./data/quantizations.js";
import { REFERENCE } from "./data/reference.js";
import { parseHardware } from "./hardware.js";
import { knownModel } from "./known-model.js";
import { planMemory, seatsOf } from "./memory.js";
import { type Drafting, eagle3Drafting, type Prediction, predict } from "./predict.js";
import { defaultEfficiencies, type PlannedInstance } from "./step-time.js";

const WALL_BYTES_PER_S = 3e12;
const DEMAND = { maxNumBatchedTokens: 8192, maxNumSeqs: 512 };
const MOST_SEATS = 2048;

interface CheckedFigure extends PublishedFigure {
  readonly predicted: number;
  /** Predicted ÷ published − 1. */
  readonly error: number;
}

/** Types that the device cannot multiply are unpacked to 16 bits. */
function quantizationOn(machine: Machine, id: QuantizationId): Quantization {
  const quantization = QUANTIZATIONS[id];
  if (machine.device.flops[quantization.arithmetic] !== undefined) return quantization;
  return { ...quantization, arithmetic: "float16", computeFactor: QUANTIZATIONS.awq.computeFactor };
}

function instanceOf({ model, hardware, quantization: id, kv = "16", tensorParallel }: PublishedCase): PlannedInstance {
  const machine = parseHardware(hardware);
  const quantization = quantizationOn(machine, id);
  const efficiencies = defaultEfficiencies(machine, quantization);
  return { model: knownModel(model), quantization, kv: KV_TYPES[kv], machine, tensorParallel, efficiencies };
}

/** A smaller model reads its weights once for each token that it drafts. */
function draftingOf({ drafts, draftModel }: PublishedCase, instance: PlannedInstance): Drafting | undefined {
  if (draftModel === undefined) return drafts === true ? eagle3Drafting(instance) : undefined;
  const { depth, acceptance } = draftModel;
  const bytes = weightBytes(knownModel(draftModel.model), QUANTIZATIONS.bf16);
  const weightShare = bytes / weightBytes(instance.model, instance.quantization);
  return { depth, acceptance, weightShare, weightBytes: bytes };
}

function seatsIn(published: PublishedCase, instance: PlannedInstance): number {
  const { inputTokens, outputTokens, prefixHit = 0 } = published;
  const memory = planMemory(instance, DEMAND, draftingOf(published, instance));
  return seatsOf(instance, memory, inputTokens + outputTokens, inputTokens * prefixHit);
}

function predictionOf(published: PublishedCase): Prediction {
  const { inputTokens, outputTokens, concurrency, instances = 1, prefixHit = 0 } = published;
  const instance = instanceOf(published);
  const seats = Math.min(Math.max(1, seatsIn(published, instance)), MOST_SEATS);
  const limits = { seats, maxNumBatchedTokens: DEMAND.maxNumBatchedTokens };
  const load = { concurrency: Math.max(1, concurrency / instances) };
  const traffic = { inputTokens, outputTokens, prefixHit, load };
  return predict(instance, traffic, limits, draftingOf(published, instance));
}

/** Bytes of keys and values of all requests at once; shared prefixes count once. */
function kvGigabytes(published: PublishedCase): number {
  const { inputTokens, outputTokens, concurrency, prefixHit = 0 } = published;
  const { model, kv } = instanceOf(published);
  const shared = inputTokens * prefixHit;
  return kvBytes(model, kv.vectorBytes, concurrency * (inputTokens + outputTokens - shared) + shared) / 1e9;
}

const tokensPerS = (published: PublishedCase): number =>
  (published.instances ?? 1) * predictionOf(published).outputTokensPerS;

const FIGURES: Readonly<Record<Exclude<PublishedMetric, "$/M output">, (published: PublishedCase) => number>> = {
  "weight GB": (published) => weightBytes(instanceOf(published).model, instanceOf(published).quantization) / 1e9,
  "weight read, ms": (published) => {
    const { model, quantization } = instanceOf(published);
    return (1000 * weightBytesPerStep(model, quantization, 1)) / WALL_BYTES_PER_S;
  },
  "KV GB": kvGigabytes,
  sequences: (published) => seatsIn(published, instanceOf(published)),
  "TPOT, ms": (published) => predictionOf(published).tpotMs,
  "TTFT, ms": (published) => predictionOf(published).ttftMs,
  "output tokens/s": tokensPerS,
};

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

function figureOf(of: PublishedFigure["of"], metric: PublishedMetric): number {
  const cases = Array.isArray(of) ? (of as readonly PublishedCase[]) : [of as PublishedCase];
  if (metric !== "$/M output") return mean(cases.map(FIGURES[metric]));
  const { price = 0, hardware } = cases[0]!;
  return ((price * parseHardware(hardware).count) / (mean(cases.map(tokensPerS)) * 3600)) * 1e6;
}

export function checkPublished(): CheckedFigure[] {
  return [...PUBLISHED, ...REFERENCE].map((figure) => {
    const value = figureOf(figure.of, figure.metric);
    const predicted = figure.over === undefined ? value : value / figureOf(figure.over, figure.metric);
    return { ...figure, predicted, error: predicted / figure.value - 1 };
  });
}
