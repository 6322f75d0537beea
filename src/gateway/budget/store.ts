/**
 * The interface of stores that count limits. A reservation claims amounts of budgets, tokens per minute, a request and
 * a place of all scopes of a request in one atomic turn, or nothing; it is settled with the used amounts. Spending and
 * reservations together never exceed a hard limit, unless a settlement is larger than its reservation.
 *
 * Money is nano-dollars; all amounts are safe integers. Times are milliseconds since 1970. A store rejects with
 * budget_store_failed if it cannot be reached in time; the operation may have been done even then.
 */
import type { BudgetUnit } from "../scope.js";
import type { Claims } from "./claims.js";

/** An amount in each unit of budgets. */
export type Amounts = Readonly<Record<BudgetUnit, number>>;

export const NO_AMOUNTS: Amounts = { money: 0, tokens: 0 };

export interface Reservation {
  /** Unique to the reservation: a second `reserve` with it changes nothing. */
  readonly id: string;
  readonly claims: Claims;
  /** Reserved if all budgets of the unit have it. */
  readonly want: Amounts;
  /** With less than this, the request is refused. */
  readonly least: Amounts;
  /** Estimate of prompt and output together, for the buckets of tokens per minute. */
  readonly tokens: number;
}

/** The meters after an operation, in the order of the claims. */
export interface Levels {
  /** Spent and reserved in the window, and the window's start. */
  readonly budgets: readonly { readonly used: number; readonly held: number; readonly startMs: number }[];
  /** Taken from each bucket, in units: a minute refills 60,000 × the limit. */
  readonly requests: readonly number[];
  readonly tokens: readonly number[];
  /** Requests under way. */
  readonly concurrent: readonly number[];
}

export type Limit = "budget" | "requests" | "tokens" | "concurrent";

export type ReserveResult =
  | { readonly kind: "reserved"; readonly amounts: Amounts; readonly levels: Levels }
  | {
      readonly kind: "refused";
      readonly limit: Limit;
      /** Index of the claim in its list. */
      readonly index: number;
      /** When a bucket has enough, or when a budget's window ends. 0: unknown. */
      readonly retryAfterMs: number;
      readonly levels: Levels;
    };

export type ResizeResult =
  /** @property money in the unit that was resized */
  | { readonly kind: "resized"; readonly money: number }
  /** @property isHeld other requests hold reservations of the budget, so some of it may come back */
  | { readonly kind: "refused"; readonly isHeld: boolean }
  /** The reservation has become a charge, since this gateway was silent too long. */
  | { readonly kind: "gone" };

/** A lost gateway's reservation that has become a charge. */
export interface Recovered {
  readonly id: string;
  readonly money: number;
  readonly tokens: number;
}

export interface BudgetStore {
  reserve(reservation: Reservation): Promise<ReserveResult>;
  /**
   * Changes a unit's reserved amount to `want`, or to as much as there is, unless that is below `least`. A smaller
   * amount is always possible.
   */
  resize(id: string, unit: BudgetUnit, want: number, least: number): Promise<ResizeResult>;
  /**
   * Settles a reservation with the used amounts: `tokens` are those of budgets and of buckets.
   * @returns false: the reservation has become a charge or was settled before
   */
  settle(id: string, money: number, tokens: number): Promise<boolean>;
  /** Charges the used amounts without a reservation. */
  charge(claims: Claims, money: number, tokens: number): Promise<void>;
  read(claims: Claims): Promise<Levels>;
  /**
   * Renews the lease on this gateway's reservations, and turns those of gateways whose lease is over into charges.
   * Called every few seconds.
   */
  tend(): Promise<readonly Recovered[]>;
  /** Open reservations of all gateways. */
  numOpen(): Promise<number>;
  /** Does not wait for requests: their reservations stay until another gateway finds them. */
  close(): Promise<void>;
}

/** Time for which a gateway may be silent before its reservations become charges. */
export const LEASE_MS = 30_000;
export const TEND_MS = 5_000;
/**
 * Age at which unchanged meters are deleted at the start: longer than any window that ends, so they equal new ones. A
 * total's begins at 0.
 */
export const STALE_MS = 63 * 24 * 3_600_000;
/**
 * Units of a bucket in one request or token: a bucket then refills by a whole number each millisecond, and no fraction
 * is lost.
 */
export const UNITS = 60_000;
