/**
 * The grammar of arguments that are written one by one, in the order of the schema's properties. Text values may
 * contain anything except their end tag, so their patterns, formats and lengths are not enforced: a strict schema with
 * such keywords is refused.
 */
import { MillraceError } from "../../core/errors.js";
import { EMPTY, type GrammarWriter, oneOf, oneOfLiterals, repeat, sequence } from "../grammar/ebnf.js";
import { escapePointer } from "../grammar/json-pointer.js";
import { schemaExpressions } from "../grammar/json-schema.js";
import type { Markers } from "../grammar/markers.js";
import { isSchema, keywordsOf, type Schema } from "../grammar/schema-keywords.js";
import type { ParameterSpelling } from "./call-format.js";
import { schemasWithin, typesOfSchema } from "./parameter-value.js";

interface ParameterContext {
  readonly writer: GrammarWriter;
  readonly markers: Markers;
  readonly spelling: ParameterSpelling;
  /** The request's field that holds the schema. */
  readonly param: string;
  /** Whether a schema that cannot be enforced is refused. */
  readonly isStrict: boolean;
}

/** A function's schema, which is the root of references, and the JSON of its parts. */
interface ParametersContext extends ParameterContext {
  readonly root: Schema;
  readonly jsonOf: (schema: unknown, at: string) => string;
}

/** Keywords of an object that can be written property by property. */
const OBJECT_KEYWORDS: ReadonlySet<string> = new Set(["type", "properties", "required", "additionalProperties"]);
/** Keywords that leave a text as free as the grammar does. */
const FREE_KEYWORDS: ReadonlySet<string> = new Set(["type", "anyOf", "oneOf", "allOf", "$ref"]);
/** A key that the schema does not list. */
const ANY_KEY = "[a-zA-Z0-9_\\-]{1,64}";
/** The JSON pointer of the schema for undeclared keys. */
const FURTHER = "#/additionalProperties";
/** Types whose values are single words, which a text either spells or not. */
const PLAIN_TYPES: ReadonlySet<string> = new Set(["string", "boolean", "null"]);

/** @param schema of an object */
export function parametersExpression(given: ParameterContext, schema: unknown): string {
  const root = objectSchema(given, schema);
  const { writer, param } = given;
  const context: ParametersContext = { ...given, root, jsonOf: schemaExpressions(writer, root, param) };
  const { properties, required } = membersOf(context);
  const separator = context.markers.spell(context.spelling.between);
  if (properties.length === 0 && required.size === 0 && root.additionalProperties !== false) {
    const value = valueExpression(context, root.additionalProperties ?? true, FURTHER);
    const any = writer.rule(parameter(context, ANY_KEY, value));
    return repeat(sequence(any, repeat(sequence(separator, any), 0, undefined)), 0, 1);
  }
  // Works back from the last property: the continuation after another property, and the beginning without one.
  let behind = EMPTY;
  let first = EMPTY;
  for (const { name, schema: value, at } of properties.toReversed()) {
    const key = context.markers.spell(nameOf(context, name));
    const written = writer.rule(parameter(context, key, valueExpression(context, value, at)));
    const withRest = sequence(written, behind);
    const more = sequence(separator, written);
    const isRequired = required.has(name);
    first = isRequired ? withRest : writer.rule(oneOf([withRest, first]));
    behind = writer.rule(sequence(isRequired ? more : repeat(more, 0, 1), behind));
  }
  return first;
}

function objectSchema({ param }: ParameterContext, schema: unknown): Schema {
  const other = isSchema(schema) ? keywordsOf(schema).find((name) => !OBJECT_KEYWORDS.has(name)) : "no object";
  if (isSchema(schema) && other === undefined) return schema;
  throw refusal(param, "a schema of type, properties, required and additionalProperties only", other!);
}

function membersOf({ param, root }: ParametersContext) {
  const { properties = {}, required = [], additionalProperties = true } = root;
  if (!isSchema(properties)) throw refusal(param, "an object of properties", typeof properties);
  if (!Array.isArray(required)) throw refusal(param, "a list of required names", typeof required);
  const names = required.map(String);
  const declared = Object.entries(properties).map(([name, schema]) => ({
    name,
    schema,
    at: `#/properties/${escapePointer(name)}`,
  }));
  const undeclared = names
    .filter((name) => !Object.hasOwn(properties, name))
    .map((name) => ({ name, schema: additionalProperties, at: FURTHER }));
  return { properties: [...declared, ...undeclared], required: new Set(names) };
}

/** A name that the reader can recognise: the text after a name ends it. */
function nameOf({ param }: ParameterContext, name: string): string {
  if (/^[^\s<>[\](){}=,'"]{1,128}$/.test(name)) return name;
  throw refusal(param, "names without white space, brackets, quotes, commas and =", JSON.stringify(name.slice(0, 40)));
}

function parameter({ spelling, markers }: ParameterContext, key: string, valueAndEnd: string): string {
  return sequence(markers.spell(spelling.beforeKey), key, markers.spell(spelling.beforeValue), valueAndEnd);
}

/** A value and the text after it. */
function valueExpression(context: ParametersContext, schema: unknown, at: string): string {
  const { root } = context;
  const types = typesOfSchema(root, schema);
  const mayBeText = schema !== false && types?.has("string") !== false;
  if (context.spelling.valueEnd === "" || !mayBeText) {
    const json = sequence(context.jsonOf(schema, at), context.markers.spell(context.spelling.afterValue));
    const quoted = mayBeText ? quotedText(context, schema) : undefined;
    return quoted === undefined ? json : oneOf([quoted, json]);
  }
  const listed = listedTexts(schema);
  if (listed !== undefined) {
    return sequence(oneOfLiterals(context.writer, listed), context.markers.spell(context.spelling.afterValue));
  }
  const within = schemasWithin(root, schema);
  const limit = within.flatMap(keywordsOf).find((name) => !FREE_KEYWORDS.has(name));
  const hasOthers = types !== undefined && ![...types].every((type) => PLAIN_TYPES.has(type));
  if (context.isStrict && (limit !== undefined || hasOthers)) {
    const expected = "strings without limits, as this model writes them as free text";
    throw refusal(context.param, expected, limit ?? "strings beside objects or lists");
  }
  return freeText(context);
}

/**
 * A text in the format's own quotes; undefined: the format has none, or the schema limits texts, which only JSON
 * strings can enforce.
 */
function quotedText({ root, writer, markers, spelling: { quote } }: ParametersContext, schema: unknown) {
  if (quote === undefined) return undefined;
  const listed = typesOfSchema(root, schema)?.has("null") ? undefined : listedTexts(schema);
  if (listed !== undefined) {
    return sequence(markers.spell(quote), oneOfLiterals(writer, listed), markers.spell(quote));
  }
  if (schemasWithin(root, schema).some((each) => keywordsOf(each).some((name) => !FREE_KEYWORDS.has(name))))
    return undefined;
  return sequence(markers.spell(quote), markers.through(writer, quote, EMPTY));
}

function freeText({ writer, spelling: { afterValue, valueEnd }, markers }: ParameterContext): string {
  return markers.through(
    writer,
    valueEnd,
    markers.spell(afterValue.slice(afterValue.indexOf(valueEnd) + valueEnd.length)),
  );
}

/** The texts of a list of strings and null; undefined if the schema does not list its values, or lists others too. */
function listedTexts(schema: unknown): readonly string[] | undefined {
  if (!isSchema(schema) || keywordsOf(schema).some((name) => !["type", "enum", "const"].includes(name)))
    return undefined;
  const listed = Array.isArray(schema.enum) ? schema.enum : Object.hasOwn(schema, "const") ? [schema.const] : [];
  return listed.length > 0 && listed.every((each) => typeof each === "string" || each === null)
    ? listed.map(String)
    : undefined;
}

function refusal(param: string, expected: string, got: string): MillraceError {
  return new MillraceError("invalid_parameter", `${param}: expected ${expected}, got ${got}`, {
    param,
    hint: "this model writes arguments one by one; leave out strict, or the limit",
  });
}
