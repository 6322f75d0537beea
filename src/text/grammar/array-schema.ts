/** Grammars of JSON lists under a schema's list keywords. */
import { EMPTY, repeat, sequence } from "./ebnf.js";
import type { SchemaHost } from "./schema-host.js";
import type { Schema } from "./schema-keywords.js";
import { possible } from "./schema-refusal.js";
import { listedTexts, uniqueExpression } from "./unique-items.js";

/** The grammar of a list: its items, length and uniqueness. */
export function arrayOfSchema(host: SchemaHost, schema: Schema, at: string): string {
  const { prefixItems = [] } = schema;
  if (!Array.isArray(prefixItems)) return host.refuse(`${at}/prefixItems`, "a list of schemas", typeof prefixItems);
  const items = schema.items ?? schema.unevaluatedItems;
  const least = host.count(schema, "minItems", at);
  const min = least ?? 0;
  const most = host.count(schema, "maxItems", at);
  if (schema.uniqueItems === true && prefixItems.length === 0) {
    const unique = uniqueItems(host, items, `${at}/items`, min, most);
    if (unique !== undefined) return unique;
  }
  const prefix: string[] = [];
  for (const [i, each] of prefixItems.slice(0, most).entries()) {
    const written = possible(() => host.value(each, `${at}/prefixItems/${i}`));
    if (written === undefined) break;
    prefix.push(written);
  }
  const isCut = prefix.length < Math.min(prefixItems.length, most ?? prefixItems.length);
  const isOpen = !isCut && (items !== undefined || prefix.length === 0 || min > prefix.length);
  const mayGoOn = isOpen && (most === undefined || most > prefix.length);
  const rest = mayGoOn ? possible(() => host.writer.rule(host.value(items ?? true, `${at}/items`))) : undefined;
  const max = rest === undefined ? prefix.length : most;
  if (max !== undefined && min > max) host.none(`${at}/minItems`, `at most ${max} items`, `${min}`);
  // Without `minItems`, every item of the prefix is required.
  const numFirst = least === undefined && !isCut ? prefix.length : Math.min(min, prefix.length);
  return host.bracketed("[", elementsOf(host, prefix, numFirst, rest, min, max), "]");
}

function uniqueItems(
  host: SchemaHost,
  items: unknown,
  at: string,
  min: number,
  max: number | undefined,
): string | undefined {
  const { plain, alternatives } = host.conjunction(items ?? true, at);
  const texts = plain === false || alternatives.length > 0 ? undefined : listedTexts(plain);
  if (texts === undefined) return undefined;
  const comma = host.comma();
  const content = uniqueExpression(host.writer, texts, comma, min, Math.min(max ?? texts.length, texts.length));
  return content === undefined
    ? host.none(at, `at least ${min} different values`, `${texts.length}`)
    : host.bracketed("[", content, "]");
}

/** The prefix items in order, then further items; `min` and `max` bound their total number. */
function elementsOf(
  host: SchemaHost,
  prefix: readonly string[],
  numFirst: number,
  rest: string | undefined,
  min: number,
  max: number | undefined,
): string {
  const comma = host.comma();
  const numPrefix = prefix.length;
  const next = (count: number) => (count === 0 ? EMPTY : comma);
  let more = EMPTY;
  if (rest !== undefined && numPrefix > 0) {
    const most = max === undefined ? max : max - numPrefix;
    more = repeat(sequence(comma, rest), Math.max(0, min - numPrefix), most);
  } else if (rest !== undefined && max !== 0) {
    const others = repeat(sequence(comma, rest), Math.max(0, min - 1), max === undefined ? max : max - 1);
    more = repeat(sequence(rest, others), min === 0 ? 0 : 1, 1);
  }
  for (let count = numPrefix - 1; count >= 0; count--) {
    const from = sequence(next(count), prefix[count]!, more);
    more = count < numFirst ? from : repeat(from, 0, 1);
  }
  return more;
}
