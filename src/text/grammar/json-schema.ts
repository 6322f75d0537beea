/**
 * A JSON schema as a grammar of JSON texts that are all valid under it. Where a schema leaves something open the grammar may be narrower (declared
 * properties come in order, and undeclared ones only where asked for), never wider: a keyword that cannot be kept is refused.
 */
import { MillraceError } from "../../core/errors.js";
import { areExclusive } from "./disjoint.js";
import { EMPTY, GrammarWriter, literal, oneOf, oneOfLiterals, repeat, sequence } from "./ebnf.js";
import { FORMATS } from "./formats.js";
import {
  expectedBound,
  integerExpression,
  isIdleBound,
  isPlainBound,
  type NumberBounds,
  numberExpression,
} from "./json-number.js";
import { escapePointer, resolvePointer } from "./json-pointer.js";
import { jsonSpace } from "./json-space.js";
import { anyString, quoted, spellInJson, stringExcept, stringOfRun } from "./json-string.js";
import { ReferenceCircles } from "./reference-circles.js";
import { characterRun, MAX_REPETITIONS, RegexError, regexExpression, regexTree } from "./regex.js";
import {
  isKnownKeyword,
  isSchema,
  JSON_TYPES,
  type JsonType,
  KNOWN_KEYWORDS,
  keywordsOf,
  type Schema,
  TYPE_KEYWORDS,
} from "./schema-keywords.js";

const MAX_SCHEMAS = 5000;
/** The converter calls itself for each schema inside another, and references nest them deeper than any JSON is. */
const MAX_SCHEMA_DEPTH = 128;
/** Of a property; an object that is open compares a name with them character by character. */
const MAX_NAME_LENGTH = 1024;
/** Each of oneOf is compared with every other. */
const MAX_ALTERNATIVES = 256;

/** JSON pointers of the references that lead here without anything being written between. */
type Chain = ReadonlySet<string>;
const NO_CHAIN: Chain = new Set();

/**
 * @param param the request's field that holds the schema
 * @example grammarOfSchema({ type: "object", properties: { name: { type: "string" } }, required: ["name"] }, "structured_outputs.json")
 */
export function grammarOfSchema(schema: unknown, param: string): string {
  const writer = new GrammarWriter();
  return writer.text(schemaExpression(writer, schema, param));
}

/** The schema's values as a part of a grammar that has others beside them. */
export function schemaExpression(writer: GrammarWriter, schema: unknown, param: string): string {
  return new SchemaConverter(writer, schema, param).convert();
}

class SchemaConverter {
  readonly #writer: GrammarWriter;
  readonly #whitespace: string;
  /** By JSON pointer. */
  readonly #references = new Map<string, string>();
  readonly #circles: ReferenceCircles;
  #numSchemas = 0;
  #depth = 0;

  constructor(
    writer: GrammarWriter,
    private readonly root: unknown,
    private readonly param: string,
  ) {
    this.#writer = writer;
    this.#whitespace = jsonSpace(writer);
    this.#circles = new ReferenceCircles(root);
  }

  convert(): string {
    return this.#value(this.root, "#", NO_CHAIN);
  }

  #value(schema: unknown, at: string, chain: Chain): string {
    this.#countSchemas(1, at);
    if (++this.#depth > MAX_SCHEMA_DEPTH)
      this.#refuse(at, `subschemas nested at most ${MAX_SCHEMA_DEPTH} deep`, "more");
    const expression = this.#expression(schema, at, chain);
    this.#depth--;
    return expression;
  }

  #countSchemas(more: number, at: string): void {
    this.#numSchemas += more;
    if (this.#numSchemas > MAX_SCHEMAS) this.#refuse(at, `at most ${MAX_SCHEMAS} subschemas`, "more");
  }

  #assertShort(names: readonly string[], at: string): void {
    const long = names.find((name) => name.length > MAX_NAME_LENGTH);
    if (long !== undefined) this.#refuse(at, `names of at most ${MAX_NAME_LENGTH} characters`, `${long.length}`);
  }

  #expression(schema: unknown, at: string, chain: Chain): string {
    if (schema === true) return this.#any();
    if (!isSchema(schema)) return this.#refuse(at, "a schema", JSON.stringify(schema));
    const keywords = keywordsOf(schema);
    const unknown = keywords.find((name) => !isKnownKeyword(name));
    if (unknown !== undefined) {
      this.#refuse(`${at}/${escapePointer(unknown)}`, `only the keywords ${KNOWN_KEYWORDS.join(", ")}`, `"${unknown}"`);
    }
    for (const name of ["$ref", "const", "anyOf", "oneOf", "allOf"]) {
      if (!keywords.includes(name)) continue;
      // A type says nothing more where the constant or each alternative is of it; anything else would have to be merged.
      const others = keywords.filter((other) => other !== name && !(name === "const" && other === "type"));
      if (others.length > 0) this.#refuse(`${at}/${others[0]}`, `nothing beside "${name}"`, `"${others[0]}"`);
      return this.#combined(name, schema, at, chain);
    }
    if (keywords.includes("enum")) return this.#enumeration(schema, keywords, at);
    const types = this.#typesOf(schema, keywords, at);
    return types === undefined ? this.#any() : oneOf(types.map((type) => this.#typed(type, schema, at)));
  }

  #combined(name: string, schema: Schema, at: string, chain: Chain): string {
    const value = schema[name];
    if (name === "$ref") return this.#reference(value, `${at}/$ref`, chain);
    if (name === "const") {
      const types = schema.type === undefined ? undefined : this.#typesOf(schema, ["type"], at);
      if (types !== undefined && !types.some((type) => isOfType(value, type))) {
        this.#refuse(`${at}/const`, `a value of type ${types.join(" or ")}`, JSON.stringify(value));
      }
      return literal(JSON.stringify(value));
    }
    if (!Array.isArray(value) || value.length === 0)
      return this.#refuse(`${at}/${name}`, "a list of schemas", typeof value);
    if (name === "allOf" && value.length > 1) this.#refuse(`${at}/allOf`, "one schema", `${value.length}`);
    if (value.length > MAX_ALTERNATIVES)
      this.#refuse(`${at}/${name}`, `at most ${MAX_ALTERNATIVES} schemas`, `${value.length}`);
    if (name === "oneOf" && !areExclusive(value, (pointer) => resolvePointer(this.root, pointer))) {
      this.#refuse(
        `${at}/oneOf`,
        "alternatives of different types or constants",
        "some that may hold together (use anyOf)",
      );
    }
    return oneOf(value.map((each: unknown, i) => this.#value(each, `${at}/${name}/${i}`, chain)));
  }

  #reference(pointer: unknown, at: string, chain: Chain): string {
    if (typeof pointer !== "string") return this.#refuse(at, "a string", typeof pointer);
    if (chain.has(pointer)) this.#refuse(at, "a reference that does not lead to itself", JSON.stringify(pointer));
    const known = this.#references.get(pointer);
    if (known !== undefined) return known;
    const target = resolvePointer(this.root, pointer);
    if (target === undefined) this.#refuse(at, "a reference into this schema (#/…)", JSON.stringify(pointer));
    const name = this.#writer.reserve();
    // Inside an object or a list the chain is broken, so a reference may come back to where it began.
    this.#references.set(pointer, name);
    if (this.#circles.isOnTheWayOf(pointer)) {
      this.#refuse(at, "a reference that does not lead to itself", JSON.stringify(pointer));
    }
    this.#writer.define(name, this.#value(target, pointer, new Set([...chain, pointer])));
    return name;
  }

  #enumeration(schema: Schema, keywords: readonly string[], at: string): string {
    const other = keywords.find((name) => name !== "enum" && name !== "type");
    if (other !== undefined) this.#refuse(`${at}/${other}`, 'nothing but "type" beside "enum"', `"${other}"`);
    if (!Array.isArray(schema.enum)) return this.#refuse(`${at}/enum`, "a list of values", typeof schema.enum);
    const types = schema.type === undefined ? undefined : this.#typesOf(schema, ["type"], at);
    const values = schema.enum.filter((value) => types === undefined || types.some((type) => isOfType(value, type)));
    if (values.length === 0) this.#refuse(`${at}/enum`, "a value that is allowed", "none");
    return this.#writer.rule(oneOfLiterals(jsonTexts(values)));
  }

  /** Undefined: any. Keywords of one type imply it. */
  #typesOf(schema: Schema, keywords: readonly string[], at: string): readonly JsonType[] | undefined {
    const { type } = schema;
    if (type === undefined) {
      const implied = new Set(keywords.flatMap((name) => TYPE_KEYWORDS.get(name) ?? []));
      return implied.size === 0 ? undefined : [...implied];
    }
    const types: unknown[] = Array.isArray(type) ? type : [type];
    const stray = types.find((each) => !JSON_TYPES.includes(each as JsonType));
    if (types.length === 0 || stray !== undefined) {
      this.#refuse(`${at}/type`, `one of ${JSON_TYPES.join(", ")}`, JSON.stringify(type));
    }
    return [...new Set(types as JsonType[])];
  }

  #typed(type: JsonType, schema: Schema, at: string): string {
    switch (type) {
      case "null":
        return literal("null");
      case "boolean":
        return oneOf([literal("true"), literal("false")]);
      case "integer":
      case "number":
        return this.#number(type, schema, at);
      case "string":
        return this.#string(schema, at);
      case "array":
        return this.#array(schema, at);
      case "object":
        return this.#object(schema, at);
    }
  }

  #number(type: "integer" | "number", schema: Schema, at: string): string {
    const bound = (name: string): number | undefined => {
      const value = schema[name];
      if (value === undefined || isIdleBound(name, value)) return undefined;
      if (typeof value === "number" && isPlainBound(value, type)) return value;
      return this.#refuse(`${at}/${name}`, expectedBound(type), JSON.stringify(value));
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
    const expression =
      type === "integer" ? integerExpression(this.#writer, bounds) : numberExpression(this.#writer, bounds);
    return expression ?? this.#refuse(at, `bounds that some ${type} keeps`, JSON.stringify(bounds));
  }

  #string(schema: Schema, at: string): string {
    const { pattern, format } = schema;
    const min = this.#count(schema, "minLength", at) ?? 0;
    const max = this.#count(schema, "maxLength", at);
    if (max !== undefined && min > max) this.#refuse(`${at}/minLength`, `at most maxLength (${max})`, `${min}`);
    if (pattern === undefined && format === undefined) return anyString(this.#writer, min, max);
    const given = ["pattern", "format", "minLength", "maxLength"].filter((name) => schema[name] !== undefined);
    if (given.length > 1) this.#refuse(`${at}/${given[1]}`, `nothing beside "${given[0]}"`, `"${given[1]}"`);
    const known = format === undefined ? undefined : FORMATS.get(String(format));
    if (format !== undefined && known === undefined) {
      this.#refuse(`${at}/format`, `one of ${[...FORMATS.keys()].join(", ")}`, JSON.stringify(format));
    }
    try {
      const run = known === undefined ? characterRun(regexTree(String(pattern))) : undefined;
      if (run !== undefined) return stringOfRun(this.#writer, run);
      return this.#writer.rule(quoted(regexExpression(known ?? String(pattern), spellInJson, known === undefined)));
    } catch (thrown) {
      if (!(thrown instanceof RegexError)) throw thrown;
      throw this.#invalid(`${at}/pattern`, thrown.message);
    }
  }

  #array(schema: Schema, at: string): string {
    const { items, prefixItems = [] } = schema;
    if (!Array.isArray(prefixItems)) return this.#refuse(`${at}/prefixItems`, "a list of schemas", typeof prefixItems);
    const min = this.#count(schema, "minItems", at) ?? 0;
    const most = this.#count(schema, "maxItems", at);
    const numPrefix = Math.min(prefixItems.length, most ?? prefixItems.length);
    const isOpen = items !== undefined || prefixItems.length === 0 || min > numPrefix;
    const max = isOpen && items !== false ? most : numPrefix;
    if (max !== undefined && min > max) this.#refuse(`${at}/minItems`, `at most ${max} items`, `${min}`);
    const prefix = prefixItems
      .slice(0, numPrefix)
      .map((each: unknown, i) => this.#value(each, `${at}/prefixItems/${i}`, NO_CHAIN));
    const rest = max === numPrefix ? EMPTY : this.#writer.rule(this.#value(items ?? true, `${at}/items`, NO_CHAIN));
    return this.#bracketed("[", this.#elements(prefix, rest, min, max), "]");
  }

  /** All of the prefix, then between min and max in all. */
  #elements(prefix: readonly string[], rest: string, min: number, max: number | undefined): string {
    const [first, ...others] = prefix;
    const comma = this.#comma();
    if (first !== undefined) {
      const numPrefix = prefix.length;
      const more = repeat(
        sequence(comma, rest),
        Math.max(0, min - numPrefix),
        max === undefined ? max : max - numPrefix,
      );
      return sequence(first, ...others.flatMap((each) => [comma, each]), rest === EMPTY ? EMPTY : more);
    }
    if (rest === EMPTY || max === 0) return EMPTY;
    const more = repeat(sequence(comma, rest), Math.max(0, min - 1), max === undefined ? max : max - 1);
    return repeat(sequence(rest, more), min === 0 ? 0 : 1, 1);
  }

  #object(schema: Schema, at: string): string {
    const { properties = {}, required = [], additionalProperties } = schema;
    if (!isSchema(properties)) return this.#refuse(`${at}/properties`, "an object of schemas", typeof properties);
    if (!Array.isArray(required)) return this.#refuse(`${at}/required`, "a list of names", typeof required);
    const stray: unknown = required.find((name) => typeof name !== "string");
    if (stray !== undefined) this.#refuse(`${at}/required`, "a list of names", JSON.stringify(stray));
    const isRequired = new Set<string>(required);
    const declared = Object.keys(properties);
    // Those that may not be there count as well: their names are compared with all others.
    this.#countSchemas(declared.length, at);
    this.#assertShort([...declared, ...isRequired], at);
    const undeclared = [...isRequired].filter((name) => !Object.hasOwn(properties, name));
    if (undeclared.length > 0 && additionalProperties === false) {
      this.#refuse(`${at}/required`, "names of properties", JSON.stringify(undeclared[0]));
    }
    const members = [
      ...declared.map((name) => ({
        name,
        value: this.#property(properties[name], `${at}/properties/${escapePointer(name)}`, isRequired.has(name)),
      })),
      ...undeclared.map((name) => ({
        name,
        value: this.#value(additionalProperties ?? true, `${at}/additionalProperties`, NO_CHAIN),
      })),
    ];
    const isOpen = additionalProperties === undefined ? members.length === 0 : additionalProperties !== false;
    const names = members.map(({ name }) => name);
    const present = members.flatMap(({ name, value }) =>
      value === undefined
        ? []
        : [{ pair: this.#pair(literal(JSON.stringify(name)), value), isRequired: isRequired.has(name) }],
    );
    const extra = isOpen
      ? this.#writer.rule(
          this.#pair(
            stringExcept(this.#writer, names),
            this.#value(additionalProperties ?? true, `${at}/additionalProperties`, NO_CHAIN),
          ),
        )
      : undefined;
    return this.#bracketed("{", this.#members(present, extra), "}");
  }

  /** Undefined: it may not be there. */
  #property(schema: unknown, at: string, isRequired: boolean): string | undefined {
    return schema === false && !isRequired ? undefined : this.#value(schema, at, NO_CHAIN);
  }

  /** In order; rules for "the first comes here or later" and "some came before", from the last to the first. */
  #members(
    members: readonly { readonly pair: string; readonly isRequired: boolean }[],
    extra: string | undefined,
  ): string {
    const comma = this.#comma();
    let later = extra === undefined ? EMPTY : repeat(sequence(comma, extra), 0, undefined);
    let first = extra === undefined ? EMPTY : repeat(sequence(extra, later), 0, 1);
    for (const { pair, isRequired } of members.toReversed()) {
      const begin = sequence(pair, later);
      const goOn = sequence(comma, pair, later);
      first = this.#writer.rule(isRequired ? begin : oneOf([begin, first]));
      later = this.#writer.rule(isRequired ? goOn : oneOf([goOn, later]));
    }
    return first;
  }

  #pair(key: string, value: string): string {
    return sequence(key, this.#whitespace, literal(":"), this.#whitespace, value);
  }

  #comma(): string {
    return this.#writer.rule(sequence(this.#whitespace, literal(","), this.#whitespace));
  }

  #bracketed(open: string, content: string, close: string): string {
    return this.#writer.rule(sequence(literal(open), this.#whitespace, content, this.#whitespace, literal(close)));
  }

  #any(): string {
    const types = JSON_TYPES.filter((type) => type !== "integer");
    return this.#writer.recursiveRule("any JSON value", () => oneOf(types.map((type) => this.#typed(type, {}, "#"))));
  }

  #count(schema: Schema, name: string, at: string): number | undefined {
    const value = schema[name];
    if (value === undefined) return undefined;
    const isCount = typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= MAX_REPETITIONS;
    return isCount
      ? value
      : this.#refuse(`${at}/${name}`, `an integer in [0, ${MAX_REPETITIONS}]`, JSON.stringify(value));
  }

  #refuse(at: string, expected: string, got: string): never {
    throw this.#invalid(at, `expected ${expected}, got ${got}`);
  }

  #invalid(at: string, problem: string): MillraceError {
    return new MillraceError("invalid_parameter", `${this.param}: at ${shorten(at)}: ${shorten(problem)}`, {
      param: this.param,
      hint: "docs/http-api.md lists what of JSON Schema can be guaranteed.",
    });
  }
}

function* jsonTexts(values: readonly unknown[]): Iterable<string> {
  for (const value of values) yield JSON.stringify(value);
}

function isOfType(value: unknown, type: JsonType): boolean {
  if (type === "integer") return Number.isInteger(value);
  if (type === "null") return value === null;
  if (type === "array") return Array.isArray(value);
  if (type === "object") return isSchema(value);
  return typeof value === type;
}

/** Names come from the client and are sent back, so a huge one is cut. */
function shorten(text: string): string {
  return text.length <= 400 ? text : `${text.slice(0, 397)}...`;
}
