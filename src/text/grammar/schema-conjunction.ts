/** The conjunction of a schema's own keywords, its references and its `allOf`, and the alternatives that remain. */
import { escapePointer } from "./json-pointer.js";
import { inCurrentWords } from "./schema-dialect.js";
import { isSchema, keywordsOf, type Schema } from "./schema-keywords.js";
import { type Matches, merged } from "./schema-merge.js";

/** Schemas of which a value must satisfy one. */
interface Alternatives {
  readonly schemas: readonly unknown[];
  readonly at: string;
  readonly isExclusive: boolean;
}

export interface Conjunction {
  /** Keywords of types and values; false: no value satisfies them. */
  readonly plain: Schema | false;
  readonly alternatives: readonly Alternatives[];
  /** JSON pointers of the references that were followed. */
  readonly followed: ReadonlySet<string>;
}

/** Keywords that apply other schemas to the same value. */
const COMBINING = ["$ref", "allOf", "anyOf", "oneOf", "not", "dependentRequired", "dependentSchemas"];

export const isCombining = (name: string): boolean => COMBINING.includes(name);

interface ConjunctionHost {
  readonly matches: Matches;
  /** Counts the schema; throws if it is not a schema. */
  enter(schema: unknown, at: string): void;
  resolve(pointer: unknown, at: string, followed: ReadonlySet<string>): unknown;
  refuse(at: string, expected: string, got: string): never;
}

const MAX_DEPTH = 64;

export class ConjunctionReader {
  #plain: Schema | false = {};
  readonly #alternatives: Alternatives[] = [];
  readonly #followed: Set<string>;
  /** References on the path to the schema being read. */
  readonly #path: Set<string>;
  #depth = 0;

  /** @param followed references that lead to this schema without an enclosing property or item */
  constructor(
    private readonly host: ConjunctionHost,
    followed: ReadonlySet<string>,
  ) {
    this.#followed = new Set(followed);
    this.#path = new Set(followed);
  }

  read(schema: unknown, at: string): Conjunction {
    this.#add(schema, at);
    return { plain: this.#plain, alternatives: this.#alternatives, followed: this.#followed };
  }

  #add(schema: unknown, at: string): void {
    if (schema === true) return;
    if (schema === false) {
      this.#plain = false;
      return;
    }
    this.host.enter(schema, at);
    if (!isSchema(schema)) this.host.refuse(at, "a schema", JSON.stringify(schema));
    if (++this.#depth > MAX_DEPTH) this.host.refuse(at, `schemas put together at most ${MAX_DEPTH} deep`, "more");
    const current = inCurrentWords(schema);
    const keywords = keywordsOf(current);
    const own = keywords.filter((name) => !isCombining(name));
    if (own.length > 0 && this.#plain !== false) {
      this.#plain = merged(
        this.#plain,
        Object.fromEntries(own.map((name) => plainKeyword(name, current[name]))),
        this.host.matches,
      );
    }
    for (const name of keywords) this.#combine(name, current[name], `${at}/${name}`);
    this.#depth--;
  }

  #combine(name: string, value: unknown, at: string): void {
    switch (name) {
      case "$ref": {
        const target = this.host.resolve(value, at, this.#path);
        const pointer = value as string;
        this.#followed.add(pointer);
        this.#path.add(pointer);
        this.#add(target, pointer);
        this.#path.delete(pointer);
        return;
      }
      case "allOf":
        this.#list(value, at).forEach((each, i) => {
          this.#add(each, `${at}/${i}`);
        });
        return;
      case "anyOf":
      case "oneOf":
        this.#alternatives.push({ schemas: this.#list(value, at), at, isExclusive: name === "oneOf" });
        return;
      case "not":
        this.#negate(value, at);
        return;
      case "dependentRequired":
      case "dependentSchemas":
        this.#depend(value, at);
    }
  }

  #list(value: unknown, at: string): readonly unknown[] {
    if (Array.isArray(value) && value.length > 0) return value;
    return this.host.refuse(at, "a list of schemas", typeof value);
  }

  /** Supports the negation of everything and of objects with certain properties. */
  #negate(value: unknown, at: string): void {
    if (value === true || (isSchema(value) && keywordsOf(value).length === 0 && Object.keys(value).length === 0)) {
      this.#plain = false;
      return;
    }
    const names = isSchema(value) && Object.keys(value).length === 1 ? value.required : undefined;
    if (!Array.isArray(names) || !names.every((name) => typeof name === "string")) return;
    this.#alternatives.push({ schemas: names.map(withoutProperty), at, isExclusive: false });
  }

  /** For each of these properties: it is missing, or the properties that it requires are present. */
  #depend(value: unknown, at: string): void {
    if (!isSchema(value)) this.host.refuse(at, "an object", typeof value);
    for (const [name, asked] of Object.entries(value)) {
      const then = Array.isArray(asked) ? { required: [name, ...asked] } : { allOf: [{ required: [name] }, asked] };
      const schemas = [withoutProperty(name), then];
      this.#alternatives.push({ schemas, at: `${at}/${escapePointer(name)}`, isExclusive: false });
    }
  }
}

const withoutProperty = (name: string): Schema => ({ properties: { [name]: false } });

/** Converts `const` to an `enum` of one value. */
function plainKeyword(name: string, value: unknown): readonly [string, unknown] {
  return name === "const" ? ["enum", [value]] : [name, value];
}
