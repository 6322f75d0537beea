/**
 * Dicts with number keys, which templates use as tables (Seed-OSS has a table of thinking budgets); the library's dicts
 * only have text keys.
 */
import { A_DICT, A_LIST, A_TEXT, AN_INTEGER, like, NONE } from "./jinja-library.js";
import type { Value } from "./jinja-values.js";

/** A dict by text and number keys. */
type Numbered = ReadonlyMap<unknown, Value>;

/** Caches the check, because examining all keys of a dict at each use would be uncharged work. */
const known = new WeakSet<object>();

/** Throws Error for keys other than texts and whole numbers. */
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

const areNumbers = (keys: readonly unknown[]): keys is readonly number[] =>
  keys.every((key) => typeof key === "number");

/** A number key of an object in JSON: printed as text, but different from the same text key, and sorted as a number. */
class NumberKey extends String {
  override localeCompare(other: unknown): number {
    return Number(this) - Number(other);
  }
}

/**
 * The form of the value that tojson prints: the library writes keys verbatim, and JSON's keys are texts.
 *
 * @param isSorted whether to sort the keys; throws Error for numbers among texts, which Python cannot sort either
 */
export function withTextKeys(value: Value, isSorted: boolean): Value {
  const held = value.value;
  const copied = (inner: Value): Value => withTextKeys(inner, isSorted);
  if (Array.isArray(held)) return like(value, (held as readonly Value[]).map(copied));
  if (!(held instanceof Map)) return value;
  if (isSorted && isNumbered(held) && !areNumbers([...held.keys()])) {
    throw new Error("expected a dict with keys of one type to sort, got another");
  }
  const copy = new Map<unknown, Value>();
  for (const [key, inner] of held as Numbered) {
    copy.set(typeof key === "number" ? new NumberKey(key) : key, copied(inner));
  }
  return like(value, copy);
}

/** The result of a filter or a method of this name for the dict; undefined: the library's own result is right. */
export function askNumbered(dict: Numbered, name: string, args: readonly Value[]): Value | undefined {
  const keys = (): readonly unknown[] => [...dict.keys()];
  const pairs = (of: readonly unknown[]) =>
    like(
      A_LIST,
      of.map((key) => like(A_LIST, [keyOf(key), dict.get(key)])),
    );
  switch (name) {
    case "items":
      return pairs(keys());
    case "keys":
    case "list":
      return like(A_LIST, keys().map(keyOf));
    case "get":
      return dict.get(args[0]?.value) ?? args[1] ?? NONE;
    case "dictsort": {
      const numbers = keys();
      if (args.length > 0 || !areNumbers(numbers)) {
        throw new Error("expected dictsort, without settings, of a dict with keys of one type, got another");
      }
      return pairs(numbers.toSorted((a, b) => a - b));
    }
    default:
      return undefined;
  }
}
