/**
 * Converts a JSON schema to a grammar of JSON texts that satisfy it. The grammar may be narrower than the schema
 * (declared properties come in order, undeclared ones only if the schema asks for them); it is wider only for the
 * keywords in UNENFORCED.
 */

import { arrayOfSchema } from "./array-schema.js";
import { GrammarWriter, literal, oneOf, oneOfLiterals, sequence } from "./ebnf.js";
import { FORMATS } from "./formats.js";
import { resolvePointer } from "./json-pointer.js";
import { jsonSpace } from "./json-space.js";
import { Languages } from "./language.js";
import { numberOfSchema } from "./number-schema.js";
import { objectOfSchema } from "./object-expression.js";
import { ReferenceCircles } from "./reference-circles.js";
import { MAX_REPETITIONS, RegexError } from "./regex.js";
import { type Conjunction, ConjunctionReader, isCombining } from "./schema-conjunction.js";
import { inCurrentWords } from "./schema-dialect.js";
import type { SchemaHost } from "./schema-host.js";
import {
  isOfType,
  isSchema,
  JSON_TYPES,
  type JsonType,
  keywordsOf,
  type Schema,
  TYPE_KEYWORDS,
} from "./schema-keywords.js";
import { canonicalText, valuesOf } from "./schema-merge.js";
import { NoValue, possible, schemaError } from "./schema-refusal.js";
import { NameSet, type StringRules, stringExpression } from "./string-schema.js";

const MAX_SCHEMAS = 5000;
/** The converter recurses for each nested schema, and references nest schemas deeper than their JSON. */
const MAX_SCHEMA_DEPTH = 128;
/**
 * The limit for a property name; the grammar of an object with further properties excludes declared names character by
 * character.
 */
const MAX_NAME_LENGTH = 1024;
/** The limit for `oneOf`, where each alternative is compared with every other. */
const MAX_ALTERNATIVES = 256;
/** JSON pointers of the references that lead to this schema without an enclosing property or item. */
type Chain = ReadonlySet<string>;
const NO_CHAIN: Chain = new Set();

/** Bytes that no token spells: the body of a rule without references. */
const NEVER = "[\\xff\\xff] [\\x00\\x00]";

/**
 * @param param the request's field that holds the schema
 * @example grammarOfSchema({ type: "object", properties: { name: { type: "string" } }, required: ["name"] },
 *   "structured_outputs.json")
 */
export function grammarOfSchema(schema: unknown, param: string): string {
  const writer = new GrammarWriter();
  return writer.text(schemaExpression(writer, schema, param));
}

/** The schema's values as an expression inside a larger grammar. */
export function schemaExpression(writer: GrammarWriter, schema: unknown, param: string): string {
  return schemaExpressions(writer, schema, param)(schema, "#");
}

/**
 * The values of schemas within `root`, into which their references lead, as expressions inside a larger grammar.
 * @returns takes a schema and its JSON pointer
 */
export function schemaExpressions(
  writer: GrammarWriter,
  root: unknown,
  param: string,
): (schema: unknown, at: string) => string {
  const converter = new SchemaConverter(writer, root, param);
  return (schema, at) => converter.convert(schema, at);
}

class SchemaConverter implements SchemaHost {
  readonly #whitespace: string;
  /** Rules by JSON pointer. */
  readonly #references = new Map<string, string>();
  readonly #circles: ReferenceCircles;
  /** Errors of the references that no value can satisfy. */
  readonly #impossible = new Map<string, NoValue>();
  #languages: Languages | undefined;
  #numSchemas = 0;
  #depth = 0;

  constructor(
    readonly writer: GrammarWriter,
    private readonly root: unknown,
    private readonly param: string,
  ) {
    this.#whitespace = jsonSpace(writer);
    this.#circles = new ReferenceCircles(root);
  }

  convert(schema: unknown, at: string): string {
    try {
      return this.#value(schema, at, NO_CHAIN);
    } catch (thrown) {
      if (thrown instanceof NoValue) throw schemaError(this.param, thrown.at, thrown.problem);
      throw thrown;
    }
  }

  algebra(): Languages {
    this.#languages ??= new Languages();
    return this.#languages;
  }

  value(schema: unknown, at: string): string {
    return this.#value(schema, at, NO_CHAIN);
  }

  #value(schema: unknown, at: string, chain: Chain): string {
    this.countSchemas(1, at);
    if (++this.#depth > MAX_SCHEMA_DEPTH) this.refuse(at, `subschemas nested at most ${MAX_SCHEMA_DEPTH} deep`, "more");
    try {
      return this.#expression(schema, at, chain);
    } finally {
      this.#depth--;
    }
  }

  countSchemas(more: number, at: string): void {
    this.#numSchemas += more;
    if (this.#numSchemas > MAX_SCHEMAS) this.refuse(at, `at most ${MAX_SCHEMAS} subschemas`, "more");
  }

  assertShort(names: readonly string[], at: string): void {
    const long = names.find((name) => name.length > MAX_NAME_LENGTH);
    if (long !== undefined) this.refuse(at, `names of at most ${MAX_NAME_LENGTH} characters`, `${long.length}`);
  }

  #expression(schema: unknown, at: string, chain: Chain): string {
    if (schema === true) return this.#any();
    if (schema === false) return this.none(at, "a schema that some value is under", "false");
    if (!isSchema(schema)) return this.refuse(at, "a schema", JSON.stringify(schema));
    const current = inCurrentWords(schema);
    const keywords = keywordsOf(current);
    const combining = keywords.filter(isCombining);
    if (combining.length === 0) return this.#plain(current, at);
    if (keywords.length === 1) {
      const [name] = combining as [string];
      const value = current[name];
      if (name === "$ref") return this.#reference(value, `${at}/$ref`, chain);
      if (name === "allOf" && Array.isArray(value) && value.length === 1)
        return this.#value(value[0], `${at}/allOf/0`, chain);
      if (name === "anyOf" || name === "oneOf") return this.#oneOf(value, `${at}/${name}`, chain);
    }
    return this.#together(this.conjunction(schema, at, chain), at);
  }

  conjunction(schema: unknown, at: string, chain: Chain = NO_CHAIN): Conjunction {
    return new ConjunctionReader(
      {
        enter: (_, where) => this.countSchemas(1, where),
        resolve: (pointer, where, followed) => this.#target(pointer, where, followed),
        matches: (pattern, name) => this.#isUnderPattern(name, pattern),
        refuse: (where, expected, got) => this.refuse(where, expected, got),
      },
      chain,
    ).read(schema, at);
  }

  /** The conjunction, combined with each of its alternatives in turn. */
  #together({ plain, alternatives, followed }: Conjunction, at: string): string {
    if (plain === false) return this.none(at, "keywords that some value is under", "others");
    const [first, ...others] = alternatives;
    if (first === undefined) return this.#plain(plain, at);
    const rest = others.map(({ schemas }) => ({ anyOf: schemas }));
    const base = Object.keys(plain).length === 0 ? [] : [plain];
    return this.#oneOf(
      first.schemas.map((each) => (base.length + rest.length === 0 ? each : { allOf: [...base, each, ...rest] })),
      first.at,
      followed,
    );
  }

  #oneOf(value: unknown, at: string, chain: Chain): string {
    if (!Array.isArray(value) || value.length === 0) return this.refuse(at, "a list of schemas", typeof value);
    if (value.length > MAX_ALTERNATIVES) this.refuse(at, `at most ${MAX_ALTERNATIVES} schemas`, `${value.length}`);
    const ways = value.flatMap((each: unknown, i) => possible(() => this.#value(each, `${at}/${i}`, chain)) ?? []);
    return ways.length === 0 ? this.none(at, "an alternative that some value is under", "none") : oneOf(ways);
  }

  #reference(pointer: unknown, at: string, chain: Chain): string {
    const target = this.#target(pointer, at, chain);
    const name = pointer as string;
    const known = this.#references.get(name);
    if (known !== undefined) return known;
    const impossible = this.#impossible.get(name);
    if (impossible !== undefined) throw impossible;
    const rule = this.writer.reserve();
    // The rule is registered first: inside an object or a list, a reference may lead back to itself.
    this.#references.set(name, rule);
    if (this.#circles.isOnTheWayOf(name)) {
      this.refuse(at, "a reference that does not lead to itself", JSON.stringify(name));
    }
    try {
      this.writer.define(rule, this.#value(target, name, new Set([...chain, name])));
    } catch (thrown) {
      if (!(thrown instanceof NoValue)) throw thrown;
      // Other rules may already refer to this rule, so it needs a body.
      this.writer.define(rule, NEVER);
      this.#references.delete(name);
      this.#impossible.set(name, thrown);
      throw thrown;
    }
    return rule;
  }

  #target(pointer: unknown, at: string, chain: Chain): unknown {
    if (typeof pointer !== "string") return this.refuse(at, "a string", typeof pointer);
    if (chain.has(pointer)) this.refuse(at, "a reference that does not lead to itself", JSON.stringify(pointer));
    const target = resolvePointer(this.root, pointer);
    if (target === undefined) this.refuse(at, "a reference into this schema (#/…)", JSON.stringify(pointer));
    return target;
  }

  /** Keywords of types and values only. */
  #plain(schema: Schema, at: string): string {
    const keywords = keywordsOf(schema);
    try {
      if (keywords.includes("enum") || keywords.includes("const")) return this.#enumeration(schema, keywords, at);
      const types = this.#typesOf(schema, keywords, at);
      if (types === undefined) return this.#any();
      const ways = types.flatMap((type) => possible(() => this.#typed(type, schema, at)) ?? []);
      return ways.length === 0 ? this.none(at, "keywords that some value is under", "others") : oneOf(ways);
    } catch (thrown) {
      if (!(thrown instanceof RegexError)) throw thrown;
      throw schemaError(this.param, keywords.includes("pattern") ? `${at}/pattern` : at, thrown.message);
    }
  }

  #enumeration(schema: Schema, keywords: readonly string[], at: string): string {
    const listed = schema.enum ?? [schema.const];
    if (!Array.isArray(listed)) return this.refuse(`${at}/enum`, "a list of values", typeof listed);
    const types = schema.type === undefined ? undefined : this.#typesOf(schema, ["type"], at);
    const ofType = listed.filter((value) => types === undefined || types.some((type) => isOfType(value, type)));
    const constant = Object.hasOwn(schema, "const") && schema.enum !== undefined ? [schema.const] : undefined;
    const values = ofType.filter(
      (value) =>
        (constant === undefined || canonicalText(constant[0]) === canonicalText(value)) &&
        this.#isScalarUnder(value, schema),
    );
    const isDeep = values.some((value) => typeof value === "object" && value !== null);
    const other = isDeep ? keywords.find((name) => /^(array|object)$/.test(TYPE_KEYWORDS.get(name) ?? "")) : undefined;
    if (other !== undefined) this.refuse(`${at}/${other}`, "nothing that objects and lists in enum are under", other);
    if (values.length === 0) this.none(`${at}/enum`, "a value that is allowed", "none");
    return oneOfLiterals(this.writer, jsonTexts(values));
  }

  /**
   * @returns the types that a value may have; undefined: the schema limits none. A keyword of one type, such as
   * minLength, implies that type.
   */
  #typesOf(schema: Schema, keywords: readonly string[], at: string): readonly JsonType[] | undefined {
    const { type } = schema;
    if (type === undefined) {
      const implied = new Set(keywords.flatMap((name) => TYPE_KEYWORDS.get(name) ?? []));
      return implied.size === 0 ? undefined : [...implied];
    }
    const types: unknown[] = Array.isArray(type) ? type : [type];
    const stray = types.find((each) => !JSON_TYPES.includes(each as JsonType));
    if (types.length === 0 || stray !== undefined) {
      this.refuse(`${at}/type`, `one of ${JSON_TYPES.join(", ")}`, JSON.stringify(type));
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
        return numberOfSchema(this, type, schema, at);
      case "string":
        return this.#string(schema, at);
      case "array":
        return arrayOfSchema(this, schema, at);
      case "object":
        return objectOfSchema(this, schema, at);
    }
  }

  #string(schema: Schema, at: string): string {
    const rules = this.#stringRules(schema, at);
    const written = stringExpression(this.writer, () => this.algebra(), rules);
    return written ?? this.none(at, "patterns, formats and lengths that some string keeps", "others");
  }

  #stringRules(schema: Schema, at: string): StringRules {
    const min = this.count(schema, "minLength", at) ?? 0;
    const max = this.count(schema, "maxLength", at);
    if (max !== undefined && min > max) this.none(`${at}/minLength`, `at most maxLength (${max})`, `${min}`);
    const patterns = valuesOf(schema.pattern).map((each) =>
      typeof each === "string" ? each : this.refuse(`${at}/pattern`, "a string", typeof each),
    );
    // Unknown formats have no effect.
    const formats = valuesOf(schema.format).filter((each) => typeof each === "string" && FORMATS.has(each));
    return { min, max, patterns, formats: formats as string[] };
  }

  /** The property names that satisfy a `propertyNames` schema. */
  names(schema: unknown, at: string): NameSet {
    const { plain, alternatives } = this.conjunction(schema, at);
    const algebra = this.algebra();
    if (plain === false) return NameSet.of(algebra, []);
    const [first, ...others] = alternatives;
    if (first !== undefined) {
      const rest = [plain, ...others.map(({ schemas }) => ({ anyOf: schemas }))];
      const sets = first.schemas.map((each) => this.names({ allOf: [...rest, each] }, first.at));
      return NameSet.either(algebra, sets);
    }
    const { type } = plain;
    if (type !== undefined && ![type].flat().includes("string")) return NameSet.of(algebra, []);
    if (!Array.isArray(plain.enum)) return NameSet.under(algebra, this.#stringRules(plain, at));
    const listed = plain.enum.filter(
      (each): each is string => typeof each === "string" && this.#isScalarUnder(each, plain),
    );
    return NameSet.of(algebra, listed);
  }

  pair(key: string, value: string): string {
    return sequence(key, this.#whitespace, literal(":"), this.#whitespace, value);
  }

  comma(): string {
    return this.writer.rule(sequence(this.#whitespace, literal(","), this.#whitespace));
  }

  bracketed(open: string, content: string, close: string): string {
    return this.writer.rule(sequence(literal(open), this.#whitespace, content, this.#whitespace, literal(close)));
  }

  #any(): string {
    const types = JSON_TYPES.filter((type) => type !== "integer");
    return this.writer.recursiveRule("any JSON value", () => oneOf(types.map((type) => this.#typed(type, {}, "#"))));
  }

  count(schema: Schema, name: string, at: string): number | undefined {
    const value = schema[name];
    if (value === undefined) return undefined;
    const isCount = typeof value === "number" && Number.isInteger(value) && value >= 0;
    // A maximum above the limit is lowered to it, which only narrows the grammar.
    if (isCount && name.startsWith("max")) return Math.min(value, MAX_REPETITIONS);
    return isCount && value <= MAX_REPETITIONS
      ? value
      : this.refuse(`${at}/${name}`, `an integer in [0, ${MAX_REPETITIONS}]`, JSON.stringify(value));
  }

  /** Uses an automaton, because JavaScript's regular expressions can backtrack without end. */
  #isUnderPattern(text: string, pattern: string): boolean {
    return NameSet.under(this.algebra(), { min: 0, max: undefined, patterns: [pattern], formats: [] }).has(text);
  }

  /** Whether a listed string or number satisfies the schema's other keywords. */
  #isScalarUnder(value: unknown, schema: Schema): boolean {
    if (typeof value === "string") {
      const length = [...value].length;
      const { minLength = 0, maxLength = length } = schema as {
        readonly minLength?: number;
        readonly maxLength?: number;
      };
      const isMatching = valuesOf(schema.pattern).every((pattern) => this.#isUnderPattern(value, String(pattern)));
      return length >= minLength && length <= maxLength && isMatching;
    }
    if (typeof value !== "number") return true;
    const {
      minimum,
      maximum,
      exclusiveMinimum: above,
      exclusiveMaximum: below,
    } = schema as Readonly<Record<string, number>>;
    const isWithin = value >= (minimum ?? value) && value <= (maximum ?? value);
    const isMultiple = valuesOf(schema.multipleOf).every(
      (each) => Math.abs(value / Number(each) - Math.round(value / Number(each))) < 1e-9,
    );
    return isWithin && (above === undefined || value > above) && (below === undefined || value < below) && isMultiple;
  }

  refuse(at: string, expected: string, got: string): never {
    throw schemaError(this.param, at, `expected ${expected}, got ${got}`);
  }

  none(at: string, expected: string, got: string): never {
    throw new NoValue(at, `expected ${expected}, got ${got}`);
  }
}

function* jsonTexts(values: readonly unknown[]): Iterable<string> {
  for (const value of values) yield JSON.stringify(value);
}
