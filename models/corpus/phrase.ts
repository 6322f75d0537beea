/** Expands a phrase template: `[a|b|]` picks one alternative (they nest), `{slot}` is filled from the slots. */
import type { Random } from "./random.js";

export type Slots = Readonly<Record<string, string>>;

interface Cursor {
  readonly template: string;
  index: number;
}

/**
 * @example phrase(random, "[Hello|Hi], {name}[!|.]", { name: "Ada" }) // "Hi, Ada!"
 */
export function phrase(random: Random, template: string, slots: Slots = {}): string {
  const cursor: Cursor = { template, index: 0 };
  const text = readSequence(random, cursor, slots);
  if (cursor.index < template.length) throw new SyntaxError(`expected balanced brackets, got "${template}"`);
  return text;
}

/** Reads up to an unnested `|`, `]` or the end. */
function readSequence(random: Random, cursor: Cursor, slots: Slots): string {
  let text = "";
  while (cursor.index < cursor.template.length) {
    const char = cursor.template[cursor.index] as string;
    if (char === "|" || char === "]") break;
    cursor.index += 1;
    if (char === "[") text += readChoice(random, cursor, slots);
    else if (char === "{") text = joinArticle(text, readSlot(cursor, slots));
    else text += char;
  }
  return text;
}

/** Every alternative is expanded, then one is kept: simple, and templates are short. */
function readChoice(random: Random, cursor: Cursor, slots: Slots): string {
  const alternatives: string[] = [];
  for (;;) {
    alternatives.push(readSequence(random, cursor, slots));
    const end = cursor.template[cursor.index];
    cursor.index += 1;
    if (end === "]") return random.pick(alternatives);
    if (end !== "|") throw new SyntaxError(`expected "]" to close a choice, got the end of "${cursor.template}"`);
  }
}

/** "a" becomes "an" before what a slot brings. */
function joinArticle(before: string, value: string): string {
  return /\b[aA] $/.test(before) && withArticle(value).startsWith("an ")
    ? `${before.slice(0, -1)}n ${value}`
    : before + value;
}

function readSlot(cursor: Cursor, slots: Slots): string {
  const end = cursor.template.indexOf("}", cursor.index);
  const name = cursor.template.slice(cursor.index, end);
  const value = slots[name];
  if (value === undefined)
    throw new RangeError(`expected a value for slot "${name}" of "${cursor.template}", got none`);
  cursor.index = end + 1;
  return value;
}

export function withArticle(noun: string): string {
  return /^[aeiou]/i.test(noun) ? `an ${noun}` : `a ${noun}`;
}

export function capitalise(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** "a", "a and b", "a, b and c". */
export function joinWithAnd(items: readonly string[]): string {
  return items.length < 2 ? items.join("") : `${items.slice(0, -1).join(", ")} and ${items.at(-1)}`;
}

/** Templates of questions end with "?"; what asks by telling ends with a full stop. */
export function withMark(question: string): string {
  return question.replace(/^((?:Tell|Name|Say|Count|Explain|Describe|Give)\b.*)\?/, "$1.");
}

/** People type carelessly: sometimes drop capitals or the final mark of a question. */
export function typeCasually(random: Random, text: string): string {
  const roll = random.next();
  if (roll < 0.08) return text.toLowerCase().replace(/[?.!]$/, "");
  if (roll < 0.14) return text.replace(/[?.!]$/, "");
  if (roll < 0.2) return text.charAt(0).toLowerCase() + text.slice(1);
  return text;
}
