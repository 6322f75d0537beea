/** JSON numbers within bounds, digit by digit. */
import { EMPTY, type GrammarWriter, literal, oneOf, repeat, sequence } from "./ebnf.js";

export interface NumberBounds {
  readonly min: number | undefined;
  readonly max: number | undefined;
  readonly isMinExclusive: boolean;
  readonly isMaxExclusive: boolean;
}

/**
 * Larger numbers are left out: up to this limit, doubles represent all numbers of this many digits, decimals included,
 * without collisions.
 */
const LARGEST = 999_999_999;
const LARGEST_INTEGER = 999_999_999_999_999;
const FRACTION_DIGITS = 6;
const SMALLEST = 10 ** -FRACTION_DIGITS;

/** The digits before and after the decimal point, as text: [whole, fraction]. */
type Decimal = readonly [whole: string, fraction: string];

/**
 * The nearest bound inside the range that has at most FRACTION_DIGITS decimals.
 * @param inward 1 for a lower bound, -1 for an upper bound
 */
function written(bound: number, inward: 1 | -1, isExclusive: boolean): Limit {
  const rounded = Number(bound.toFixed(FRACTION_DIGITS));
  if (rounded === bound) return { bound, isExclusive };
  const isInside = (rounded - bound) * inward > 0;
  return {
    bound: isInside ? rounded : Number((rounded + inward * SMALLEST).toFixed(FRACTION_DIGITS)),
    isExclusive: false,
  };
}

const isBeyond = (bound: number, most: number): boolean => Math.abs(bound) > most;

/** Undefined: no integer is within the bounds. */
export function integerExpression(writer: GrammarWriter, bounds: NumberBounds): string | undefined {
  const { isMinExclusive, isMaxExclusive } = bounds;
  const min = Math.max(bounds.min ?? -LARGEST_INTEGER, -LARGEST_INTEGER);
  const max = Math.min(bounds.max ?? LARGEST_INTEGER, LARGEST_INTEGER);
  const low = isMinExclusive && Number.isInteger(min) ? min + 1 : Math.ceil(min);
  const high = isMaxExclusive && Number.isInteger(max) ? max - 1 : Math.floor(max);
  const parts: string[] = [];
  if (high >= 0 && low <= high) parts.push(wholeBetween(String(Math.max(low, 0)), String(high)));
  if (low < 0 && low <= high) {
    parts.push(sequence(literal("-"), wholeBetween(String(Math.max(-high, 1)), String(-low))));
  }
  return parts.length === 0 ? undefined : writer.rule(oneOf(parts));
}

/**
 * Undefined: no number of so few digits is within the bounds.
 * @param numDecimals the largest number of decimals
 */
export function numberExpression(
  writer: GrammarWriter,
  bounds: NumberBounds,
  numDecimals = FRACTION_DIGITS,
): string | undefined {
  const isFree = [bounds.min, bounds.max].every((bound) => bound === undefined || isBeyond(bound, LARGEST_INTEGER));
  if (isFree && numDecimals === FRACTION_DIGITS && isOfBothSigns(bounds)) return writer.rule(ANY_NUMBER);
  const low = written(Math.max(bounds.min ?? -LARGEST, -LARGEST), 1, bounds.isMinExclusive);
  const high = written(Math.min(bounds.max ?? LARGEST, LARGEST), -1, bounds.isMaxExclusive);
  // Beyond the largest numbers with decimals only integers remain.
  if (low.bound > LARGEST || high.bound < -LARGEST) return integerExpression(writer, bounds);
  if (low.bound > high.bound) return undefined;
  const parts: string[] = [];
  if (high.bound >= 0) {
    parts.push(...decimalsBetween(low.bound < 0 ? { bound: 0, isExclusive: false } : low, high, numDecimals));
  }
  if (low.bound < 0) {
    const near = high.bound >= 0 ? { bound: 0, isExclusive: true } : { ...high, bound: -high.bound };
    const negative = decimalsBetween(near, { ...low, bound: -low.bound }, numDecimals);
    if (negative.length > 0) parts.push(sequence(literal("-"), oneOf(negative)));
  }
  return parts.length === 0 ? undefined : writer.rule(oneOf(parts));
}

/** The bounds leave both signs (or zero) possible. */
const isOfBothSigns = ({ min, max }: NumberBounds): boolean => (min ?? 0) <= 0 && (max ?? 0) >= 0;

const ANY_NUMBER = `"-"? ("0" | [1-9] [0-9]{0,14} | ("0" | [1-9] [0-9]{0,8}) "." [0-9]{1,${FRACTION_DIGITS}})`;

interface Limit {
  readonly bound: number;
  readonly isExclusive: boolean;
}

function decimalOf(bound: number): Decimal {
  const [whole, fraction = ""] = bound.toFixed(FRACTION_DIGITS).split(".");
  return [whole!, fraction.replace(/0+$/, "")];
}

/** Non-negative decimals as alternatives. */
function decimalsBetween(low: Limit, high: Limit, numDecimals: number): string[] {
  if (low.bound > high.bound) return [];
  const [lowWhole, lowFraction] = decimalOf(low.bound);
  const [highWhole, highFraction] = decimalOf(high.bound);
  const atLow = { digits: lowFraction, isExclusive: low.isExclusive };
  const atHigh = { digits: highFraction, isExclusive: high.isExclusive };
  if (lowWhole === highWhole) return withFraction(lowWhole, fraction(atLow, atHigh, numDecimals));
  const [first, last] = [Number(lowWhole), Number(highWhole)];
  const between = wholeBetween(String(first + 1), String(last - 1));
  return [
    ...withFraction(lowWhole, fraction(atLow, undefined, numDecimals)),
    ...(last - first > 1 ? [sequence(between, repeat(`"." ${repeat("[0-9]", 1, numDecimals)}`, 0, 1))] : []),
    ...withFraction(highWhole, fraction(undefined, atHigh, numDecimals)),
  ];
}

function withFraction(whole: string, { mayEnd, digits }: Fraction): string[] {
  return [
    ...(mayEnd ? [literal(whole)] : []),
    ...(digits === undefined ? [] : [sequence(literal(whole), literal("."), digits)]),
  ];
}

/** The remaining digits of a bound whose digits so far equal the number's. */
interface Tight {
  readonly digits: string;
  readonly isExclusive: boolean;
}

interface Fraction {
  /** Whether the number may end here. */
  readonly mayEnd: boolean;
  /** One or more further digits; undefined: no digit can follow. */
  readonly digits: string | undefined;
}

/**
 * The remaining digits of a fraction between the remaining digits of both bounds; undefined: unbounded on that side.
 */
function fraction(low: Tight | undefined, high: Tight | undefined, numDigits: number): Fraction {
  const mayEnd =
    (low === undefined || (low.digits === "" && !low.isExclusive)) &&
    (high === undefined || high.digits !== "" || !high.isExclusive);
  if (numDigits === 0) return { mayEnd, digits: undefined };
  if (low === undefined && high === undefined) return { mayEnd, digits: repeat("[0-9]", 1, numDigits) };
  const alternatives: string[] = [];
  const isBelow = (digit: number) => low !== undefined && digit < firstOf(low);
  const isAbove = (digit: number) => high !== undefined && digit > firstOf(high);
  const free = [];
  for (let digit = 0; digit <= 9; digit++) {
    if (isBelow(digit) || isAbove(digit)) continue;
    const isAtLow = low !== undefined && digit === firstOf(low);
    const isAtHigh = high !== undefined && digit === firstOf(high);
    if (!isAtLow && !isAtHigh) {
      free.push(digit);
      continue;
    }
    const rest = fraction(isAtLow ? restOf(low) : undefined, isAtHigh ? restOf(high) : undefined, numDigits - 1);
    if (rest.mayEnd) alternatives.push(literal(String(digit)));
    if (rest.digits !== undefined) alternatives.push(sequence(literal(String(digit)), rest.digits));
  }
  if (free.length > 0) alternatives.push(sequence(`[${free.join("")}]`, repeat("[0-9]", 0, numDigits - 1)));
  return { mayEnd, digits: alternatives.length === 0 ? undefined : oneOf(alternatives) };
}

const firstOf = ({ digits }: Tight): number => Number(digits[0] ?? "0");
const restOf = ({ digits, isExclusive }: Tight): Tight => ({ digits: digits.slice(1), isExclusive });

/** Whole numbers between two inclusive bounds; none has leading zeros. */
function wholeBetween(low: string, high: string): string {
  const alternatives: string[] = [];
  for (let length = low.length; length <= high.length; length++) {
    const first = length === low.length ? low : `1${"0".repeat(length - 1)}`;
    const last = length === high.length ? high : "9".repeat(length);
    alternatives.push(digitsBetween(first, last));
  }
  return oneOf(alternatives);
}

/** Whole numbers that all have the bounds' number of digits. */
function digitsBetween(first: string, last: string): string {
  if (first === "") return EMPTY;
  const [low, high] = [Number(first[0]), Number(last[0])];
  const rest = first.length - 1;
  if (/^0*$/.test(first.slice(1)) && /^9*$/.test(last.slice(1))) {
    return sequence(`[${low}-${high}]`, repeat("[0-9]", rest, rest));
  }
  if (low === high) return sequence(literal(first[0]!), digitsBetween(first.slice(1), last.slice(1)));
  const alternatives = [sequence(literal(first[0]!), digitsBetween(first.slice(1), "9".repeat(rest)))];
  if (high - low > 1) alternatives.push(sequence(`[${low + 1}-${high - 1}]`, repeat("[0-9]", rest, rest)));
  alternatives.push(sequence(literal(last[0]!), digitsBetween("0".repeat(rest), last.slice(1))));
  return oneOf(alternatives);
}
