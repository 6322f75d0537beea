/** The errors of requests that a limit refuses. */
import { MillraceError } from "../../core/errors.js";
import { formatDollars } from "../money.js";
import type { BudgetUnit, BudgetWindow } from "../scope.js";
import type { BudgetClaim, Claims, LimitedScope } from "./claims.js";
import type { Amounts, ReserveResult } from "./store.js";

type Refused = Extract<ReserveResult, { kind: "refused" }>;

/** Official clients wait at most this long, and repeat a request at once if told to wait longer. */
const MAX_RETRY_S = 60;
const MAX_NAME = 80;

export const nameOf = ({ kind, id }: LimitedScope): string => `${kind} ${id.slice(0, MAX_NAME)}`;

/** @example amountText("money", 5_000_000_000) // "5 $" */
export const amountText = (unit: BudgetUnit, amount: number): string =>
  unit === "money" ? `${formatDollars(BigInt(amount))} $` : `${amount} tokens`;

/** @example windowText("day") // "per day" */
export const windowText = (window: BudgetWindow): string => (window === "total" ? "in total" : `per ${window}`);

/**
 * Whether the budget is short only because of other requests' reservations. Some of them are returned when the requests
 * end.
 */
export function isReservedByOthers({ limit, index, levels }: Refused, claims: Claims, least: Amounts): boolean {
  if (limit !== "budget") return false;
  const { used, held } = levels.budgets[index]!;
  const { unit, hard } = claims.budgets[index]!;
  return held > 0 && hard - used >= least[unit];
}

/** @param least amounts that the request needs */
export function refusal(
  refused: Refused,
  claims: Claims,
  least: Amounts,
  headers: Readonly<Record<string, string>>,
): MillraceError {
  const { limit, index, levels, retryAfterMs } = refused;
  if (limit === "budget") {
    const message = budgetMessage(claims.budgets[index]!, levels.budgets[index]!, least);
    return budgetExceeded(message, claims.budgets[index]!.window, retryAfterMs, headers);
  }
  const claim = claims[limit][index]!;
  const what = { requests: "requests per minute", tokens: "tokens per minute", concurrent: "requests at a time" }[
    limit
  ];
  const message = `expected at most ${claim.limit} ${what} of ${nameOf(claim.scope)}, got more`;
  // It is unknown when a place becomes free.
  const seconds = limit === "concurrent" ? 1 : Math.max(1, Math.ceil(retryAfterMs / 1000));
  return new MillraceError("rate_limit_exceeded", message, {
    hint: "retry after the time in Retry-After, or have the limit raised",
    retryAfterSeconds: seconds,
    headers: seconds > MAX_RETRY_S ? { ...headers, "x-should-retry": "false" } : headers,
  });
}

type Level = Refused["levels"]["budgets"][number];

function budgetMessage({ unit, window, hard, scope }: BudgetClaim, { used, held }: Level, least: Amounts): string {
  const text = (amount: number): string => amountText(unit, amount);
  const open = held > 0 ? ` (${text(held)} are reserved by requests under way)` : "";
  const budget = `its budget of ${text(hard)} ${windowText(window)}`;
  const left = Math.max(0, hard - used - held);
  return `expected ${nameOf(scope)} to have ${text(least[unit])} of ${budget} left, got ${text(left)}${open}`;
}

/** Retry-After is only a header: lines of batches do not wait for the end of a window. */
function budgetExceeded(
  message: string,
  window: BudgetWindow,
  retryAfterMs: number,
  headers: Readonly<Record<string, string>>,
): MillraceError {
  const isEndless = window === "total";
  const retryAfter = isEndless ? {} : { "retry-after": String(Math.max(1, Math.ceil(retryAfterMs / 1000))) };
  return new MillraceError("budget_exceeded", message, {
    hint: isEndless ? "have the budget raised" : `the next ${window} begins in ${hoursText(retryAfterMs)}`,
    headers: { ...headers, ...retryAfter, "x-should-retry": "false" },
  });
}

/** The error of a stream that its budgets no longer pay. */
export function cutStream(): MillraceError {
  return new MillraceError(
    "budget_exceeded",
    "expected a budget that pays for the whole answer, got one that is used up",
    {
      hint: "the answer ends here; have the budget raised, or wait for its next window",
    },
  );
}

/**
 * The error of a request that has cost something, and whose budgets do not pay for another model's answer.
 * @param isHeld other requests hold reservations of the budget, so some of it may come back
 */
export function noneForAnother(isHeld: boolean): MillraceError {
  return new MillraceError(
    "budget_exceeded",
    `expected a budget that pays for another model's answer too, got one that is ${isHeld ? "reserved by requests under way" : "used up"}`,
    {
      hint: isHeld
        ? "wait until other requests of the budget have ended"
        : "have the budget raised, or wait for its next window",
      headers: { "x-should-retry": "false" },
    },
  );
}

export function noPrice(model: string): MillraceError {
  return new MillraceError(
    "price_missing",
    `expected a price of the model ${model.slice(0, MAX_NAME)}, since a budget applies, got none`,
    {
      hint: "give the model a price in the configuration, 0 if it is free",
    },
  );
}

export function noCountedPath(path: string): MillraceError {
  return new MillraceError(
    "price_missing",
    `expected a path whose tokens are counted, since a budget applies, got ${path.slice(0, MAX_NAME)}`,
    {
      hint: "use one of the paths under /v1 that the documentation lists",
    },
  );
}

function hoursText(ms: number): string {
  const minutes = Math.ceil(ms / 60_000);
  return minutes < 120 ? `${minutes} min` : `${Math.ceil(minutes / 60)} h`;
}
