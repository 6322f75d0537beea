/**
 * The effect of each operation on meters and reservations. Stores differ in where these are kept; the Redis store does
 * the same in Lua.
 */
import { type Claims, MAX_MONEY, windowOfKey } from "./claims.js";
import type { Operation, Result } from "./operations.js";
import {
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
   * For money: when the window began. For a bucket: when it was last refilled. It only grows, whatever the clock does.
   */
  readonly at: number;
  /** For money: the amount spent. For a bucket: the units taken from it. */
  readonly used: number;
  /** For money: the amount reserved. For places: the requests under way. */
  readonly held: number;
}

export const NEW_METER: Meter = { at: 0, used: 0, held: 0 };

/** An open reservation, with all that ending it takes. */
export interface Held {
  readonly id: string;
  readonly owner: string;
  readonly money: number;
  readonly tokens: number;
  /** Key and hard limit. */
  readonly moneyKeys: readonly (readonly [string, number])[];
  /** Key and tokens per minute. */
  readonly tokenKeys: readonly (readonly [string, number])[];
  readonly placeKeys: readonly string[];
}

/** Meters and reservations that a turn reads and writes. */
export interface TurnState {
  /** NEW_METER if it was never written. */
  meter(key: string): Meter;
  set(key: string, meter: Meter): void;
  reservation(id: string): Held | undefined;
  /** Also after a change. */
  put(held: Held): void;
  remove(id: string): void;
  numOpen(): number;
  /** Open reservations of gateways whose lease is over. */
  abandoned(): readonly Held[];
}

/** The operations of one turn, in order. Nothing throws. */
export function applyTurn(state: TurnState, operations: readonly Operation[], owner: string, nowMs: number): Result[] {
  return operations.map((operation) => apply(state, operation, owner, nowMs));
}

function apply(state: TurnState, operation: Operation, owner: string, nowMs: number): Result {
  switch (operation.op) {
    case "reserve":
      return reserve(state, operation.reservation, owner, nowMs);
    case "resize":
      return resize(state, operation.id, operation.want, operation.least, nowMs);
    case "settle": {
      const held = state.reservation(operation.id);
      if (held !== undefined) settle(state, held, operation.money, operation.tokens, nowMs);
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

/**
 * A meter of money as it is now: a new window begins with the reserved amount. It is written only with the change that
 * follows.
 */
function rolled(state: TurnState, key: string, nowMs: number): Meter {
  const meter = state.meter(key);
  const at = windowStart(windowOfKey(key), nowMs);
  return at > meter.at ? { at, used: 0, held: meter.held } : meter;
}

/** A bucket as it is now. */
function refilled(state: TurnState, key: string, limit: number, nowMs: number): Meter {
  const meter = state.meter(key);
  if (nowMs <= meter.at) return meter;
  return { at: nowMs, used: Math.max(0, meter.used - (nowMs - meter.at) * limit), held: 0 };
}

function hold(state: TurnState, key: string, money: number, nowMs: number): void {
  const { at, used, held } = rolled(state, key, nowMs);
  state.set(key, { at, used, held: Math.max(0, held + money) });
}

function spend(state: TurnState, key: string, money: number, nowMs: number): void {
  const { at, used, held } = rolled(state, key, nowMs);
  state.set(key, { at, used: Math.min(MAX_MONEY, used + money), held });
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

function reserve(state: TurnState, reservation: Reservation, owner: string, nowMs: number): ReserveResult {
  const { id, claims, wantMoney, tokens } = reservation;
  const before = state.reservation(id);
  if (before !== undefined) return { kind: "reserved", money: before.money, levels: levelsOf(state, claims, nowMs) };
  const refused = refusal(state, reservation, nowMs);
  if (refused !== undefined) return { ...refused, kind: "refused", levels: levelsOf(state, claims, nowMs) };
  const lefts = claims.money.map(({ key, hard }) => leftOf(rolled(state, key, nowMs), hard));
  const money = Math.min(wantMoney, ...lefts);
  for (const { key } of claims.money) hold(state, key, money, nowMs);
  for (const { key, limit } of claims.requests) take(state, key, limit, 1, nowMs);
  for (const { key, limit } of claims.tokens) take(state, key, limit, tokens, nowMs);
  for (const { key } of claims.concurrent) place(state, key, 1);
  state.put({
    id,
    owner,
    money,
    tokens,
    moneyKeys: moneyKeysOf(claims.money),
    tokenKeys: tokenKeysOf(claims.tokens),
    placeKeys: placeKeysOf(claims.concurrent),
  });
  return { kind: "reserved", money, levels: levelsOf(state, claims, nowMs) };
}

/** The lists of claims come with every request of a key, and so do the lists that are made of them. */
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

const moneyKeysOf = once((money: Claims["money"]): Held["moneyKeys"] => money.map(({ key, hard }) => [key, hard]));
const tokenKeysOf = once((tokens: Claims["tokens"]): Held["tokenKeys"] => tokens.map(({ key, limit }) => [key, limit]));
const placeKeysOf = once((places: Claims["concurrent"]): Held["placeKeys"] => places.map(({ key }) => key));

type Refusal = Omit<Extract<ReserveResult, { kind: "refused" }>, "kind" | "levels">;

/** Money first, since waiting a second does not bring it back. */
function refusal(state: TurnState, { claims, leastMoney, tokens }: Reservation, nowMs: number): Refusal | undefined {
  for (const [index, { key, hard, window }] of claims.money.entries()) {
    const meter = rolled(state, key, nowMs);
    if (leftOf(meter, hard) >= leastMoney) continue;
    return { limit: "money", index, retryAfterMs: Math.max(0, windowEnd(window, meter.at) - nowMs) };
  }
  for (const [index, { key, limit }] of claims.concurrent.entries()) {
    if (state.meter(key).held >= limit) return { limit: "concurrent", index, retryAfterMs: 0 };
  }
  for (const [index, { key, limit }] of claims.requests.entries()) {
    const retryAfterMs = waitMs(refilled(state, key, limit, nowMs), limit, 1);
    if (retryAfterMs > 0) return { limit: "requests", index, retryAfterMs };
  }
  for (const [index, { key, limit }] of claims.tokens.entries()) {
    // A request that is larger than a whole minute's tokens waits for a full bucket.
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

function resize(state: TurnState, id: string, want: number, least: number, nowMs: number): ResizeResult {
  const held = state.reservation(id);
  if (held === undefined) return { kind: "gone" };
  let room = MAX_MONEY;
  let isHeld = false;
  for (const [key, hard] of held.moneyKeys) {
    const meter = rolled(state, key, nowMs);
    // The rest of the limit beside this reservation. A window that has begun may have less than is held.
    const free = Math.max(0, leftOf(meter, hard));
    if (held.money + free < least && meter.held > held.money) isHeld = true;
    room = Math.min(room, free);
  }
  const money = Math.min(want, held.money + room);
  if (money < least) return { kind: "refused", isHeld };
  for (const [key] of held.moneyKeys) hold(state, key, money - held.money, nowMs);
  state.put({ ...held, money });
  return { kind: "resized", money };
}

function settle(state: TurnState, held: Held, money: number, tokens: number, nowMs: number): void {
  for (const [key] of held.moneyKeys) {
    hold(state, key, -held.money, nowMs);
    spend(state, key, money, nowMs);
  }
  for (const [key, limit] of held.tokenKeys) take(state, key, limit, tokens - held.tokens, nowMs);
  for (const key of held.placeKeys) place(state, key, -1);
  state.remove(held.id);
}

function charge(state: TurnState, claims: Claims, money: number, tokens: number, nowMs: number): void {
  for (const { key } of claims.money) spend(state, key, money, nowMs);
  for (const { key, limit } of claims.requests) take(state, key, limit, 1, nowMs);
  for (const { key, limit } of claims.tokens) take(state, key, limit, tokens, nowMs);
}

function recover(state: TurnState, nowMs: number): readonly Recovered[] {
  return state.abandoned().map((held) => {
    const { id, money, tokens } = held;
    settle(state, held, money, tokens, nowMs);
    return { id, money, tokens };
  });
}

function levelsOf(state: TurnState, claims: Claims, nowMs: number): Levels {
  return {
    money: claims.money.map(({ key }) => {
      const { at, used, held } = rolled(state, key, nowMs);
      return { used, held, startMs: at };
    }),
    requests: claims.requests.map(({ key, limit }) => refilled(state, key, limit, nowMs).used),
    tokens: claims.tokens.map(({ key, limit }) => refilled(state, key, limit, nowMs).used),
    concurrent: claims.concurrent.map(({ key }) => state.meter(key).held),
  };
}
