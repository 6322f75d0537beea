/** Grammars of JSON objects under a schema's object keywords. */
import { literal, oneOf } from "./ebnf.js";
import { escapePointer } from "./json-pointer.js";
import { stringExcept } from "./json-string.js";
import { type Member, membersExpression } from "./object-members.js";
import type { SchemaHost } from "./schema-host.js";
import { isSchema, keywordsOf, type Schema } from "./schema-keywords.js";
import { allOf, valuesOf } from "./schema-merge.js";
import { possible } from "./schema-refusal.js";
import { NameSet } from "./string-schema.js";

/** The limit for one object, because each pattern doubles the number of kinds of names. */
const MAX_NAME_PATTERNS = 6;

/** The expression of an object: its properties, their order and their number. */
export function objectOfSchema(host: SchemaHost, schema: Schema, at: string): string {
  return new ObjectWriter(host, schema, at).write();
}

class ObjectWriter {
  constructor(
    private readonly host: SchemaHost,
    private readonly schema: Schema,
    private readonly at: string,
  ) {}

  write(): string {
    const schema = this.schema;
    const at = this.at;
    const { properties = {}, required = [] } = schema;
    if (!isSchema(properties)) return this.host.refuse(`${at}/properties`, "an object of schemas", typeof properties);
    if (!Array.isArray(required)) return this.host.refuse(`${at}/required`, "a list of names", typeof required);
    const stray: unknown = required.find((name) => typeof name !== "string");
    if (stray !== undefined) this.host.refuse(`${at}/required`, "a list of names", JSON.stringify(stray));
    const isRequired = new Set<string>(required);
    const declared = Object.keys(properties);
    // Forbidden properties count as well, because their names are excluded from those of further properties.
    this.host.countSchemas(declared.length, at);
    this.host.assertShort([...declared, ...isRequired], at);
    const names = [...declared, ...[...isRequired].filter((name) => !Object.hasOwn(properties, name))];
    const known = this.#nameRules();
    const members = names.flatMap((name): Member[] => {
      const where = `${at}/properties/${escapePointer(name)}`;
      const own = Object.hasOwn(properties, name) ? properties[name] : undefined;
      const asked = known.under(name, own);
      if (asked === false && !isRequired.has(name)) return [];
      const write = () => this.host.value(asked, where);
      const value = isRequired.has(name) ? write() : possible(write);
      if (value === undefined) return [];
      return [{ pair: this.host.pair(literal(JSON.stringify(name)), value), isRequired: isRequired.has(name) }];
    });
    const extra = this.#extra(names, known.patterns);
    const count = {
      min: this.host.count(schema, "minProperties", at) ?? 0,
      max: this.host.count(schema, "maxProperties", at),
    };
    const content = membersExpression(this.host.writer, this.host.comma(), members, extra, count);
    return content === undefined
      ? this.host.none(at, "as many properties as there may be", JSON.stringify(count))
      : this.host.bracketed("{", content, "}");
  }

  /** Requirements on properties by name pattern, in addition to each property's own schema. */
  #nameRules() {
    const schema = this.schema;
    const at = this.at;
    const { patternProperties = {} } = schema;
    if (!isSchema(patternProperties)) {
      return this.host.refuse(`${at}/patternProperties`, "an object of schemas", typeof patternProperties);
    }
    const patterns = Object.entries(patternProperties);
    if (patterns.length > MAX_NAME_PATTERNS) {
      this.host.refuse(`${at}/patternProperties`, `at most ${MAX_NAME_PATTERNS} patterns`, `${patterns.length}`);
    }
    const matchers = patterns.map(([pattern, value]) => ({
      names: NameSet.under(this.host.algebra(), { min: 0, max: undefined, patterns: [pattern], formats: [] }),
      value,
    }));
    const asked = valuesOf(schema.propertyNames);
    const allowed = asked.length === 0 ? undefined : this.host.names({ allOf: asked }, `${at}/propertyNames`);
    const rest = additionalOf(schema);
    return {
      patterns: matchers,
      under: (name: string, own: unknown): unknown => {
        if (allowed?.has(name) === false) return false;
        const matching = matchers.filter(({ names }) => names.has(name)).map(({ value }) => value);
        return own === undefined && matching.length === 0 ? (rest ?? true) : allOf(own, ...matching);
      },
    };
  }

  /** Any undeclared member; undefined: none is allowed. */
  #extra(
    names: readonly string[],
    patterns: readonly { readonly names: NameSet; readonly value: unknown }[],
  ): string | undefined {
    const schema = this.schema;
    const at = this.at;
    const rest = additionalOf(schema);
    const isOpen = rest === undefined ? names.length + patterns.length === 0 : rest !== false;
    const asked = valuesOf(schema.propertyNames).filter((each) => !saysString(each));
    if (!isOpen && patterns.length === 0) return undefined;
    const value = (each: unknown) => possible(() => this.host.value(each, `${at}/additionalProperties`));
    if (asked.length + patterns.length === 0) {
      const written = value(rest ?? true);
      return written === undefined
        ? undefined
        : this.host.writer.rule(this.host.pair(stringExcept(this.host.writer, names), written));
    }
    const algebra = this.host.algebra();
    const all = asked.length === 0 ? NameSet.all(algebra) : this.host.names({ allOf: asked }, `${at}/propertyNames`);
    let kinds: { names: NameSet; schemas: readonly unknown[] }[] = [
      { names: all.without(NameSet.of(algebra, names)), schemas: [] },
    ];
    for (const { names: matching, value: schemaOf } of patterns) {
      kinds = kinds.flatMap((kind) => [
        { names: kind.names.and(matching), schemas: [...kind.schemas, schemaOf] },
        { names: kind.names.without(matching), schemas: kind.schemas },
      ]);
    }
    const pairs = kinds.flatMap(({ names: some, schemas }) => {
      if (schemas.length === 0 && !isOpen) return [];
      const key = some.expression(this.host.writer);
      const written = key === undefined ? undefined : value(schemas.length === 0 ? (rest ?? true) : allOf(...schemas));
      return key === undefined || written === undefined ? [] : [this.host.pair(key, written)];
    });
    return pairs.length === 0 ? undefined : this.host.writer.rule(oneOf(pairs));
  }
}

/** The schema of undeclared properties. */
const additionalOf = ({ additionalProperties, unevaluatedProperties }: Schema): unknown =>
  additionalProperties ?? unevaluatedProperties;

/** Whether a schema only requires a string, which every property name is. */
const saysString = (schema: unknown): boolean =>
  schema === true ||
  (isSchema(schema) && keywordsOf(schema).every((name) => name === "type") && schema.type === "string");
