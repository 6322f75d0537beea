/** A configuration over a range of loads, for charts: from one concurrent request to the most that memory holds. */

import { activeLinearParameters, tableParameters, weightBytesPerStep } from "../model/description/sizes.js";
import { instanceOf } from "./fitting.js";
import { type Prediction, predict } from "./predict.js";
import type { Configuration, PlanCandidate, PlannedOptions, PlanRequest } from "./request.js";
import { kvBytesPerDevice, peakOf } from "./step-time.js";

interface LoadPoint {
  /** Concurrent requests, over all instances together. */
  readonly concurrency: number;
  readonly prediction: Prediction;
}

const MOST_POINTS = 10;

/** The parts of a configuration that decide its speed under other loads. */
type Loadable = PlanCandidate &
  Pick<Configuration, "seats" | "sustainableConcurrency" | "prediction"> & {
    readonly options: Pick<PlannedOptions, "maxNumBatchedTokens">;
  };

export function loadCurve(request: PlanRequest, configuration: Configuration): LoadPoint[] {
  const { instances, seats, options, drafting } = configuration;
  const instance = instanceOf(request, configuration);
  const limits = { seats, maxNumBatchedTokens: options.maxNumBatchedTokens };
  const { inputTokens, outputTokens, prefixShare } = request;
  const steps = Array.from({ length: MOST_POINTS }, (_, i) => 2 ** i).filter((each) => each <= seats);
  return steps.map((each) => {
    const traffic = { inputTokens, outputTokens, prefixHit: prefixShare, load: { concurrency: each } };
    const own = predict(instance, traffic, limits, drafting);
    const outputTokensPerS = own.outputTokensPerS * instances;
    return { concurrency: each * instances, prediction: { ...own, outputTokensPerS } };
  });
}

/** All instances of a configuration under the most requests that keep the targets; undefined: not even one does. */
export function heldBy(request: PlanRequest, configuration: Loadable): Prediction | undefined {
  const { instances, seats, options, drafting, sustainableConcurrency } = configuration;
  const { inputTokens, outputTokens, prefixShare } = request;
  const load = { concurrency: sustainableConcurrency / instances };
  if (load.concurrency < 1) return undefined;
  const limits = { seats, maxNumBatchedTokens: options.maxNumBatchedTokens };
  const traffic = { inputTokens, outputTokens, prefixHit: prefixShare, load };
  const own = predict(instanceOf(request, configuration), traffic, limits, drafting);
  return {
    ...own,
    requestsPerS: own.requestsPerS * instances,
    outputTokensPerS: own.outputTokensPerS * instances,
    numDecoding: own.numDecoding * instances,
  };
}

/**
 * Highest throughput of all instances of a configuration within its targets. If no load keeps them, the prediction for
 * the requested load stands in.
 */
export const capacityOf = (request: PlanRequest, configuration: Loadable): Prediction =>
  heldBy(request, configuration) ?? configuration.prediction;

interface RooflinePoint {
  readonly label: string;
  /** Operations per byte read. */
  readonly intensity: number;
  /** Highest operations per second of the device at this intensity. */
  readonly flops: number;
}

/** Roofline of one device, with decoding at some batch sizes and a prompt's chunk on it. */
export function rooflineOf(
  request: PlanRequest,
  configuration: Configuration,
): { readonly peak: number; readonly points: readonly RooflinePoint[] } {
  const instance = instanceOf(request, configuration);
  const { model, machine, quantization, tensorParallel } = instance;
  const peak = peakOf(machine, quantization);
  const context = request.inputTokens + request.outputTokens / 2;
  const at = (label: string, numDecoding: number, numRows: number): RooflinePoint => {
    const operations = (2 * numRows * (activeLinearParameters(model) + tableParameters(model))) / tensorParallel;
    const bytes =
      weightBytesPerStep(model, quantization, numRows) / tensorParallel +
      numDecoding * kvBytesPerDevice(instance, context);
    const intensity = operations / bytes;
    return { label, intensity, flops: Math.min(peak, intensity * machine.device.bytesPerS) };
  };
  const batches = [1, 16, 64].filter((batch) => batch <= configuration.seats);
  const prompt = Math.min(request.inputTokens, configuration.options.maxNumBatchedTokens);
  return {
    peak,
    points: [...batches.map((batch) => at(`decode, ${batch}`, batch, batch)), at(`prompt, ${prompt}`, 0, prompt)],
  };
}
