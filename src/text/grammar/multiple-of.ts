/** Multiples of a number within bounds, generated digit by digit; the state includes the remainder so far. */
import { automatonExpression, explore } from "./automaton.js";
import { EMPTY, type GrammarWriter, literal, oneOf, oneOfLiterals, sequence } from "./ebnf.js";
import type { NumberBounds } from "./json-number.js";
import { RegexError } from "./regex.js";

/** The step between multiples, as a number of units of 10^-decimals. */
interface Step {
  readonly units: bigint;
  readonly decimals: number;
}

const MAX_DECIMALS = 6;
/** The number of digits unless the bounds require more. */
const MAX_DIGITS = 15;
const MAX_DIGITS_BEFORE_DECIMALS = 9;
/** The limit for states, counted as digits times remainders. */
const MAX_PLACES = 1200;
/**
 * Up to this many multiples are listed one by one. If an automaton would be too large, the smallest ones are listed.
 */
const MAX_LISTED = 300;

/** The least common multiple; undefined: it has more decimals or is larger than the supported numbers. */
export function commonStep(multiples: readonly number[]): Step | undefined {
  const decimals = Math.max(...multiples.map(decimalsOf));
  if (decimals > MAX_DECIMALS) return undefined;
  const units = multiples.map((each) => BigInt(each.toFixed(decimals).replace(".", ""))).reduce(leastCommonMultiple);
  return units < 10n ** BigInt(MAX_DIGITS) ? { units, decimals } : undefined;
}

function decimalsOf(value: number): number {
  let decimals = 0;
  while (decimals <= MAX_DECIMALS && Number(value.toFixed(decimals)) !== value) decimals++;
  return value < 1e15 ? decimals : MAX_DECIMALS + 1;
}

function greatestCommonDivisor(a: bigint, b: bigint): bigint {
  let [x, y] = [a, b];
  while (y !== 0n) [x, y] = [y, x % y];
  return x;
}

const leastCommonMultiple = (a: bigint, b: bigint): bigint => (a / greatestCommonDivisor(a, b)) * b;

/** An inclusive range, in units. */
interface Range {
  readonly low: bigint;
  readonly high: bigint;
}

/** Undefined: the bounds contain no multiple. */
export function multipleExpression(writer: GrammarWriter, step: Step, bounds: NumberBounds): string | undefined {
  const { low, high } = rangeOf(step, bounds);
  const parts: string[] = [];
  if (high >= 0n) parts.push(...magnitudes(writer, step, { low: low > 0n ? low : 0n, high }));
  if (low < 0n) {
    const below = magnitudes(writer, step, { low: high < 0n ? -high : 1n, high: -low });
    parts.push(...below.map((part) => sequence(literal("-"), part)));
  }
  return parts.length === 0 ? undefined : writer.rule(oneOf(parts));
}

function rangeOf({ units, decimals }: Step, bounds: NumberBounds): Range {
  const most = decimals === 0 ? MAX_DIGITS : MAX_DIGITS_BEFORE_DECIMALS + decimals;
  const written = 10n ** BigInt(most) - 1n;
  const low = bounds.min === undefined ? undefined : inUnits(bounds.min, decimals, 1n, bounds.isMinExclusive);
  const high = bounds.max === undefined ? undefined : inUnits(bounds.max, decimals, -1n, bounds.isMaxExclusive);
  // An open side needs no long numbers, and fewer digits take fewer states.
  const numDigits = Number(BigInt(MAX_PLACES) / (units / greatestCommonDivisor(units, 10n ** BigInt(most))));
  const open = 10n ** BigInt(Math.min(most, Math.max(numDigits, String(units).length + 1))) - 1n;
  const wide = (bound: bigint | undefined) => ((bound ?? 0n) > open || (bound ?? 0n) < -open ? written : open);
  return { low: clamp(low ?? -wide(high), written), high: clamp(high ?? wide(low), written) };
}

const clamp = (value: bigint, most: bigint): bigint => (value > most ? most : value < -most ? -most : value);

/** The nearest whole number of units inside a bound. @param inward 1n for a lower bound, -1n for an upper bound */
function inUnits(bound: number, decimals: number, inward: bigint, isExclusive: boolean): bigint {
  const LARGEST = 1e18;
  const DIGITS = 20;
  const exact = BigInt(Math.max(-LARGEST, Math.min(LARGEST, bound)).toFixed(DIGITS).replace(".", ""));
  const unit = 10n ** BigInt(DIGITS - decimals);
  const quotient = exact / unit;
  if (quotient * unit === exact) return isExclusive ? quotient + inward : quotient;
  // BigInt division truncates towards zero.
  const isInside = exact > 0n === inward < 0n;
  return isInside ? quotient : quotient + inward;
}

/** Numbers without a sign, as a list of one expression or none. */
function magnitudes(writer: GrammarWriter, step: Step, range: Range): string[] {
  const first = ((range.low + step.units - 1n) / step.units) * step.units;
  if (first > range.high) return [];
  if ((range.high - first) / step.units < MAX_LISTED) return [listed(writer, step, first, range.high)];
  try {
    const places = new Places(step, range);
    const automaton = explore<string, Place>(
      START,
      (place) => places.keyOf(place),
      (place) => places.expand(place),
    );
    return automaton === undefined ? [] : [automatonExpression(writer, automaton, (label) => label, EMPTY)];
  } catch (thrown) {
    if (!(thrown instanceof RegexError)) throw thrown;
    return [listed(writer, step, first, first + step.units * BigInt(MAX_LISTED - 1))];
  }
}

function listed(writer: GrammarWriter, { units, decimals }: Step, first: bigint, last: bigint): string {
  const texts: string[] = [];
  for (let each = first; each <= last; each += units) texts.push(textOf(each, decimals));
  return oneOfLiterals(writer, texts);
}

function textOf(units: bigint, decimals: number): string {
  const digits = String(units).padStart(decimals + 1, "0");
  const fraction = decimals === 0 ? "" : digits.slice(-decimals).replace(/0+$/, "");
  const whole = digits.slice(0, digits.length - decimals);
  return fraction === "" ? whole : `${whole}.${fraction}`;
}

/** The state after some of a number's digits. */
interface Place {
  /** The total number of digits before the point; 0: the start state. */
  readonly numWhole: number;
  readonly numRead: number;
  readonly isBehindPoint: boolean;
  /** All digits so far equal the lower bound's. */
  readonly isAtLow: boolean;
  readonly isAtHigh: boolean;
  readonly remainder: bigint;
}

const START: Place = {
  numWhole: 0,
  numRead: 0,
  isBehindPoint: false,
  isAtLow: false,
  isAtHigh: false,
  remainder: 0n,
};

class Places {
  readonly #low: string;
  readonly #high: string;

  constructor(
    private readonly step: Step,
    { low, high }: Range,
  ) {
    this.#low = String(low).padStart(step.decimals + 1, "0");
    this.#high = String(high).padStart(step.decimals + 1, "0");
  }

  /** States that have left both bounds differ only in their remaining digits and remainder. */
  keyOf(place: Place): string {
    const { numWhole, numRead, isBehindPoint, isAtLow, isAtHigh, remainder } = place;
    if (numWhole === 0) return "start";
    const at = isAtLow || isAtHigh ? `${numWhole}${isAtLow ? "<" : ""}${isAtHigh ? ">" : ""}` : "";
    return `${at}${this.#numLeft(place)}${isBehindPoint ? "." : ""}${numRead === numWhole ? "|" : ""}:${remainder}`;
  }

  expand(place: Place) {
    const { decimals } = this.step;
    const { numWhole, numRead, isBehindPoint } = place;
    if (numWhole === 0) return { isFinal: false, edges: this.#beginnings() };
    const edges: { label: string; to: Place }[] = [];
    const isAtPoint = numRead === numWhole && !isBehindPoint;
    if (isAtPoint) {
      if (decimals > 0) edges.push({ label: literal("."), to: { ...place, isBehindPoint: true } });
    } else if (this.#numLeft(place) > 0) edges.push(...this.#digits(place));
    const mayEnd = numRead > numWhole || isAtPoint;
    return { isFinal: mayEnd && this.#isMultipleWithZeros(place), edges };
  }

  #numLeft({ numWhole, numRead }: Place): number {
    return numWhole + this.step.decimals - numRead;
  }

  #beginnings() {
    const { decimals } = this.step;
    const edges: { label: string; to: Place }[] = [];
    const [fewest, most] = [this.#low, this.#high].map((bound) => bound.length - decimals) as [number, number];
    for (let numWhole = fewest; numWhole <= most; numWhole++) {
      const isAtLow = numWhole === fewest;
      const begin = { ...START, numWhole, isAtLow, isAtHigh: numWhole === most };
      edges.push(...this.#digits(begin, numWhole > 1 ? 1 : 0));
    }
    return edges;
  }

  #digits(place: Place, least = 0) {
    const { numRead, isAtLow, isAtHigh } = place;
    const [low, high] = [this.#low, this.#high].map((bound) => Number(bound[numRead] ?? 0)) as [number, number];
    const ways = new Map<string, { to: Place; digits: string }>();
    for (let digit = Math.max(least, isAtLow ? low : 0); digit <= (isAtHigh ? high : 9); digit++) {
      const next: Place = {
        ...place,
        numRead: numRead + 1,
        isAtLow: isAtLow && digit === low,
        isAtHigh: isAtHigh && digit === high,
        remainder: place.remainder * 10n + BigInt(digit),
      };
      // Remainders that are equal modulo this number behave alike for all further digits.
      const behind = 10n ** BigInt(this.#numLeft(next));
      const to = {
        ...next,
        remainder: next.remainder % (this.step.units / greatestCommonDivisor(this.step.units, behind)),
      };
      const key = this.keyOf(to);
      const known = ways.get(key);
      if (known === undefined) ways.set(key, { to, digits: String(digit) });
      else known.digits += digit;
    }
    return [...ways.values()].map(({ to, digits }) => ({ label: `[${digits}]`, to }));
  }

  /** Whether the number, completed with zeros, is a multiple within the bounds. */
  #isMultipleWithZeros(place: Place): boolean {
    const behind = 10n ** BigInt(this.#numLeft(place));
    if ((place.remainder * behind) % this.step.units !== 0n) return false;
    return !place.isAtLow || /^0*$/.test(this.#low.slice(place.numRead));
  }
}
