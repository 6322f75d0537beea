/**
 * Fits the speed model to a `bench run` of a server that was started as a plan says: its throughput under each load.
 */
import { z } from "zod";
import { type Fit, fitShares, type Point } from "./calibrate.js";
import { instanceOf } from "./fitting.js";
import { predict } from "./predict.js";
import type { Configuration, PlanRequest } from "./request.js";

/** Far above any run: larger numbers would drive the fit to infinity. */
const COUNT = z.number().nonnegative().max(1e15);
const REPORT = z.object({
  format: z.literal("millrace-bench"),
  runs: z.array(
    z.object({
      target: z.string().optional(),
      voidReasons: z.array(z.string()).default([]),
      metrics: z.object({
        numRequests: COUNT,
        promptTokens: COUNT,
        cachedTokens: COUNT,
        outputTokens: COUNT,
        outputTokensPerS: COUNT,
        concurrency: COUNT,
      }),
    }),
  ),
});

type ServingReport = z.infer<typeof REPORT>;

/** @returns undefined for any other kind of file */
export function servingReport(raw: unknown): ServingReport | undefined {
  return REPORT.safeParse(raw).data;
}

function pointsOf(request: PlanRequest, configuration: Configuration, { runs }: ServingReport): Point[] {
  const { instances, seats, options, drafting } = configuration;
  const instance = instanceOf(request, configuration);
  const limits = { seats: Math.min(seats, options.maxNumSeqs), maxNumBatchedTokens: options.maxNumBatchedTokens };
  // In a comparison, the first server's runs count.
  const own = runs.filter(({ target, voidReasons }) => target === runs[0]?.target && voidReasons.length === 0);
  return own.flatMap(({ metrics }): Point[] => {
    const { numRequests, promptTokens, cachedTokens, outputTokens, outputTokensPerS, concurrency } = metrics;
    const isMeasured = numRequests >= 1 && promptTokens > 0 && outputTokens > 0 && outputTokensPerS > 0;
    if (!isMeasured) return [];
    const traffic = {
      inputTokens: Math.max(1, Math.round(promptTokens / numRequests)),
      outputTokens: Math.max(1, Math.round(outputTokens / numRequests)),
      prefixHit: Math.min(1, cachedTokens / promptTokens),
      load: { concurrency: Math.max(1, concurrency / instances) },
    };
    return [
      {
        cell: `${Math.round(concurrency)} at once`,
        measured: outputTokensPerS,
        // If there are more instances than requests, some instances are idle.
        predict: (efficiencies) =>
          Math.min(instances, Math.max(1, concurrency)) *
          predict({ ...instance, efficiencies }, traffic, limits, drafting).outputTokensPerS,
      },
    ];
  });
}

/** @returns undefined where no run has measured anything */
export function fitServing(
  request: PlanRequest,
  configuration: Configuration,
  report: ServingReport,
  file: string,
): Fit | undefined {
  const points = pointsOf(request, configuration, report);
  if (points.length === 0) return undefined;
  const { efficiencies } = instanceOf(request, configuration);
  const source = `${points.length} runs in ${file}, taken for a server started as this plan's first configuration`;
  return { ...fitShares(points, efficiencies), source };
}
