/** The part of the converter that the writers of strings, numbers, lists and objects use. */
import type { GrammarWriter } from "./ebnf.js";
import type { Languages } from "./language.js";
import type { Conjunction } from "./schema-conjunction.js";
import type { Schema } from "./schema-keywords.js";
import type { NameSet } from "./string-schema.js";

export interface SchemaHost {
  readonly writer: GrammarWriter;
  /** One algebra for the whole schema, which bounds the total number of steps. */
  algebra(): Languages;
  /** The expression of a schema's values, for use inside an object or a list. */
  value(schema: unknown, at: string): string;
  conjunction(schema: unknown, at: string): Conjunction;
  /** The property names that satisfy a schema. */
  names(schema: unknown, at: string): NameSet;
  /** The value of a keyword that holds a count; undefined: the schema does not have it. */
  count(schema: Schema, name: string, at: string): number | undefined;
  countSchemas(more: number, at: string): void;
  assertShort(names: readonly string[], at: string): void;
  comma(): string;
  pair(key: string, value: string): string;
  bracketed(open: string, content: string, close: string): string;
  /** Refuses a schema that is malformed or cannot be enforced. */
  refuse(at: string, expected: string, got: string): never;
  /** Throws because no value satisfies the schema. */
  none(at: string, expected: string, got: string): never;
}
