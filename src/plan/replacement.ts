/** The monthly cost of a model under real traffic, and the saving if another model replaces it. */
import { paybackMonths } from "./cost.js";
import { usdPerMonthOf } from "./cost-scales.js";
import type { ApiPrice } from "./data/prices.js";
import { makePlan } from "./plan.js";
import type { PlanRequest } from "./request.js";

export const DAYS_PER_MONTH = 365 / 12;
const SECONDS_PER_MONTH = DAYS_PER_MONTH * 86_400;

/** Means of one model's requests. */
export interface MonthlyTraffic {
  readonly requestsPerMonth: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
}

export interface MonthlyCost {
  readonly usdPerMonth: number;
  /** Source of the cost. */
  readonly source: string;
}

export function pricedCost(
  price: ApiPrice,
  { requestsPerMonth, inputTokens, outputTokens }: MonthlyTraffic,
): MonthlyCost {
  const { usdPerMillionInput, usdPerMillionOutput } = price;
  const usdPerRequest = (inputTokens * usdPerMillionInput + outputTokens * usdPerMillionOutput) / 1e6;
  const source = `$${usdPerMillionInput} and $${usdPerMillionOutput} a million tokens`;
  return { usdPerMonth: requestsPerMonth * usdPerRequest, source };
}

/**
 * Cost of machines that hold the busiest hour, with the weights as they were evaluated.
 * @returns undefined where the model does not fit
 */
export function plannedCost(request: PlanRequest, traffic: MonthlyTraffic): MonthlyCost | undefined {
  const whole = (tokens: number): number => Math.max(1, Math.round(tokens));
  const asked: PlanRequest = {
    ...request,
    inputTokens: whole(traffic.inputTokens),
    outputTokens: whole(traffic.outputTokens),
    objective: "cost",
    // A smaller type would change the answers.
    quantization: request.model.stored === undefined ? "bf16" : undefined,
    maxModelLen: undefined,
  };
  const [best] = makePlan(asked).configurations;
  if (best === undefined) return undefined;
  const usdPerMonth = usdPerMonthOf(asked, best, traffic.requestsPerMonth / SECONDS_PER_MONTH);
  const { price } = request;
  return { usdPerMonth, source: `predicted for ${request.machine.device.label}, prices of ${price.date}` };
}

export interface Replacement {
  readonly teacher: MonthlyCost;
  readonly student: MonthlyCost;
  readonly savedPerMonth: number;
  /** A single expense; undefined: unknown. */
  readonly trainingUsd: number | undefined;
  /** undefined: there is no saving, or the training's cost is unknown */
  readonly paybackMonths: number | undefined;
}

export function replacementOf(
  teacher: MonthlyCost,
  student: MonthlyCost,
  trainingUsd: number | undefined,
): Replacement {
  const savedPerMonth = teacher.usdPerMonth - student.usdPerMonth;
  const months = trainingUsd === undefined ? undefined : paybackMonths(trainingUsd, savedPerMonth);
  return { teacher, student, savedPerMonth, trainingUsd, paybackMonths: months };
}
