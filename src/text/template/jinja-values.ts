/** Python's equality and printed form for values of the template library. */
import { CHARACTER_WORK, ELEMENT_WORK, type RenderBudget } from "./render-budget.js";

export interface Value {
  readonly type: string;
  readonly value: unknown;
  readonly builtins: ReadonlyMap<string, Value | Callable>;
  __bool__(): { readonly value: boolean };
}

export interface Callable {
  value(args: readonly Value[], scope: unknown): Value;
}

/** A number that keeps its original digits: a double cannot hold a long id, and 1.0 must not print as 1. */
export class NumberText extends Number {
  constructor(
    readonly text: string,
    /** The string that represents the number in JSON. */
    readonly mark: string,
  ) {
    super(Number(text));
  }

  override toString(): string {
    return this.text;
  }

  override toFixed(): string {
    return this.text;
  }

  toJSON(): string {
    return this.mark;
  }
}

/** `True == 1`, as in Python. */
const NUMBERS: ReadonlySet<string> = new Set(["IntegerValue", "FloatValue", "BooleanValue"]);

export const isUndefined = ({ type }: Value): boolean => type === "UndefinedValue";

export function isEqual(a: Value, b: Value, budget: RenderBudget): boolean {
  budget.charge(ELEMENT_WORK);
  if (NUMBERS.has(a.type) && NUMBERS.has(b.type)) return Number(a.value) === Number(b.value);
  if (a.type !== b.type) return false;
  const [left, right] = [a.value, b.value];
  if (Array.isArray(left) && Array.isArray(right)) {
    return left.length === right.length && left.every((element, index) => isEqual(element, right[index], budget));
  }
  if (left instanceof Map && right instanceof Map) {
    if (left.size !== right.size) return false;
    return [...left].every(([key, of]) => right.has(key) && isEqual(of, right.get(key), budget));
  }
  if (typeof left === "string" && left.length === (right as string).length) budget.charge(left.length * CHARACTER_WORK);
  return left === right;
}

/** Python's str(); undefined values print nothing. */
export function pythonText(value: Value, budget: RenderBudget): string {
  if (value.type === "StringValue") return value.value as string;
  if (isUndefined(value)) return "";
  budget.chargeAll(value);
  return pythonRepr(value);
}

function pythonRepr(value: Value): string {
  const of = value.value;
  if (typeof of === "string") return quotedText(of);
  if (typeof of === "boolean") return of ? "True" : "False";
  if (value.type === "NullValue") return "None";
  if (isUndefined(value)) return "Undefined";
  if (Array.isArray(of)) return `[${of.map(pythonRepr).join(", ")}]`;
  if (of instanceof Map)
    return `{${[...of].map(([key, held]) => `${typeof key === "string" ? quotedText(key) : key}: ${pythonRepr(held)}`).join(", ")}}`;
  // The library's number classes already print integers and floats correctly.
  return String(value);
}

const ESCAPES: Readonly<Record<string, string>> = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t" };

function quotedText(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  return quote + text.replace(/[\\\n\r\t']/g, (char) => ESCAPES[char] ?? (char === quote ? "\\'" : char)) + quote;
}
