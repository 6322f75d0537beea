/** Claims and reserves for a request with limits, and settles its cost at the end. */
import { isOwnPath } from "../api/routes.js";
import type { PriceBook } from "../prices/price.js";
import { chargeOf as tieredChargeOf } from "../prices/tiered-price.js";
import type { Caller, GatewayRequest } from "../request.js";
import { BUDGET_UNITS, type BudgetUnit } from "../scope.js";
import type { Price } from "../usage/price.js";
import type { AttemptRecord, RequestRecord, TokenCounts } from "../usage/record.js";
import { promptTokensOf } from "../usage/token-counts.js";
import type { AnswerStatistics } from "./answer-statistics.js";
import { amountOf, type Claims } from "./claims.js";
import { type PromptFacts, type RequestSize, sizeOf } from "./estimate.js";
import { noCountedPath, noPrice } from "./refusals.js";
import { newReservationId } from "./reservation-id.js";
import type { Amounts, Levels } from "./store.js";
import { WorstCost } from "./worst-cost.js";

/** A stream whose budget pays for fewer tokens is not started. */
const LEAST_OUTPUT_TOKENS = 16;
/** Least output that is reserved for a whole answer without max_tokens, and a multiple of the usual longest answers. */
const WHOLE_OUTPUT_TOKENS = 4096;
const WHOLE_FACTOR = 4;

/** The most that tokens cost in each unit. Undefined: no budget of the unit applies, or the model is free. */
type Costs = Readonly<Partial<Record<BudgetUnit, WorstCost>>>;

export interface Admission {
  readonly id: string;
  readonly request: GatewayRequest;
  /** Own name of the model. */
  readonly model: string;
  readonly claims: Claims;
  readonly size: RequestSize;
  /** Estimated tokens of the prompt. */
  readonly promptTokens: number;
  /** Tokens of each answer, in 95 of 100 cases. */
  readonly outputTokens: number;
  readonly costs: Costs;
  /** Reserved if the budgets have so much; with less than `least`, the request is refused. */
  readonly want: Amounts;
  readonly least: Amounts;
  /** The price of the model that an attempt went to. Undefined: it has none. */
  readonly priceOf: (attempt: AttemptRecord) => Price | undefined;
}

interface AdmissionTerms {
  readonly model: string;
  readonly claims: Claims;
  readonly highestPriceOf: (name: string, unit: BudgetUnit) => Price | undefined;
  readonly priceOf: PriceBook["priceOf"];
  readonly statistics: AnswerStatistics;
  readonly defaultOutputTokens: number;
  readonly facts: PromptFacts;
}

/** Throws price_missing if a budget applies to a request whose cost cannot be known. */
export function admit(request: GatewayRequest, terms: AdmissionTerms): Admission {
  const { model, claims, statistics, facts } = terms;
  const { path, route, body, bytes, caller, isStream, record } = request;
  const costs = costsOf(request, terms);
  const size = sizeOf(path, body, bytes.length, route.isGeneration, facts);
  const usual = statistics.outputTokens(subjectOf(caller), model, terms.defaultOutputTokens);
  const outputTokens = Math.min(usual, size.maxTokens ?? usual);
  const most = isStream ? outputTokens : (size.maxTokens ?? wholeTokens(outputTokens));
  const least = isStream ? Math.min(outputTokens, LEAST_OUTPUT_TOKENS) : outputTokens;
  const prompt = route.runsPrompt ? size.templateTokens + statistics.promptTokens(model, size.readBytes) : 0;
  const amountsFor = (output: number): Amounts => {
    const amountFor = (unit: BudgetUnit) => costs[unit]?.of(size.promptTokens, size.numAnswers * output) ?? 0;
    return { money: amountFor("money"), tokens: amountFor("tokens") };
  };
  const isPayable = ({ unit }: { readonly unit: BudgetUnit }): boolean => costs[unit] !== undefined;
  return {
    id: newReservationId(request.id),
    request,
    model,
    claims: claims.budgets.every(isPayable) ? claims : { ...claims, budgets: claims.budgets.filter(isPayable) },
    size,
    promptTokens: Math.min(prompt, size.promptTokens),
    outputTokens,
    costs,
    want: amountsFor(most),
    least: amountsFor(least),
    priceOf: (attempt) => record.agreedPrice ?? terms.priceOf(attempt.model, record.rate) ?? costs.money?.price,
  };
}

/** Upper bound of an answer's tokens, if it is not streamed and the request states no length. */
export function wholeTokens(usual: number): number {
  return Math.max(WHOLE_OUTPUT_TOKENS, WHOLE_FACTOR * usual);
}

function costsOf({ route, path }: GatewayRequest, { model, claims, highestPriceOf }: AdmissionTerms): Costs {
  const costs: { [Unit in BudgetUnit]?: WorstCost } = {};
  if (!route.runsPrompt) return costs;
  for (const each of BUDGET_UNITS) {
    if (!claims.budgets.some(({ unit }) => unit === each)) continue;
    const highest = highestPriceOf(model, each);
    if (highest === undefined) throw noPrice(model);
    const worst = worstOf(highest);
    if (worst.isFree) continue;
    if (!isOwnPath(path)) throw noCountedPath(path);
    costs[each] = worst;
  }
  return costs;
}

const worstCosts = new WeakMap<Price, WorstCost>();

function worstOf(price: Price): WorstCost {
  const worst = worstCosts.get(price) ?? new WorstCost(price);
  worstCosts.set(price, worst);
  return worst;
}

/**
 * Output tokens that the budgets of a request pay beside its prompt.
 * @param amounts that are reserved
 */
export function payableTokens(
  { claims, size, costs }: Admission,
  amounts: Amounts,
  levels: Levels,
  isStream: boolean,
): number {
  // A paid upstream's hidden thinking is bounded only by the whole rest of the budget.
  const leftOf = (unit: BudgetUnit): number => (isStream ? leastLeft(claims, levels, unit) : 0);
  const payable = BUDGET_UNITS.map((unit) => costs[unit]?.outputFor(amounts[unit] + leftOf(unit), size.promptTokens));
  return Math.min(...payable.map((tokens) => tokens ?? Number.POSITIVE_INFINITY));
}

/** The amount that the tightest budget of a unit has left beside all reservations. */
function leastLeft({ budgets }: Claims, levels: Levels, unit: BudgetUnit): number {
  const lefts = budgets.map(({ unit: own, hard }, i) => {
    const { used, held } = levels.budgets[i]!;
    return own === unit ? hard - used - held : Number.POSITIVE_INFINITY;
  });
  return Math.max(0, Math.min(...lefts));
}

/** Groups callers whose answers have similar lengths. */
export function subjectOf({ tenant, keyId }: Caller): string {
  return keyId ?? tenant;
}

/** Nano-dollars that the attempts of a request have cost: the ledger's figures, if there are any. */
export function chargeOf({ attempts }: RequestRecord, { costs, priceOf }: Admission): number {
  if (costs.money === undefined) return 0;
  let sum = 0n;
  for (const attempt of attempts) {
    const { charge, usage } = attempt;
    if (charge !== undefined) sum += charge.nanoDollars;
    else if (usage !== undefined) sum += tieredChargeOf(usage, priceOf(attempt)!).nanoDollars;
  }
  return amountOf(sum);
}

/** Tokens of prompts and answers of all attempts. */
export function tokensOf({ attempts }: RequestRecord): number {
  return attempts.reduce((sum, { usage }) => sum + (usage === undefined ? 0 : promptTokensOf(usage) + usage.output), 0);
}

/**
 * Notes the cost of an answer that was cut: the delivered part of a stream, or the prompt and `unseen` if nothing has
 * come.
 *
 * @param delivered undefined: the answer is not a counted stream, or has not begun
 * @param unseen tokens that the upstream makes, and charges, although the client has left
 */
export function noteCut(
  { request, promptTokens, priceOf }: Admission,
  delivered: TokenCounts | undefined,
  unseen: number,
): void {
  const { attempts } = request.record;
  for (const attempt of attempts) {
    // Only the last answer may have ended while the client was still receiving it.
    const isOver = attempt.endMs !== undefined && !(attempt.outcome === "answered" && attempt === attempts.at(-1));
    if (isOver) continue;
    if (attempt.firstByteMs !== undefined) note(attempt, delivered ?? attempt.usage, priceOf);
    else note(attempt, { ...NOTHING, fresh: promptTokens, output: unseen, isEstimated: true }, priceOf);
  }
}

/**
 * Notes the cost of a complete stream that reports no usage, from its texts.
 * @param delivered undefined: the answer is no counted stream
 */
export function noteUnreported({ request, priceOf }: Admission, delivered: TokenCounts | undefined): void {
  const last = request.record.attempts.at(-1);
  if (last?.outcome !== "answered" || last.usage?.isEstimated !== true) return;
  note(last, delivered, priceOf);
}

const NOTHING: TokenCounts = { fresh: 0, cacheRead: 0, cacheWrite: 0, output: 0, reasoning: 0 };

function note(attempt: AttemptRecord, usage: TokenCounts | undefined, priceOf: Admission["priceOf"]): void {
  if (usage === undefined) return;
  attempt.usage = usage;
  const price = attempt.charge === undefined ? undefined : priceOf(attempt);
  if (price !== undefined) attempt.charge = tieredChargeOf(usage, price);
}
