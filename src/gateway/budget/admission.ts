/** Claims and reserves for a request with limits, and settles its cost at the end. */
import { isOwnPath } from "../api/routes.js";
import type { Price, PriceBook } from "../prices/price.js";
import { chargeOf as tieredChargeOf } from "../prices/tiered-price.js";
import type { Caller, GatewayRequest } from "../request.js";
import { type AttemptRecord, NOTE, type RequestRecord, type TokenCounts } from "../usage/record.js";
import { promptTokensOf } from "../usage/token-counts.js";
import type { AnswerStatistics } from "./answer-statistics.js";
import { amountOf, type Claims, NO_CLAIMS } from "./claims.js";
import { type PromptFacts, type RequestSize, sizeOf } from "./estimate.js";
import { noCountedPath, noPrice } from "./refusals.js";
import { newReservationId } from "./reservation-id.js";
import { WorstCost } from "./worst-cost.js";

/** A stream that can pay for less is not begun. */
const LEAST_OUTPUT_TOKENS = 16;
/** Least output that is reserved for a whole answer without max_tokens, and a multiple of the usual longest answers. */
const WHOLE_OUTPUT_TOKENS = 4096;
const WHOLE_FACTOR = 4;

export interface Admission {
  readonly id: string;
  readonly request: GatewayRequest;
  /** Own name of the model. */
  readonly model: string;
  readonly claims: Claims;
  readonly size: RequestSize;
  /** Tokens of the prompt, probably. */
  readonly promptTokens: number;
  /** Tokens of each answer, in 95 of 100 cases. */
  readonly outputTokens: number;
  /** Undefined: no budget applies, or the model is free. */
  readonly priced: Priced | undefined;
  readonly wantMoney: number;
  readonly leastMoney: number;
}

interface Priced {
  readonly worst: WorstCost;
  /** The price of the model that an attempt went to. */
  readonly priceOf: (attempt: AttemptRecord) => Price;
}

interface AdmissionTerms {
  readonly model: string;
  readonly claims: Claims;
  readonly highestPriceOf: (name: string) => Price | undefined;
  readonly priceOf: PriceBook["priceOf"];
  readonly statistics: AnswerStatistics;
  readonly defaultOutputTokens: number;
  readonly facts: PromptFacts;
}

/** Throws price_missing if a budget applies to a request whose cost cannot be known. */
export function admit(request: GatewayRequest, terms: AdmissionTerms): Admission {
  const { model, statistics, facts } = terms;
  const { path, route, body, bytes, caller, isStream } = request;
  const priced = pricedOf(request, terms);
  const size = sizeOf(path, body, bytes.length, route.isGeneration, facts);
  const usual = statistics.outputTokens(subjectOf(caller), model, terms.defaultOutputTokens);
  const outputTokens = Math.min(usual, size.maxTokens ?? usual);
  const most = isStream ? outputTokens : (size.maxTokens ?? wholeTokens(outputTokens));
  const least = isStream ? Math.min(outputTokens, LEAST_OUTPUT_TOKENS) : outputTokens;
  const prompt = route.runsPrompt ? size.templateTokens + statistics.promptTokens(model, size.readBytes) : 0;
  const moneyFor = (output: number): number => priced?.worst.of(size.promptTokens, size.numAnswers * output) ?? 0;
  return {
    id: newReservationId(request.id),
    request,
    model,
    claims: priced === undefined ? { ...terms.claims, money: NO_CLAIMS } : terms.claims,
    size,
    promptTokens: Math.min(prompt, size.promptTokens),
    outputTokens,
    priced,
    wantMoney: moneyFor(most),
    leastMoney: moneyFor(least),
  };
}

/** Most tokens of an answer that is not streamed and says nothing about its length. */
export function wholeTokens(usual: number): number {
  return Math.max(WHOLE_OUTPUT_TOKENS, WHOLE_FACTOR * usual);
}

function pricedOf({ route, path, record }: GatewayRequest, terms: AdmissionTerms): Priced | undefined {
  const { model, claims, highestPriceOf, priceOf } = terms;
  if (claims.money.length === 0 || !route.runsPrompt) return undefined;
  const highest = highestPriceOf(model);
  if (highest === undefined) throw noPrice(model);
  const worst = worstOf(highest);
  if (worst.isFree) return undefined;
  if (!isOwnPath(path)) throw noCountedPath(path);
  return { worst, priceOf: (attempt) => priceOf(attempt.model, record.notes.has(NOTE.batch)) ?? highest };
}

const worstCosts = new WeakMap<Price, WorstCost>();

function worstOf(price: Price): WorstCost {
  const worst = worstCosts.get(price) ?? new WorstCost(price);
  worstCosts.set(price, worst);
  return worst;
}

/** Groups callers whose answers have similar lengths. */
export function subjectOf({ tenant, keyId }: Caller): string {
  return keyId ?? tenant;
}

/** Nano-dollars that the attempts of a request have cost: as the ledger books them where there is one. */
export function chargeOf({ attempts }: RequestRecord, { priced }: Admission): number {
  let sum = 0n;
  if (priced === undefined) return 0;
  for (const attempt of attempts) {
    const { charge, usage } = attempt;
    sum +=
      charge?.nanoDollars ?? (usage === undefined ? 0n : tieredChargeOf(usage, priced.priceOf(attempt)).nanoDollars);
  }
  return amountOf(sum);
}

/** Tokens of prompts and answers of all attempts. */
export function tokensOf({ attempts }: RequestRecord): number {
  return attempts.reduce((sum, { usage }) => sum + (usage === undefined ? 0 : promptTokensOf(usage) + usage.output), 0);
}

/**
 * Notes the cost of an answer that was cut: the delivered part of a stream, or the prompt and `unseen` where nothing
 * has come.
 *
 * @param delivered undefined: the answer is no stream that is counted, or has not begun
 * @param unseen tokens that the upstream makes, and charges, although the client has left
 */
export function noteCut(
  { request, promptTokens, priced }: Admission,
  delivered: TokenCounts | undefined,
  unseen: number,
): void {
  const { attempts } = request.record;
  for (const attempt of attempts) {
    // Only the last answer may have come to its end while the client was still getting it.
    const isOver = attempt.endMs !== undefined && !(attempt.outcome === "answered" && attempt === attempts.at(-1));
    if (isOver) continue;
    if (attempt.firstByteMs !== undefined) note(attempt, delivered ?? attempt.usage, priced);
    else note(attempt, { ...NOTHING, fresh: promptTokens, output: unseen, isEstimated: true }, priced);
  }
}

/**
 * Notes the cost of a complete stream that reports no usage, from its texts.
 * @param delivered undefined: the answer is no counted stream
 */
export function noteUnreported({ request, priced }: Admission, delivered: TokenCounts | undefined): void {
  const last = request.record.attempts.at(-1);
  if (last?.outcome !== "answered" || last.usage?.isEstimated !== true) return;
  note(last, delivered, priced);
}

const NOTHING: TokenCounts = { fresh: 0, cacheRead: 0, cacheWrite: 0, output: 0, reasoning: 0 };

function note(attempt: AttemptRecord, usage: TokenCounts | undefined, priced: Priced | undefined): void {
  if (usage === undefined) return;
  attempt.usage = usage;
  if (attempt.charge === undefined || priced === undefined) return;
  attempt.charge = tieredChargeOf(usage, priced.priceOf(attempt));
}
