/**
 * Reads the fields of an untrusted JSON object: a field of another type is refused by name, and unread fields are known
 * at the end.
 */

import { MillraceError } from "../../../core/errors.js";
import { isPlainObject } from "../../../core/is-plain-object.js";
import type { JsonObject } from "../../../core/json-body.js";

const MAX_SHOWN = 80;

export function described(value: unknown): string {
  if (value === undefined) return "nothing";
  if (value === null) return "null";
  if (Array.isArray(value)) return `a list of ${value.length}`;
  if (typeof value === "object") return "an object";
  return typeof value === "string" ? JSON.stringify(value.slice(0, MAX_SHOWN)) : String(value);
}

export function invalid(param: string, expected: string, got: unknown): MillraceError {
  return new MillraceError("invalid_parameter", `expected ${param} to be ${expected}, got ${described(got)}`, {
    param,
  });
}

/** `null` counts as absent, as in both vendors' APIs. */
export class Fields {
  readonly #read = new Set<string>();

  /** @param path the object's own name in the request, "" for the request itself */
  constructor(
    private readonly object: JsonObject,
    private readonly path = "",
  ) {}

  name(key: string): string {
    return this.path === "" ? key : `${this.path}.${key}`;
  }

  take(key: string): unknown {
    this.#read.add(key);
    // An inherited member is not a field.
    const value = Object.hasOwn(this.object, key) ? this.object[key] : undefined;
    return value === null ? undefined : value;
  }

  /** Names of the unread fields that have a value. */
  unread(): readonly string[] {
    return Object.keys(this.object).filter((key) => this.object[key] != null && !this.#read.has(key));
  }

  text(key: string): string | undefined {
    const value = this.take(key);
    if (value === undefined || typeof value === "string") return value;
    throw invalid(this.name(key), "text", value);
  }

  required(key: string): string {
    const value = this.text(key);
    if (value === undefined) throw invalid(this.name(key), "text", undefined);
    return value;
  }

  number(key: string, least: number, most: number): number | undefined {
    const value = this.take(key);
    if (value === undefined) return undefined;
    if (typeof value === "number" && value >= least && value <= most) return value;
    throw invalid(this.name(key), `a number from ${least} to ${most}`, value);
  }

  integer(key: string, least: number, most = Number.MAX_SAFE_INTEGER): number | undefined {
    const value = this.take(key);
    if (value === undefined) return undefined;
    if (Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most) return value as number;
    throw invalid(this.name(key), `a whole number of at least ${least}`, value);
  }

  boolean(key: string): boolean | undefined {
    const value = this.take(key);
    if (value === undefined || typeof value === "boolean") return value;
    throw invalid(this.name(key), "true or false", value);
  }

  objectAt(key: string): JsonObject | undefined {
    const value = this.take(key);
    if (value === undefined || isPlainObject(value)) return value;
    throw invalid(this.name(key), "an object", value);
  }

  /** The object of a field, to read its own fields. */
  inner(key: string): Fields | undefined {
    const value = this.objectAt(key);
    return value === undefined ? undefined : new Fields(value, this.name(key));
  }

  list(key: string): readonly unknown[] | undefined {
    const value = this.take(key);
    if (value === undefined) return undefined;
    if (Array.isArray(value)) return value;
    throw invalid(this.name(key), "a list", value);
  }

  /** The objects of a list, to read their fields. */
  objects(key: string): readonly Fields[] {
    return (this.list(key) ?? []).map((item, index) => {
      const path = `${this.name(key)}[${index}]`;
      if (!isPlainObject(item)) throw invalid(path, "an object", item);
      return new Fields(item, path);
    });
  }

  oneOf<T extends string>(key: string, values: readonly T[]): T | undefined {
    const value = this.take(key);
    if (value === undefined || values.includes(value as T)) return value as T | undefined;
    throw invalid(this.name(key), `one of ${values.join(", ")}`, value);
  }
}
