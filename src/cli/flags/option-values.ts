/** Parsers of option values: from text to a checked value, or an `invalid_option` with the expectation. */
import { optionError } from "../../core/option-error.js";
import { parseByteSize } from "../../core/quantities.js";
import type { ApiPrice } from "../../plan/data/prices.js";

export type ValueParser<T> = (text: string) => T;

export function integerIn(flag: string, min: number, max: number): ValueParser<number> {
  return (text) => {
    const value = /^[+-]?\d+$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    const range = max === Number.MAX_SAFE_INTEGER ? `an integer of at least ${min}` : `an integer in [${min}, ${max}]`;
    throw optionError(flag, range, text);
  };
}

/** @param unit the number's unit, for the error */
export function numberIn(flag: string, min: number, max: number, unit?: string): ValueParser<number> {
  return (text) => {
    const value = text.trim() === "" ? Number.NaN : Number(text);
    if (value >= min && value <= max) return value;
    throw optionError(flag, `a number ${unit === undefined ? "" : `of ${unit} `}in [${min}, ${max}]`, text);
  };
}

/** A 64-bit seed; negative values wrap, as in HTTP requests. */
export function seedValue(flag: string): ValueParser<bigint> {
  return (text) => {
    if (!/^[+-]?\d{1,20}$/.test(text)) throw optionError(flag, "a 64-bit integer", text);
    const value = BigInt(text);
    if (value < -(1n << 63n) || value >= 1n << 64n) throw optionError(flag, "a 64-bit integer", text);
    return BigInt.asUintN(64, value);
  };
}

export function oneOf<const T extends string>(flag: string, choices: readonly T[]): ValueParser<T> {
  return (text) => {
    const choice = choices.find((candidate) => candidate === text);
    if (choice !== undefined) return choice;
    throw optionError(flag, `one of ${choices.join(", ")}`, text);
  };
}

export function jsonObject(flag: string): ValueParser<Readonly<Record<string, unknown>>> {
  return (text) => {
    try {
      const value: unknown = JSON.parse(text);
      if (typeof value === "object" && value !== null && !Array.isArray(value)) return { ...value };
    } catch {
      // The error below covers this.
    }
    throw optionError(flag, "a JSON object", text);
  };
}

/** @example byteSize("--kv-cache-memory-bytes")("8GiB") // 8589934592 */
export function byteSize(flag: string): ValueParser<number> {
  return (text) => {
    const numBytes = parseByteSize(text);
    if (numBytes !== undefined) return numBytes;
    throw optionError(flag, "a positive size such as 8GiB, 512MiB or 1073741824", text);
  };
}

/** A size as byteSize reads it, or 0. */
export function byteSizeOrZero(flag: string): ValueParser<number> {
  return (text) => (text.trim() === "0" ? 0 : byteSize(flag)(text));
}

/** Collects the values of repeated options; commas separate values too. */
export function listOf(flag: string): (text: string, previous: readonly string[] | undefined) => readonly string[] {
  return (text, previous = []) => {
    const items = text.split(",").map((item) => item.trim());
    if (items.some((item) => item === "")) throw optionError(flag, "a non-empty value", text);
    return [...previous, ...items];
  };
}

/** @example apiPrice("--api")("0.15:0.60") */
export function apiPrice(flag: string): ValueParser<ApiPrice> {
  return (text) => {
    const match = /^(\d+(?:\.\d+)?):(\d+(?:\.\d+)?)$/.exec(text);
    const [input, output] = [Number(match?.[1]), Number(match?.[2])];
    if (input + output > 0)
      return { name: flag, usdPerMillionInput: input, usdPerMillionOutput: output, date: "given" };
    throw optionError(flag, "dollars per million tokens in:out, such as 0.15:0.60", text);
  };
}
