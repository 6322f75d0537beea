/**
 * Cost of tokens and requests: on a machine paid by the hour, over whole runs including their ends, or at an API paid
 * by the token.
 */
import { chargeOf } from "../../gateway/prices/tiered-price.js";
import type { TieredPrice } from "../../gateway/usage/price.js";
import type { BenchRun, RunMetrics } from "../results/schema.js";

/** Costs in the currency of the price. */
export interface Cost {
  readonly perMillionOutput: number;
  /** Per million tokens of prompts and answers. */
  readonly perMillionTotal: number;
  readonly perThousandRequests: number;
}

/** Prices of an API's tokens. */
export type ListPrice = TieredPrice;

type Counted = Pick<RunMetrics, "numRequests" | "failures" | "promptTokens" | "outputTokens" | "durationMs">;

/** Cost from the sums over all runs. @returns undefined where no token was generated */
export function costOf(runs: readonly Counted[], pricePerHour: number): Cost | undefined {
  const sum = (value: (run: Counted) => number): number => runs.reduce((total, run) => total + value(run), 0);
  const numFailed = sum(({ failures }) => failures.reduce((count, failure) => count + failure.count, 0));
  return costEach((pricePerHour / 3.6e6) * sum((run) => run.durationMs), {
    outputTokens: sum((run) => run.outputTokens),
    promptTokens: sum((run) => run.promptTokens),
    numAnswered: sum((run) => run.numRequests) - numFailed,
  });
}

/**
 * Cost at an API's list price in dollars, with the lower price for cached tokens. @returns undefined where no token was
 * generated
 */
export function costByList({ requests }: Pick<BenchRun, "requests">, price: ListPrice): Cost | undefined {
  const answered = requests.filter(({ failure }) => failure === undefined);
  const nanoDollars = answered.reduce((sum, { prompt, cached, output }) => {
    const counts = { fresh: prompt - cached, cacheRead: cached, cacheWrite: 0, output, reasoning: 0 };
    return sum + chargeOf(counts, price).nanoDollars;
  }, 0n);
  return costEach(Number(nanoDollars) / 1e9, {
    outputTokens: answered.reduce((sum, { output }) => sum + output, 0),
    promptTokens: answered.reduce((sum, { prompt }) => sum + prompt, 0),
    numAnswered: answered.length,
  });
}

interface Answered {
  readonly outputTokens: number;
  readonly promptTokens: number;
  readonly numAnswered: number;
}

function costEach(price: number, { outputTokens, promptTokens, numAnswered }: Answered): Cost | undefined {
  if (outputTokens === 0) return undefined;
  return {
    perMillionOutput: (1e6 * price) / outputTokens,
    perMillionTotal: (1e6 * price) / (outputTokens + promptTokens),
    perThousandRequests: (1000 * price) / Math.max(1, numAnswered),
  };
}
