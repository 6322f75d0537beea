/** What answered tokens and requests cost on a machine that is paid by the hour, over whole runs, their ends included. */
import type { RunMetrics } from "../results/schema.js";

/** In the currency of the machine's price. */
export interface Cost {
  readonly perMillionOutput: number;
  /** Per million tokens of prompts and answers. */
  readonly perMillionTotal: number;
  readonly perThousandRequests: number;
}

type Counted = Pick<RunMetrics, "numRequests" | "failures" | "promptTokens" | "outputTokens" | "durationMs">;

/** From the sums over all runs. @returns undefined where no token was generated */
export function costOf(runs: readonly Counted[], pricePerHour: number): Cost | undefined {
  const sum = (value: (run: Counted) => number): number => runs.reduce((total, run) => total + value(run), 0);
  const outputTokens = sum((run) => run.outputTokens);
  if (outputTokens === 0) return undefined;
  const price = (pricePerHour / 3.6e6) * sum((run) => run.durationMs);
  const numFailed = sum(({ failures }) => failures.reduce((count, failure) => count + failure.count, 0));
  return {
    perMillionOutput: (1e6 * price) / outputTokens,
    perMillionTotal: (1e6 * price) / (outputTokens + sum((run) => run.promptTokens)),
    perThousandRequests: (1000 * price) / Math.max(1, sum((run) => run.numRequests) - numFailed),
  };
}
