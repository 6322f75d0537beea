/**
 * Whether two English words are forms of one: a plural, a third person, or a form in -ing. Participles do not count:
 * they show who acts on whom.
 */
import { NO_INFLECTION } from "../words/english.js";

type Inflection = "s" | "ing";

/**
 * @example inflectionOf("reset", "resetting") // "ing"
 * @returns undefined if the longer word is not a form of the shorter one
 */
export function inflectionOf(one: string, other: string): Inflection | undefined {
  const [base, form] = one.length < other.length ? [one, other] : [other, one];
  if (base.length < 3 || NO_INFLECTION.has(base) || NO_INFLECTION.has(form) || !/^[a-z]+$/.test(base)) return undefined;
  if (form.endsWith("ing")) return isForm(base, form) ? "ing" : undefined;
  return pluralsOf(base).includes(form) ? "s" : undefined;
}

/** @returns whether `past` is the regular past of `base` */
export function isRegularPast(base: string, past: string): boolean {
  if (base.length < 3 || !past.endsWith("ed") || !/^[a-z]+$/.test(base)) return false;
  if (base.endsWith("e")) return past === `${base}d`;
  if (/[^aeiou]y$/.test(base)) return past === `${base.slice(0, -1)}ied`;
  return past === `${base}ed` || (/[aeiou][bdgklmnprt]$/.test(base) && past === `${base}${base.at(-1)}ed`);
}

function pluralsOf(base: string): readonly string[] {
  if (/[^aeiou]y$/.test(base)) return [`${base.slice(0, -1)}ies`];
  if (/(?:s|x|z|ch|sh)$/.test(base)) return [`${base}es`];
  if (base.endsWith("o")) return [`${base}s`, `${base}es`];
  return [`${base}s`];
}

function isForm(base: string, form: string): boolean {
  if (!/[aeiouy]/.test(base)) return false;
  const stem = form.slice(0, -3);
  if (/[^aeo]e$/.test(base)) return stem === base.slice(0, -1);
  return stem === base || (/[aeiou][bdgklmnprt]$/.test(base) && stem === base + base.at(-1));
}
