/** Numbers with their units, dates and times, each in one form: `five kilometres`, `5km` and `5 km` are all `5 km`. */
import {
  AMBIGUOUS_MONTHS,
  ENGLISH_NUMBERS,
  FIXED_NUMBERS,
  FOREIGN_NUMBERS,
  MONTHS,
  ORDINALS,
  SCALES,
  SUFFIX_SCALES,
  UNITS,
  WEEKDAYS,
} from "../words/numbers.js";
import type { Token } from "./tokens.js";

/** A token, or several of them that are one quantity. */
export interface Unit {
  readonly token: Token;
  /** Its one form; undefined: it is not a quantity. */
  readonly quantity: string | undefined;
}

/** Words before which `one` is a pronoun. */
const BEFORE_PRONOUN_ONE = new Set([
  "which",
  "this",
  "that",
  "the",
  "any",
  "no",
  "every",
  "each",
  "some",
  "another",
  "does",
  "can",
  "should",
  "would",
  "do",
  "is",
]);

export function unitsOf(tokens: readonly Token[]): Unit[] {
  const units: Unit[] = [];
  for (let at = 0; at < tokens.length; ) {
    const read = readTime(tokens, at) ?? readNumber(tokens, at) ?? readNamedDay(tokens, at);
    if (read === undefined) {
      units.push({ token: tokens[at]!, quantity: undefined });
      at++;
      continue;
    }
    units.push({ token: tokens[at]!, quantity: read.quantity });
    at = read.end;
  }
  return units;
}

interface Read {
  readonly quantity: string;
  readonly end: number;
}

/** 3 pm, 3:00 p.m. and 15:00 are one time; noon and midnight are times too. */
function readTime(tokens: readonly Token[], at: number): Read | undefined {
  const { kind, lower } = tokens[at]!;
  if (lower === "noon" || lower === "midday") return { quantity: "12:00", end: at + 1 };
  if (lower === "midnight") return { quantity: "0:00", end: at + 1 };
  if (kind !== "number") return undefined;
  const match = /^(\d{1,2})(?::(\d{2}))?(?::(\d{2}))?\s?(?:([ap])\.?m\.?)?$/.exec(lower);
  if (match === null) return undefined;
  const [, hours, minutes, seconds, half] = match;
  const next = tokens[at + 1]?.lower;
  const isNextHalf = half === undefined && /^[ap]m$/.test(next ?? "");
  const letter = half ?? (isNextHalf ? next![0] : undefined);
  if (minutes === undefined && letter === undefined) return undefined;
  const hour = letter === undefined ? Number(hours) : (Number(hours) % 12) + (letter === "p" ? 12 : 0);
  const rest = seconds === undefined || seconds === "00" ? "" : `:${seconds}`;
  return { quantity: `${hour}:${minutes ?? "00"}${rest}`, end: at + (isNextHalf ? 2 : 1) };
}

function readNumber(tokens: readonly Token[], at: number): Read | undefined {
  const token = tokens[at]!;
  const start = token.kind === "number" ? digitsOf(token.lower) : wordsNumber(tokens, at);
  if (start === undefined) return undefined;
  let { value, unit, end } = { unit: undefined as string | undefined, end: at + 1, ...start };
  const scale = SCALES.get(tokens[end]?.lower ?? "");
  if (scale !== undefined && typeof value === "number" && unit !== "th") {
    value *= scale;
    end++;
  }
  if (unit === undefined || CURRENCIES.has(unit)) {
    const next = tokens[end];
    const spelled = next?.kind === "word" || next?.kind === "symbol" ? UNITS.get(next.lower) : undefined;
    // `in`, `a` and `I` after a number are words far more often than inches and amperes.
    if (spelled !== undefined && !["in", "a", "c", "f", "b", "s", "t"].includes(next!.lower)) {
      unit = unit === undefined || unit === spelled ? spelled : `${unit} ${spelled}`;
      end++;
    }
  }
  return {
    quantity: `${typeof value === "number" ? shown(value) : value}${unit === undefined ? "" : ` ${unit}`}`,
    end,
  };
}

const CURRENCIES = new Set(["$", "€", "£", "¥", "₹", "₽", "₩"]);

/** As many digits as distinguish doubles. */
const shown = (value: number): string => String(Number(value.toPrecision(15)));

interface Start {
  /** Text if the value has several readings: dates, versions, 1.000. */
  readonly value: number | string;
  readonly unit?: string;
  readonly end?: number;
}

function digitsOf(lower: string): Start | undefined {
  if (/^\d{4}-\d{1,2}-\d{1,2}$|^v?\d+(?:\.\d+){2,}$|\//.test(lower)) return { value: lower };
  const match = /^([$€£¥₹₽₩]?)\s?(\d[\d,.]*)\s?(\D*)$/.exec(lower);
  if (match === null) return { value: lower };
  const [, currency, digits, letters] = match;
  const value = plainValue(digits!);
  const ending = letters!.replace(/\s/g, "");
  const unit = currency === "" ? undefined : currency;
  if (ending === "") return { value, ...(unit === undefined ? {} : { unit }) };
  if (/^(?:st|nd|rd|th)$/.test(ending)) return { value, unit: "th" };
  const scale = SUFFIX_SCALES.get(ending) ?? (unit !== undefined ? { m: 1e6, b: 1e9 }[ending] : undefined);
  if (scale !== undefined && typeof value === "number")
    return { value: value * scale, ...(unit === undefined ? {} : { unit }) };
  return { value, unit: `${unit ?? ""}${UNITS.get(ending) ?? ending}` };
}

/** 1,000 is a thousand; 1.000 may be one or a thousand, and stays a text. */
function plainValue(digits: string): number | string {
  if (/^\d{1,3}(?:,\d{3})+(?:\.\d+)?$/.test(digits)) return Number(digits.replaceAll(",", ""));
  if (/^\d+$/.test(digits) && digits.length <= 15 && (digits === "0" || !digits.startsWith("0"))) return Number(digits);
  if (/^\d+\.\d+$/.test(digits) && !/^\d{1,3}\.\d{3}$/.test(digits) && digits.length <= 15) return Number(digits);
  return digits;
}

function wordsNumber(tokens: readonly Token[], at: number): Start | undefined {
  const { kind, lower } = tokens[at]!;
  if (kind !== "word") return undefined;
  const previous = tokens[at - 1]?.lower ?? "";
  const next = tokens[at + 1]?.lower ?? "";
  const fixed = FOREIGN_NUMBERS.get(lower) ?? FIXED_NUMBERS.get(lower);
  if (fixed !== undefined && !ENGLISH_NUMBERS.has(lower))
    return { value: fixed, ...(FIXED_NUMBERS.has(lower) ? { unit: lower } : {}) };
  const ordinal = ORDINALS.get(lower);
  // `second` is a unit after a number, for which this function is not called, and after `a` or `per`.
  if (ordinal !== undefined && !(lower === "second" && /^(?:a|per|each|every)$/.test(previous)))
    return { value: ordinal, unit: "th" };
  if (lower === "one" && (BEFORE_PRONOUN_ONE.has(previous) || previous === "" || next === "of")) return undefined;
  return addedWords(tokens, at);
}

/** `two hundred and five`, `twenty five`, `a million`. */
function addedWords(tokens: readonly Token[], at: number): Start | undefined {
  let total = 0;
  let group = -1;
  let end = at;
  for (; end < tokens.length; end++) {
    const { lower } = tokens[end]!;
    const small = ENGLISH_NUMBERS.get(lower);
    const scale = SCALES.get(lower);
    if (
      small !== undefined &&
      (group < 0 || (small < 10 ? group % 10 === 0 && group % 100 !== 10 && group > 0 : group % 100 === 0))
    )
      group = Math.max(group, 0) + small;
    else if (scale !== undefined && group >= 0) {
      if (scale === 100) group *= 100;
      else {
        total += group * scale;
        group = 0;
      }
    } else if (
      lower === "and" &&
      end > at &&
      SCALES.has(tokens[end - 1]!.lower) &&
      ENGLISH_NUMBERS.has(tokens[end + 1]?.lower ?? "")
    )
      continue;
    else if (tokens[end]!.text !== "-" || !ENGLISH_NUMBERS.has(tokens[end + 1]?.lower ?? "") || end === at) break;
  }
  return end === at ? undefined : { value: total + Math.max(group, 0), end };
}

/** Months and days of the week. */
function readNamedDay(tokens: readonly Token[], at: number): Read | undefined {
  const { kind, lower } = tokens[at]!;
  if (kind !== "word") return undefined;
  const month = MONTHS.get(lower);
  const isDate = (token: Token | undefined) => token?.kind === "number";
  const isMonth =
    month !== undefined &&
    (!AMBIGUOUS_MONTHS.has(lower) || isDate(tokens[at - 1]) || isDate(tokens[at + 1]) || isDate(tokens[at + 2]));
  if (isMonth) return { quantity: `month ${month}`, end: at + 1 };
  const day = WEEKDAYS.get(lower.replace(/s$/, ""));
  return day === undefined ? undefined : { quantity: day, end: at + 1 };
}
