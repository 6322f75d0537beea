/** Grammars of JSON numbers under a schema's number keywords. */
import { integerExpression, type NumberBounds, numberExpression } from "./json-number.js";
import { commonStep, multipleExpression } from "./multiple-of.js";
import type { SchemaHost } from "./schema-host.js";
import type { Schema } from "./schema-keywords.js";
import { valuesOf } from "./schema-merge.js";

/** The grammar of a number: its bounds and `multipleOf`. */
export function numberOfSchema(host: SchemaHost, type: "integer" | "number", schema: Schema, at: string): string {
  const bound = (name: string): number | undefined => {
    const value = schema[name];
    if (value === undefined || typeof value === "number") return value;
    return host.refuse(`${at}/${name}`, "a number", JSON.stringify(value));
  };
  const [min, max] = [bound("minimum"), bound("maximum")];
  const [above, below] = [bound("exclusiveMinimum"), bound("exclusiveMaximum")];
  const isMinExclusive = above !== undefined && (min === undefined || above >= min);
  const isMaxExclusive = below !== undefined && (max === undefined || below <= max);
  const bounds: NumberBounds = {
    min: isMinExclusive ? above : min,
    max: isMaxExclusive ? below : max,
    isMinExclusive,
    isMaxExclusive,
  };
  return (
    numberWithin(host, type, bounds, schema, at) ??
    host.none(at, `bounds that some ${type} keeps`, JSON.stringify(bounds))
  );
}

function numberWithin(
  host: SchemaHost,
  type: "integer" | "number",
  bounds: NumberBounds,
  schema: Schema,
  at: string,
): string | undefined {
  const multiples = valuesOf(schema.multipleOf);
  for (const each of multiples) {
    if (typeof each === "number" && each > 0 && Number.isFinite(each)) continue;
    host.refuse(`${at}/multipleOf`, "a number above 0", JSON.stringify(each));
  }
  if (multiples.length === 0) {
    return type === "integer" ? integerExpression(host.writer, bounds) : numberExpression(host.writer, bounds);
  }
  const step = commonStep([...(multiples as number[]), ...(type === "integer" ? [1] : [])]);
  if (step === undefined) {
    return host.refuse(`${at}/multipleOf`, "a number of up to six decimals and 15 digits", JSON.stringify(multiples));
  }
  const { units, decimals } = step;
  if (units !== 1n) return multipleExpression(host.writer, step, bounds);
  return decimals === 0 ? integerExpression(host.writer, bounds) : numberExpression(host.writer, bounds, decimals);
}
