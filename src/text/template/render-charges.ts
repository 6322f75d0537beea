/**
 * Prices of the library's filters and methods, charged before they run, since many produce large values from small ones
 * (`replace`, `indent`, `tojson`). Unlisted filters and methods are refused, so that a later version of the library
 * adds none without a price.
 */
import type { Value } from "./jinja-values.js";
import { CALL_WORK, CHARACTER_WORK, ELEMENT_WORK, type RenderBudget, VALUE_WORK } from "./render-budget.js";

const FREE_FILTERS: ReadonlySet<string> = new Set(
  "safe default first last length list abs bool int float string".split(" "),
);
const LINEAR_FILTERS: ReadonlySet<string> = new Set(
  "reverse unique upper lower title capitalize trim items keys values".split(" "),
);
const LINEAR_METHODS: ReadonlySet<string> = new Set(
  "upper lower title capitalize strip lstrip rstrip startswith endswith items keys values get".split(" "),
);

const textOf = (value: Value | undefined): string => (typeof value?.value === "string" ? value.value : "");
const isLetterCase = (value: Value | undefined): boolean => /^(?:lower|upper)$/.test(textOf(value));
/**
 * At least 0: a negative price would extend the budget. Lists are never converted to numbers, which would print them.
 */
function widthOf(value: Value | undefined, otherwise = 0): number {
  const width = value === undefined ? otherwise : value.value;
  return typeof width === "number" ? Math.max(0, width) : width instanceof Number ? Math.max(0, Number(width)) : 0;
}

/** @param args evaluated positional arguments. Throws OverBudget, and Error for an unknown filter. */
export function chargeFilter(
  budget: RenderBudget,
  name: string,
  operand: Value,
  args: readonly Value[],
  named: ReadonlyMap<string, Value>,
): void {
  budget.charge(CALL_WORK);
  if (FREE_FILTERS.has(name)) {
    // Filters parse numbers from texts.
    if (typeof operand.value === "string") budget.chargeElements(operand);
  } else if (LINEAR_FILTERS.has(name)) budget.chargeElements(operand);
  else if (name === "tojson") chargeJson(budget, operand, named);
  else if (name === "join") {
    const numLetters = textOf(operand).length;
    const separator = VALUE_WORK + textOf(args[0] ?? named.get("separator")).length * CHARACTER_WORK;
    budget.charge(numLetters * separator);
    budget.chargeAll(operand, { perValue: separator });
  } else if (name === "indent") {
    // Every character may be a line's end.
    const width = widthOf(args[0] ?? named.get("width"), 4);
    budget.charge(textOf(operand).length * (1 + width) * CHARACTER_WORK + width * CHARACTER_WORK);
  } else if (name === "replace") chargeReplace(budget, textOf(operand), args);
  else if (name === "sort" || name === "dictsort") chargeSort(budget, operand, args[2] ?? named.get("attribute"));
  else if (name === "map") chargePaths(budget, operand, named.get("attribute"));
  else if (name === "selectattr" || name === "rejectattr") {
    if (isLetterCase(args[1])) budget.chargeAll(operand);
    else budget.chargeElements(operand);
  } else if (name === "get") for (const key of args) budget.chargeElements(key);
  else throw new Error(`the filter ${name} is not known`);
}

/** @param on the value that has the method. Throws OverBudget, and Error for an unknown method. */
export function chargeMethod(budget: RenderBudget, on: Value, name: string, args: readonly Value[]): void {
  const text = textOf(on);
  budget.charge(CALL_WORK);
  if (LINEAR_METHODS.has(name)) {
    budget.chargeElements(on);
    for (const argument of args) {
      budget.chargeElements(argument);
      // Characters to strip become a set.
      budget.charge(textOf(argument).length * ELEMENT_WORK);
    }
  } else if (name === "replace") chargeReplace(budget, text, args);
  else if (name === "split") {
    const separator = textOf(args[0]);
    if (separator === "") budget.charge((text.length * VALUE_WORK) / 2);
    else budget.charge(countOf(budget, text, separator) * VALUE_WORK);
    budget.chargeElements(on);
  } else if (name === "dictsort") chargeSort(budget, on, undefined);
  else throw new Error(`the method ${name} is not known`);
}

function chargeJson(budget: RenderBudget, operand: Value, named: ReadonlyMap<string, Value>): void {
  const separators = named.get("separators")?.value;
  const numExtra = Array.isArray(separators) ? textOf(separators[0]).length + textOf(separators[1]).length : 4;
  // Keys are sorted by a locale's rules, and a letter may become six.
  const factor = named.has("sort_keys") || named.has("ensure_ascii") ? 8 : 1;
  budget.chargeAll(operand, {
    perCharacter: CHARACTER_WORK * factor,
    perValue: ELEMENT_WORK * factor + numExtra * CHARACTER_WORK,
    perLevel: widthOf(named.get("indent")) * CHARACTER_WORK,
  });
  // The indentation is created even where nothing is indented.
  budget.charge(widthOf(named.get("indent")) * CHARACTER_WORK);
}

function chargeReplace(budget: RenderBudget, text: string, [old, by]: readonly Value[]): void {
  const count = countOf(budget, text, textOf(old));
  budget.charge(count * (ELEMENT_WORK + textOf(by).length * CHARACTER_WORK) + text.length * CHARACTER_WORK);
}

function chargeSort(budget: RenderBudget, operand: Value, attribute: Value | undefined): void {
  const { value } = operand;
  const length = value instanceof Map ? value.size : Array.isArray(value) ? value.length : 0;
  const perValue = 2 * Math.ceil(Math.log2(length + 2));
  budget.chargeAll(operand, { perCharacter: perValue * CHARACTER_WORK, perValue: perValue * ELEMENT_WORK });
  for (let i = 0; i < perValue; i++) chargePaths(budget, operand, attribute);
}

/** Charges for looking up the attribute in each element; its path is split each time. */
function chargePaths(budget: RenderBudget, operand: Value, attribute: Value | undefined): void {
  const length = Array.isArray(operand.value) ? operand.value.length : 0;
  budget.charge(length * (ELEMENT_WORK + textOf(attribute).length * CHARACTER_WORK));
}

/**
 * Charges for namespace(), which takes its arguments apart: a text of two letters counts as a pair, and a pair begins
 * with a name.
 */
export function chargeNamespace(budget: RenderBudget, args: readonly Value[]): void {
  for (const { value: entries } of args) {
    if (entries instanceof Map) budget.charge(entries.size * ELEMENT_WORK);
    if (!Array.isArray(entries)) continue;
    budget.charge(entries.length * ELEMENT_WORK);
    for (const entry of entries as readonly Value[]) {
      budget.charge(textOf(entry).length * VALUE_WORK);
      if (Array.isArray(entry.value) && entry.value.length > 0) budget.chargeElements(entry.value[0]);
    }
  }
}

function countOf(budget: RenderBudget, text: string, part: string): number {
  if (part === "") return text.length + 1;
  budget.chargeSearch(text, part);
  let count = 1;
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + part.length)) count++;
  return count;
}
