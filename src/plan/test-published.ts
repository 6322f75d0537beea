/** Predicts each published figure in its own case, with the error of the prediction. */

import { kvBytes, weightBytes, weightBytesPerStep } from "../model/description/sizes.js";
import type { Machine } from "./data/device.js";
import {
  type FamilyOption,
  PUBLISHED,
  type PublishedCase,
  type PublishedFigure,
  type PublishedMetric,
} from "./data/published.js";
import { KV_TYPES, QUANTIZATIONS, type Quantization, type QuantizationId } from "./data/quantizations.js";
import { REFERENCE } from "./data/reference.js";
import { parseHardware } from "./hardware.js";
import { knownModel } from "./known-model.js";
import { planMemory, seatsOf } from "./memory.js";
import { type Drafting, eagle3Drafting, type Prediction, predict } from "./predict.js";
import { DECODE, defaultEfficiencies, type PlannedInstance, stepTime } from "./step-time.js";
import { toldByOthers } from "./test-left-out.js";

const WALL_BYTES_PER_S = 3e12;
const DEMAND = { maxNumBatchedTokens: 8192, maxNumSeqs: 512 };
const MOST_SEATS = 2048;

interface CheckedFigure extends PublishedFigure {
  readonly predicted: number;
  /** Predicted ÷ published − 1. */
  readonly error: number;
  /** Other figures of the source from which its free parameters are found; 0: none. */
  readonly numSiblings: number;
}

/** Devices unpack types that they cannot multiply to 16 bits. */
function quantizationOn(machine: Machine, id: QuantizationId): Quantization {
  const quantization = QUANTIZATIONS[id];
  if (machine.device.flops[quantization.arithmetic] !== undefined) return quantization;
  return { ...quantization, arithmetic: "float16", computeFactor: QUANTIZATIONS.awq.computeFactor };
}

function instanceOf(published: PublishedCase): PlannedInstance {
  const { model, hardware, quantization: id, kv = "16", tensorParallel, pipelineParallel } = published;
  const machine = parseHardware(hardware);
  const quantization = quantizationOn(machine, id);
  const efficiencies = defaultEfficiencies(machine, quantization);
  const types = { model: knownModel(model), quantization, kv: KV_TYPES[kv] };
  return { ...types, machine, tensorParallel, pipelineParallel, efficiencies };
}

/** A draft model reads its weights once for each token that it drafts. */
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

/**
 * Gigabytes of keys and values of all concurrent requests, each in the middle of its answer; a shared prefix counts
 * once.
 */
function kvGigabytes(published: PublishedCase): number {
  const { inputTokens, outputTokens, concurrency, prefixHit = 0 } = published;
  const { model, kv } = instanceOf(published);
  const shared = inputTokens * prefixHit;
  return kvBytes(model, kv.vectorBytes, concurrency * (inputTokens + outputTokens / 2 - shared) + shared) / 1e9;
}

/** Requests that arrive together have their prompts in the same step. */
function ttftMs(published: PublishedCase): number {
  if (published.isInStep !== true) return predictionOf(published).ttftMs;
  const { inputTokens, outputTokens, concurrency } = published;
  const numPrompts = Math.min(concurrency, Math.max(1, Math.floor(DEMAND.maxNumBatchedTokens / inputTokens)));
  const others = { numDecoding: concurrency - numPrompts, context: inputTokens + outputTokens / 2 };
  const prompts = { numPrompts, numPromptTokens: numPrompts * inputTokens };
  return 1000 * stepTime(instanceOf(published), { ...DECODE, ...others, ...prompts }).totalSeconds;
}

const tokensPerS = (published: PublishedCase): number =>
  (published.instances ?? 1) * predictionOf(published).outputTokensPerS;

const withPrompts = (published: PublishedCase): number =>
  tokensPerS(published) * (1 + published.inputTokens / published.outputTokens);

const FIGURES: Readonly<Record<Exclude<PublishedMetric, "$/M tokens">, (published: PublishedCase) => number>> = {
  "weight GB": (published) => weightBytes(instanceOf(published).model, instanceOf(published).quantization) / 1e9,
  "weight read, ms": (published) => {
    const { model, quantization } = instanceOf(published);
    return (1000 * weightBytesPerStep(model, quantization, 1)) / WALL_BYTES_PER_S;
  },
  "KV GB": kvGigabytes,
  sequences: (published) => seatsIn(published, instanceOf(published)),
  "TPOT, ms": (published) => predictionOf(published).tpotMs,
  "TTFT, ms": ttftMs,
  "output tokens/s": tokensPerS,
  "tokens/s, prompts included": withPrompts,
};

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

function figureOf(of: PublishedFigure["of"], metric: PublishedMetric, option: FamilyOption): number {
  const cases = [of].flat().map((each) => ({ ...each, ...option.with }));
  if (metric !== "$/M tokens") return mean(cases.map(FIGURES[metric]));
  const { price = 0, hardware } = cases[0]!;
  return ((price * parseHardware(hardware).count) / (mean(cases.map(withPrompts)) * 3600)) * 1e6;
}

function predictionsOf({ of, over, metric, family }: PublishedFigure): number[] {
  const found = new Map<FamilyOption["with"], number>();
  return (family?.options ?? NOTHING_OPEN).map((option) => {
    const value = found.get(option.with) ?? figureOf(of, metric, option);
    found.set(option.with, value);
    return over === undefined ? value * (option.scale ?? 1) : value / figureOf(over, metric, option);
  });
}

const NOTHING_OPEN: readonly FamilyOption[] = [{}];

/** Each figure's predictions, one for every value that its source leaves open. */
export const predictAll = (figures: readonly PublishedFigure[]): number[][] => figures.map(predictionsOf);

/** Predicts each figure without using its own published value. */
export function checkPublished(
  figures: readonly PublishedFigure[] = [...PUBLISHED, ...REFERENCE],
  predictions = predictAll(figures),
): CheckedFigure[] {
  return figures.map((figure, index) => {
    const { option, numSiblings } = toldByOthers(figures, predictions, index);
    const predicted = predictions[index]![option]!;
    return { ...figure, predicted, error: predicted / figure.value - 1, numSiblings };
  });
}
