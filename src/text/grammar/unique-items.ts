/** Lists that have each of a few values at most once. */
import { automatonExpression, type Expansion, explore } from "./automaton.js";
import { EMPTY, type GrammarWriter, literal, sequence } from "./ebnf.js";
import type { Schema } from "./schema-keywords.js";

/** So few may come in any order: each set of those that came is a state. More come in the order in which they are listed. */
const MAX_FREE = 6;
const MAX_VALUES = 500;

/** The values that a schema lists, as JSON texts; undefined: it lists none, or too many. */
export function listedTexts({ enum: values, const: constant, type }: Schema): readonly string[] | undefined {
  if (constant !== undefined) return [JSON.stringify(constant)];
  if (Array.isArray(values))
    return values.length > MAX_VALUES ? undefined : values.map((value) => JSON.stringify(value));
  return type === "boolean" ? ["false", "true"] : undefined;
}

/** Some of the values, and how many. */
interface Some {
  readonly count: number;
  /** In any order: a bit for each that came. Else: the place of the next one that may come or be left out. */
  readonly came: number;
}

/** What stands between the brackets; undefined: there are too few values. */
export function uniqueExpression(
  writer: GrammarWriter,
  texts: readonly string[],
  comma: string,
  min: number,
  max: number,
): string | undefined {
  // More than anybody asks for need not be counted, but that there is one.
  const counted = Math.max(1, max < texts.length ? max : min);
  const take = (index: number, { count }: Some, came: number) => ({
    label: count === 0 ? literal(texts[index]!) : sequence(comma, literal(texts[index]!)),
    to: { count: Math.min(count + 1, counted), came },
  });
  const inAnyOrder = (some: Some): Expansion<string, Some> => {
    const left = [...texts.keys()].filter((index) => ((some.came >> index) & 1) === 0 && some.count < max);
    return { isFinal: some.count >= min, edges: left.map((index) => take(index, some, some.came | (1 << index))) };
  };
  const inListedOrder = (some: Some): Expansion<string, Some> => {
    const { count, came } = some;
    if (came === texts.length) return { isFinal: count >= min, edges: [] };
    const leave = { label: EMPTY, to: { count, came: came + 1 } };
    return { isFinal: false, edges: count < max ? [take(came, some, came + 1), leave] : [leave] };
  };
  const start: Some = { count: 0, came: 0 };
  const expand = texts.length <= MAX_FREE ? inAnyOrder : inListedOrder;
  const automaton = explore(start, ({ count, came }) => `${count},${came}`, expand);
  return automaton === undefined ? undefined : automatonExpression(writer, automaton, (label) => label, EMPTY);
}
