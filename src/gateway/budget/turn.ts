/**
 * The effect of each operation on meters and reservations. Stores differ in where they keep these; the Redis store does
 * the same in Lua.
 */
import type { BudgetUnit } from "../scope.js";
import { type Claims, MAX_AMOUNT, unitOfKey, windowOfKey } from "./claims.js";
import type { Operation, Result } from "./operations.js";
import {
  type Amounts,
  type Levels,
  type Recovered,
  type Reservation,
  type ReserveResult,
  type ResizeResult,
  UNITS,
} from "./store.js";
import { windowEnd, windowStart } from "./windows.js";

export interface Meter {
  /**
   * For a budget: when the window began. For a bucket: when it was last refilled. It only grows, even if the clock goes
   * back.
   */
  readonly at: number;
  /** For a budget: the amount spent. For a bucket: the units taken from it. */
  readonly used: number;
  /** For a budget: the amount reserved. For places: the requests under way. */
  readonly held: number;
}

export const NEW_METER: Meter = { at: 0, used: 0, held: 0 };

/** An open reservation, with everything needed to end it. */
export interface Held {
  readonly id: string;
  readonly owner: string;
  readonly money: number;
  /** Reserved of budgets of tokens. Absent: an earlier version made the reservation. */
  readonly budgetTokens?: number | undefined;
  /** Taken from the buckets of tokens per minute. */
  readonly tokens: number;
  /** Key and hard limit of each budget, of either unit: the name is older than budgets of tokens. */
  readonly moneyKeys: readonly (readonly [string, number])[];
  /** Key and tokens per minute. */
  readonly tokenKeys: readonly (readonly [string, number])[];
  readonly placeKeys: readonly string[];
}

/** Meters and reservations that a turn reads and writes. */
export interface TurnState {
  /** NEW_METER if the meter was never written. */
  meter(key: string): Meter;
  set(key: string, meter: Meter): void;
  reservation(id: string): Held | undefined;
  /** Adds or replaces a reservation. */
  put(held: Held): void;
  remove(id: string): void;
  numOpen(): number;
  /** Open reservations of gateways whose lease is over. */
  abandoned(): readonly Held[];
}

/** Applies the operations of one turn, in order. Never throws. */
export function applyTurn(state: TurnState, operations: readonly Operation[], owner: string, nowMs: number): Result[] {
  return operations.map((operation) => apply(state, operation, owner, nowMs));
}

function apply(state: TurnState, operation: Operation, owner: string, nowMs: number): Result {
  switch (operation.op) {
    case "reserve":
      return reserve(state, operation.reservation, owner, nowMs);
    case "resize":
      return resize(state, operation, nowMs);
    case "settle": {
      const held = state.reservation(operation.id);
      if (held !== undefined) settle(state, held, operation, operation.tokens, nowMs);
      return held !== undefined;
    }
    case "charge":
      charge(state, operation.claims, operation.money, operation.tokens, nowMs);
      return null;
    case "read":
      return levelsOf(state, operation.claims, nowMs);
    case "recover":
      return recover(state, nowMs);
    case "count":
      return state.numOpen();
  }
}

/** A budget's current meter: a new window begins with the reserved amount. The next change writes it. */
function rolled(state: TurnState, key: string, nowMs: number): Meter {
  const meter = state.meter(key);
  const at = windowStart(windowOfKey(key), nowMs);
  return at > meter.at ? { at, used: 0, held: meter.held } : meter;
}

/** A bucket refilled up to now. */
function refilled(state: TurnState, key: string, limit: number, nowMs: number): Meter {
  const meter = state.meter(key);
  if (nowMs <= meter.at) return meter;
  return { at: nowMs, used: Math.max(0, meter.used - (nowMs - meter.at) * limit), held: 0 };
}

function hold(state: TurnState, key: string, amount: number, nowMs: number): void {
  const { at, used, held } = rolled(state, key, nowMs);
  state.set(key, { at, used, held: Math.max(0, held + amount) });
}

function spend(state: TurnState, key: string, amount: number, nowMs: number): void {
  const { at, used, held } = rolled(state, key, nowMs);
  state.set(key, { at, used: Math.min(MAX_AMOUNT, used + amount), held });
}

function take(state: TurnState, key: string, limit: number, count: number, nowMs: number): void {
  const { at, used } = refilled(state, key, limit, nowMs);
  state.set(key, { at, used: Math.max(0, used + count * UNITS), held: 0 });
}

function place(state: TurnState, key: string, by: number): void {
  const { at, used, held } = state.meter(key);
  state.set(key, { at, used, held: Math.max(0, held + by) });
}

const leftOf = ({ used, held }: Meter, hard: number): number => hard - used - held;

/** Reserved amounts of budgets. */
export const amountsOf = ({ money, budgetTokens = 0 }: Held): Amounts => ({ money, tokens: budgetTokens });

function reserve(state: TurnState, reservation: Reservation, owner: string, nowMs: number): ReserveResult {
  const { id, claims, want, tokens } = reservation;
  const before = state.reservation(id);
  if (before !== undefined) {
    return { kind: "reserved", amounts: amountsOf(before), levels: levelsOf(state, claims, nowMs) };
  }
  const refused = refusal(state, reservation, nowMs);
  if (refused !== undefined) return { ...refused, kind: "refused", levels: levelsOf(state, claims, nowMs) };
  const amounts = { ...want };
  for (const { key, unit, hard } of claims.budgets) {
    amounts[unit] = Math.min(amounts[unit], leftOf(rolled(state, key, nowMs), hard));
  }
  for (const { key, unit } of claims.budgets) hold(state, key, amounts[unit], nowMs);
  for (const { key, limit } of claims.requests) take(state, key, limit, 1, nowMs);
  for (const { key, limit } of claims.tokens) take(state, key, limit, tokens, nowMs);
  for (const { key } of claims.concurrent) place(state, key, 1);
  state.put({
    id,
    owner,
    money: amounts.money,
    budgetTokens: amounts.tokens,
    tokens,
    moneyKeys: moneyKeysOf(claims.budgets),
    tokenKeys: tokenKeysOf(claims.tokens),
    placeKeys: placeKeysOf(claims.concurrent),
  });
  return { kind: "reserved", amounts, levels: levelsOf(state, claims, nowMs) };
}

/** Computes the result once for each list: every request of a key has the same lists of claims. */
function once<List extends object, Keys>(make: (list: List) => Keys): (list: List) => Keys {
  const known = new WeakMap<List, Keys>();
  return (list) => {
    const before = known.get(list);
    if (before !== undefined) return before;
    const keys = make(list);
    known.set(list, keys);
    return keys;
  };
}

const moneyKeysOf = once((budgets: Claims["budgets"]): Held["moneyKeys"] =>
  budgets.map(({ key, hard }) => [key, hard]),
);
const tokenKeysOf = once((tokens: Claims["tokens"]): Held["tokenKeys"] => tokens.map(({ key, limit }) => [key, limit]));
const placeKeysOf = once((places: Claims["concurrent"]): Held["placeKeys"] => places.map(({ key }) => key));

type Refusal = Omit<Extract<ReserveResult, { kind: "refused" }>, "kind" | "levels">;

/** Budgets first, since waiting a second does not bring them back. */
function refusal(state: TurnState, { claims, least, tokens }: Reservation, nowMs: number): Refusal | undefined {
  for (const [index, { key, unit, hard, window }] of claims.budgets.entries()) {
    const meter = rolled(state, key, nowMs);
    if (leftOf(meter, hard) >= least[unit]) continue;
    const endMs = windowEnd(window, meter.at) ?? nowMs;
    return { limit: "budget", index, retryAfterMs: Math.max(0, endMs - nowMs) };
  }
  for (const [index, { key, limit }] of claims.concurrent.entries()) {
    if (state.meter(key).held >= limit) return { limit: "concurrent", index, retryAfterMs: 0 };
  }
  for (const [index, { key, limit }] of claims.requests.entries()) {
    const retryAfterMs = waitMs(refilled(state, key, limit, nowMs), limit, 1);
    if (retryAfterMs > 0) return { limit: "requests", index, retryAfterMs };
  }
  for (const [index, { key, limit }] of claims.tokens.entries()) {
    // A request larger than a whole minute's tokens waits for a full bucket.
    const retryAfterMs = waitMs(refilled(state, key, limit, nowMs), limit, Math.min(tokens, limit));
    if (retryAfterMs > 0) return { limit: "tokens", index, retryAfterMs };
  }
  return undefined;
}

/** Milliseconds until a bucket has room for `count`. A limit of 0 never has. */
function waitMs({ used }: Meter, limit: number, count: number): number {
  if (limit === 0) return UNITS;
  return Math.max(0, Math.ceil((used + count * UNITS - limit * UNITS) / limit));
}

interface Resizing {
  readonly id: string;
  readonly unit: BudgetUnit;
  readonly want: number;
  readonly least: number;
}

function resize(state: TurnState, { id, unit, want, least }: Resizing, nowMs: number): ResizeResult {
  const held = state.reservation(id);
  if (held === undefined) return { kind: "gone" };
  const before = amountsOf(held)[unit];
  const budgets = held.moneyKeys.filter(([key]) => unitOfKey(key) === unit);
  let room = MAX_AMOUNT;
  let isHeld = false;
  for (const [key, hard] of budgets) {
    const meter = rolled(state, key, nowMs);
    // The rest of the limit beside this reservation. A new window may have less than is held.
    const free = Math.max(0, leftOf(meter, hard));
    if (before + free < least && meter.held > before) isHeld = true;
    room = Math.min(room, free);
  }
  const amount = Math.min(want, before + room);
  if (amount < least) return { kind: "refused", isHeld };
  for (const [key] of budgets) hold(state, key, amount - before, nowMs);
  state.put({ ...held, [unit === "money" ? "money" : "budgetTokens"]: amount });
  return { kind: "resized", money: amount };
}

function settle(state: TurnState, held: Held, used: Amounts, tokens: number, nowMs: number): void {
  const reserved = amountsOf(held);
  for (const [key] of held.moneyKeys) {
    const unit = unitOfKey(key);
    hold(state, key, -reserved[unit], nowMs);
    spend(state, key, used[unit], nowMs);
  }
  for (const [key, limit] of held.tokenKeys) take(state, key, limit, tokens - held.tokens, nowMs);
  for (const key of held.placeKeys) place(state, key, -1);
  state.remove(held.id);
}

function charge(state: TurnState, claims: Claims, money: number, tokens: number, nowMs: number): void {
  const used = { money, tokens };
  for (const { key, unit } of claims.budgets) spend(state, key, used[unit], nowMs);
  for (const { key, limit } of claims.requests) take(state, key, limit, 1, nowMs);
  for (const { key, limit } of claims.tokens) take(state, key, limit, tokens, nowMs);
}

function recover(state: TurnState, nowMs: number): readonly Recovered[] {
  return state.abandoned().map((held) => {
    const { id, money, tokens } = held;
    settle(state, held, amountsOf(held), tokens, nowMs);
    return { id, money, tokens };
  });
}

function levelsOf(state: TurnState, claims: Claims, nowMs: number): Levels {
  return {
    budgets: claims.budgets.map(({ key }) => {
      const { at, used, held } = rolled(state, key, nowMs);
      return { used, held, startMs: at };
    }),
    requests: claims.requests.map(({ key, limit }) => refilled(state, key, limit, nowMs).used),
    tokens: claims.tokens.map(({ key, limit }) => refilled(state, key, limit, nowMs).used),
    concurrent: claims.concurrent.map(({ key }) => state.meter(key).held),
  };
}
