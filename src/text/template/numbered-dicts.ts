/**
 * Dicts with numbers among their keys, which templates write as tables (Seed-OSS has one of thinking budgets); the
 * library's have texts alone.
 */
import { A_DICT, A_LIST, A_TEXT, AN_INTEGER, like, NONE } from "./jinja-library.js";
import type { Value } from "./jinja-values.js";

/** By a text or a number. */
type Numbered = ReadonlyMap<unknown, Value>;

/** Kept, because to look at all keys of a dict at each use would be work that nobody is charged for. */
const known = new WeakSet<object>();

/** Throws Error for keys that are neither texts nor whole numbers. */
export function dictOf(entries: readonly (readonly [key: Value, value: Value])[]): Value {
  for (const [{ type, value }] of entries) {
    if (typeof value !== "string" && !Number.isSafeInteger(value)) {
      throw new Error(`expected a text or a whole number as a dict's key, got ${type}`);
    }
  }
  const dict = new Map(entries.map(([key, value]) => [key.value, value]));
  if (entries.some(([{ value }]) => typeof value === "number")) known.add(dict);
  return like(A_DICT, dict);
}

export const keyOf = (key: unknown): Value => like(typeof key === "number" ? AN_INTEGER : A_TEXT, key);

export const isNumbered = (value: unknown): value is Numbered => value instanceof Map && known.has(value);

/** What a filter or a method of this name makes of the dict; undefined: the library's does as well. */
export function askNumbered(dict: Numbered, name: string, args: readonly Value[]): Value | undefined {
  const keys = [...dict.keys()];
  const pairs = (of: readonly unknown[]) =>
    like(
      A_LIST,
      of.map((key) => like(A_LIST, [keyOf(key), dict.get(key)])),
    );
  switch (name) {
    case "items":
      return pairs(keys);
    case "keys":
    case "list":
      return like(A_LIST, keys.map(keyOf));
    case "get":
      return dict.get(args[0]?.value) ?? args[1] ?? NONE;
    case "dictsort":
      if (args.length > 0 || !keys.every((key) => typeof key === "number")) {
        throw new Error("expected dictsort, without settings, of a dict with keys of one type, got another");
      }
      return pairs((keys as number[]).toSorted((a, b) => a - b));
    default:
      return undefined;
  }
}
