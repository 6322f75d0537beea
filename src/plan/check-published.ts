/** Predicts the published figures, each in its own case, and says how far off the prediction is. */

import { PUBLISHED, type PublishedCase, type PublishedFigure, type PublishedMetric } from "./data/published.js";
import { KV_TYPES, QUANTIZATIONS } from "./data/quantizations.js";
import { parseHardware } from "./hardware.js";
import { knownModel } from "./known-model.js";
import { planMemory, seatsOf } from "./memory.js";
import { weightBytes, weightBytesPerStep } from "./model-shape.js";
import { eagle3Drafting, type Prediction, predict } from "./predict.js";
import { defaultEfficiencies, type Instance } from "./step-time.js";

const WALL_BYTES_PER_S = 3e12;
const DEMAND = { maxNumBatchedTokens: 8192, maxNumSeqs: 512 };
const MOST_SEATS = 2048;

export interface CheckedFigure extends PublishedFigure {
  readonly predicted: number;
  /** Predicted ÷ published − 1. */
  readonly error: number;
}

function instanceOf({ model, hardware, quantization, kv = "16", tensorParallel }: PublishedCase): Instance {
  const machine = parseHardware(hardware);
  return {
    model: knownModel(model),
    quantization: QUANTIZATIONS[quantization],
    kv: KV_TYPES[kv],
    machine,
    tensorParallel,
    efficiencies: defaultEfficiencies(machine, QUANTIZATIONS[quantization]),
  };
}

function predictionOf(published: PublishedCase): Prediction {
  const { inputTokens, outputTokens, concurrency, instances = 1, prefixHit = 0 } = published;
  const instance = instanceOf(published);
  const seats = seatsOf(instance, planMemory(instance, DEMAND), inputTokens + outputTokens, inputTokens * prefixHit);
  const limits = { seats: Math.min(Math.max(1, seats), MOST_SEATS), maxNumBatchedTokens: DEMAND.maxNumBatchedTokens };
  const load = { concurrency: Math.max(1, concurrency / instances) };
  const drafting = published.drafts === true ? eagle3Drafting(instance) : undefined;
  return predict(instance, { inputTokens, outputTokens, prefixHit, load }, limits, drafting);
}

function figureOf(published: PublishedCase, metric: PublishedMetric): number {
  const { instances = 1, price = 0 } = published;
  if (metric === "weight GB" || metric === "weight read, ms") {
    const { model, quantization } = instanceOf(published);
    return metric === "weight GB"
      ? weightBytes(model, quantization) / 1e9
      : (1000 * weightBytesPerStep(model, quantization, 1)) / WALL_BYTES_PER_S;
  }
  const prediction = predictionOf(published);
  const outputTokensPerS = instances * prediction.outputTokensPerS;
  const numGpus = parseHardware(published.hardware).count;
  return {
    "TPOT, ms": prediction.tpotMs,
    "TTFT, ms": prediction.ttftMs,
    "output tokens/s": outputTokensPerS,
    "$/M output": ((price * numGpus) / (outputTokensPerS * 3600)) * 1e6,
  }[metric];
}

export function checkPublished(): CheckedFigure[] {
  return PUBLISHED.map((figure) => {
    const value = figureOf(figure.of, figure.metric);
    const predicted = figure.over === undefined ? value : value / figureOf(figure.over, figure.metric);
    return { ...figure, predicted, error: predicted / figure.value - 1 };
  });
}
