/** The converter as seen by the writers of strings, numbers, lists and objects. */
import type { GrammarWriter } from "./ebnf.js";
import type { Languages } from "./language.js";
import type { Conjunction } from "./schema-conjunction.js";
import type { Schema } from "./schema-keywords.js";
import type { NameSet } from "./string-schema.js";

export interface SchemaHost {
  readonly writer: GrammarWriter;
  /** One algebra for all of the schema, whose steps it bounds together. */
  algebra(): Languages;
  /** An expression of the values under a schema, which stands inside something that is written. */
  value(schema: unknown, at: string): string;
  conjunction(schema: unknown, at: string): Conjunction;
  /** The names that a schema leaves. */
  names(schema: unknown, at: string): NameSet;
  /** A keyword that counts; undefined: it is not there. */
  count(schema: Schema, name: string, at: string): number | undefined;
  countSchemas(more: number, at: string): void;
  assertShort(names: readonly string[], at: string): void;
  comma(): string;
  pair(key: string, value: string): string;
  bracketed(open: string, content: string, close: string): string;
  /** Refuses a schema that is malformed or cannot be enforced. */
  refuse(at: string, expected: string, got: string): never;
  /** No value is under it. */
  none(at: string, expected: string, got: string): never;
}
