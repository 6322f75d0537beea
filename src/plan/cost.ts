/** The cost of tokens on rented machines, the use at which it falls below an API's price, and its growth with use. */
import type { ApiPrice } from "./data/prices.js";
import type { Cost } from "./request.js";

export const HOURS_PER_MONTH = 730;

/** The cost at full use of the predicted throughput. */
export function costOf(usdPerHour: number, outputTokensPerS: number, inputPerOutput: number): Cost {
  const millionsPerHour = (outputTokensPerS * 3600) / 1e6;
  return {
    usdPerHour,
    usdPerMillionOutput: usdPerHour / millionsPerHour,
    usdPerMillionTotal: usdPerHour / (millionsPerHour * (1 + inputPerOutput)),
  };
}

/** An API's price of the same tokens, per million output tokens, input included. */
export function apiPerMillionOutput(api: ApiPrice, inputPerOutput: number): number {
  return api.usdPerMillionOutput + inputPerOutput * api.usdPerMillionInput;
}

interface BreakEven {
  readonly api: ApiPrice;
  readonly apiUsdPerMillionOutput: number;
  /**
   * Million output tokens a month above which the machine costs less; undefined: the API is cheaper at any use that the
   * machine can serve.
   */
  readonly millionsPerMonth: number | undefined;
  /** The share of the machine's throughput that is used. */
  readonly utilization: number;
}

/** A machine costs the same busy or idle; an API costs money only for use. */
export function breakEven(api: ApiPrice, cost: Cost, outputTokensPerS: number, inputPerOutput: number): BreakEven {
  const apiUsdPerMillionOutput = apiPerMillionOutput(api, inputPerOutput);
  const millions = (cost.usdPerHour * HOURS_PER_MONTH) / apiUsdPerMillionOutput;
  const most = (outputTokensPerS * 3600 * HOURS_PER_MONTH) / 1e6;
  return {
    api,
    apiUsdPerMillionOutput,
    millionsPerMonth: millions <= most ? millions : undefined,
    utilization: millions / most,
  };
}

interface Scale {
  readonly name: string;
  readonly requestsPerDay: number;
}

/** Three sizes of the same business. */
export const SCALES: readonly Scale[] = [
  { name: "startup", requestsPerDay: 10_000 },
  { name: "growth", requestsPerDay: 250_000 },
  { name: "enterprise", requestsPerDay: 5_000_000 },
];

interface ScaleCost extends Scale {
  readonly millionOutputPerMonth: number;
  /** Number of the plan's machines that the busiest hour needs. */
  readonly numMachines: number;
  readonly usdPerMonth: number;
  readonly apiUsdPerMonth: number;
}

/** Requests of the busiest hour, as a multiple of the mean. */
export const PEAK_FACTOR = 3;

export function scaleCost(
  scale: Scale,
  cost: Cost,
  requestsPerS: number,
  outputTokens: number,
  api: ApiPrice,
  inputPerOutput: number,
): ScaleCost {
  const peakPerS = (scale.requestsPerDay / 86_400) * PEAK_FACTOR;
  const numMachines = Math.max(1, Math.ceil(peakPerS / requestsPerS));
  const millions = (scale.requestsPerDay * outputTokens * (HOURS_PER_MONTH / 24)) / 1e6;
  return {
    ...scale,
    millionOutputPerMonth: millions,
    numMachines,
    usdPerMonth: numMachines * cost.usdPerHour * HOURS_PER_MONTH,
    apiUsdPerMonth: millions * apiPerMillionOutput(api, inputPerOutput),
  };
}

/** Months after which a monthly saving has repaid a single expense; undefined: there is no saving. */
export const paybackMonths = (usd: number, savedPerMonth: number): number | undefined =>
  savedPerMonth > 0 ? usd / savedPerMonth : undefined;
