/** Lists that contain each of a few values at most once. */
import { automatonExpression, type Expansion, explore } from "./automaton.js";
import { EMPTY, type GrammarWriter, literal, sequence } from "./ebnf.js";
import { isOfType, type JsonType, keywordsOf, type Schema } from "./schema-keywords.js";
import { canonicalText } from "./schema-merge.js";

/**
 * Up to this many values may come in any order, with one state per set of used values. More values must come in the
 * listed order.
 */
const MAX_FREE = 6;
const MAX_VALUES = 500;

/**
 * The distinct values that a schema lists, as JSON texts; undefined: it lists none or too many, or has keywords other
 * than their type.
 */
export function listedTexts(schema: Schema): readonly string[] | undefined {
  const keywords = keywordsOf(schema).filter((name) => name !== "type");
  const types = (Array.isArray(schema.type) ? schema.type : [schema.type]) as readonly (JsonType | undefined)[];
  if (keywords.length === 0) return types.length === 1 && types[0] === "boolean" ? ["false", "true"] : undefined;
  const listed = schema.enum ?? [schema.const];
  if (keywords.length > 1 || !/^(enum|const)$/.test(keywords[0]!) || !Array.isArray(listed)) return undefined;
  if (listed.length > MAX_VALUES) return undefined;
  const values = listed.filter((value) => types.some((type) => type === undefined || isOfType(value, type)));
  return [...new Map(values.map((value) => [canonicalText(value), JSON.stringify(value)])).values()];
}

/** The values used so far and their number. */
interface Some {
  readonly count: number;
  /**
   * In any order: a bit for each used value. In the listed order: the index of the next value that may come or be left
   * out.
   */
  readonly came: number;
}

/** The content between the brackets; undefined: there are too few values. */
export function uniqueExpression(
  writer: GrammarWriter,
  texts: readonly string[],
  comma: string,
  min: number,
  max: number,
): string | undefined {
  // Counting stops at the largest bound, but at 1 at least, because a comma depends on whether there is an item before
  // it.
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
