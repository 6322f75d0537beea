/** The errors of requests that a limit refuses. */
import { MillraceError } from "../../core/errors.js";
import { formatDollars } from "../money.js";
import type { Claims, LimitedScope, MoneyClaim } from "./claims.js";
import type { ReserveResult } from "./store.js";

type Refused = Extract<ReserveResult, { kind: "refused" }>;

/** Official clients wait for at most this long, and repeat a request at once where they are told more. */
const MAX_RETRY_S = 60;
const MAX_NAME = 80;

export const nameOf = ({ kind, id }: LimitedScope): string => `${kind} ${id.slice(0, MAX_NAME)}`;

/** @example budgetName(claim) // "its budget of 5 $ per day" */
const budgetName = ({ window, hard }: MoneyClaim): string =>
  `its budget of ${formatDollars(BigInt(hard))} $ per ${window}`;

/**
 * Is the budget short only because of other requests' reservations? Some of them are returned when the requests end.
 */
export function isReservedByOthers({ limit, index, levels }: Refused, claims: Claims, least: number): boolean {
  if (limit !== "money") return false;
  const { used, held } = levels.money[index]!;
  return held > 0 && claims.money[index]!.hard - used >= least;
}

/** @param least nano-dollars that the request needs */
export function refusal(
  refused: Refused,
  claims: Claims,
  least: number,
  headers: Readonly<Record<string, string>>,
): MillraceError {
  const { limit, index, levels, retryAfterMs } = refused;
  if (limit === "money") {
    const claim = claims.money[index]!;
    const { used, held } = levels.money[index]!;
    const left = Math.max(0, claim.hard - used - held);
    const open = held > 0 ? ` (${formatDollars(BigInt(held))} $ are reserved by requests under way)` : "";
    const scope = nameOf(claim.scope);
    const message = `expected ${scope} to have ${formatDollars(BigInt(least))} $ of ${budgetName(claim)} left, got ${formatDollars(BigInt(left))} $${open}`;
    return new MillraceError("budget_exceeded", message, {
      hint: `the next ${claim.window} begins in ${hoursText(retryAfterMs)}`,
      headers: { ...headers, "x-should-retry": "false" },
    });
  }
  const claim = claims[limit][index]!;
  const what = { requests: "requests per minute", tokens: "tokens per minute", concurrent: "requests at a time" }[
    limit
  ];
  const message = `expected at most ${claim.limit} ${what} of ${nameOf(claim.scope)}, got more`;
  // When a place becomes free is not known.
  const seconds = limit === "concurrent" ? 1 : Math.max(1, Math.ceil(retryAfterMs / 1000));
  return new MillraceError("rate_limit_exceeded", message, {
    hint: "retry after the time in Retry-After, or have the limit raised",
    retryAfterSeconds: seconds,
    headers: seconds > MAX_RETRY_S ? { ...headers, "x-should-retry": "false" } : headers,
  });
}

/** The end of a stream that its budgets do not pay any further. */
export function cutStream(): MillraceError {
  return new MillraceError(
    "budget_exceeded",
    "expected a budget that pays for the whole answer, got one that is used up",
    {
      hint: "the answer ends here; have the budget raised, or wait for its next window",
    },
  );
}

/** The end of a request that has cost something, and whose budgets do not pay for another model's answer. */
export function noneForAnother(): MillraceError {
  return new MillraceError(
    "budget_exceeded",
    "expected a budget that pays for another model's answer too, got one that is used up",
    {
      hint: "have the budget raised, or wait for its next window",
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
