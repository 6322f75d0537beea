/** Money: what tokens cost on rented machines, when that is less than an API asks, and how it grows with use. */
import type { ApiPrice } from "./data/prices.js";
import type { Cost } from "./request.js";

export const HOURS_PER_MONTH = 730;

/** At full use of the predicted throughput. */
export function costOf(usdPerHour: number, outputTokensPerS: number, inputPerOutput: number): Cost {
  const millionsPerHour = (outputTokensPerS * 3600) / 1e6;
  return {
    usdPerHour,
    usdPerMillionOutput: usdPerHour / millionsPerHour,
    usdPerMillionTotal: usdPerHour / (millionsPerHour * (1 + inputPerOutput)),
  };
}

/** Price of the same tokens at an API, per million output tokens, the price of their input included. */
export function apiPerMillionOutput(api: ApiPrice, inputPerOutput: number): number {
  return api.usdPerMillionOutput + inputPerOutput * api.usdPerMillionInput;
}

interface BreakEven {
  readonly api: ApiPrice;
  readonly apiUsdPerMillionOutput: number;
  /**
   * Million output tokens a month above which the machine costs less; undefined: it never does, as it cannot make so
   * many.
   */
  readonly millionsPerMonth: number | undefined;
  /** Share of the machine's throughput that this is. */
  readonly utilization: number;
}

/** The machine costs the same whether it works or not; the API only when used. */
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
  /** Machines of the plan that the busiest hour takes. */
  readonly numMachines: number;
  readonly usdPerMonth: number;
  readonly apiUsdPerMonth: number;
}

/** The busiest hour has so many times the mean's requests. */
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

/** Months after which a monthly saving has paid a single expense; undefined: nothing is saved. */
export const paybackMonths = (usd: number, savedPerMonth: number): number | undefined =>
  savedPerMonth > 0 ? usd / savedPerMonth : undefined;
