/**
 * Typed access to the JSON files of a model folder. A value of the wrong type is refused with the file's name and its
 * path in the file.
 */

import { basename } from "node:path";
import { MillraceError } from "../../core/errors.js";
import { isPlainObject } from "../../core/is-plain-object.js";
import { openFile, readExactly } from "./read-file.js";

const MAX_CONFIG_BYTES = 4 * 1024 * 1024;

/** Throws `file_unreadable`, or `model_config` for more than `maxBytes`. */
export function readTextFile(path: string, maxBytes = MAX_CONFIG_BYTES): string {
  using file = openFile(path);
  if (file.byteLength > maxBytes) {
    throw configError(`${path}: expected at most ${maxBytes} bytes, got ${file.byteLength}`);
  }
  return readExactly(file, 0, file.byteLength).toString("utf8");
}

/** Throws `file_unreadable`, or `model_config` if the text is no JSON object. */
export function readJsonFile(path: string, maxBytes = MAX_CONFIG_BYTES): JsonObject {
  return parseJsonObject(readTextFile(path, maxBytes), path);
}

/**
 * An infinite number, which Python writes and JSON has not, or a string. A string without an end is one piece, so
 * that hostile text is read in a time in proportion to its length.
 */
const INFINITE_OR_STRING = /"(?:[^"\\]|\\.)*"?|-?\bInfinity\b/g;

/** Infinite numbers, as in Nemotron's config.json, are read as null. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (thrown) {
    const plain = text.replace(INFINITE_OR_STRING, (match) => (match.startsWith('"') ? match : "null"));
    if (plain === text) throw thrown;
    return JSON.parse(plain);
  }
}

/** @param path where the text came from, for messages */
export function parseJsonObject(text: string, path: string): JsonObject {
  let value: unknown;
  try {
    value = parse(text);
  } catch (thrown) {
    throw configError(`${path}: expected JSON, got ${thrown instanceof Error ? thrown.message : String(thrown)}`);
  }
  if (!isPlainObject(value)) throw configError(`${path}: expected a JSON object, got another value`);
  return new JsonObject(value, basename(path), "");
}

/** An object of a JSON file. null counts as absent, as in the files' own readers. */
export class JsonObject {
  constructor(
    readonly raw: Readonly<Record<string, unknown>>,
    private readonly file: string,
    private readonly path: string,
    /** The keys that the file has for keys that readers ask for. */
    private readonly names: Readonly<Record<string, string>> = {},
  ) {}

  has(key: string): boolean {
    return this.value(key) !== undefined;
  }

  value(key: string): unknown {
    return Object.hasOwn(this.raw, key) ? (this.raw[key] ?? undefined) : undefined;
  }

  number(key: string): number | undefined {
    const value = this.value(key);
    if (value === undefined || (typeof value === "number" && Number.isFinite(value)))
      return value as number | undefined;
    throw this.wrong(key, "a number", value);
  }

  string(key: string): string | undefined {
    const value = this.value(key);
    if (value === undefined || typeof value === "string") return value;
    throw this.wrong(key, "a string", value);
  }

  boolean(key: string): boolean | undefined {
    const value = this.value(key);
    if (value === undefined || typeof value === "boolean") return value;
    throw this.wrong(key, "a boolean", value);
  }

  object(key: string): JsonObject | undefined {
    const value = this.value(key);
    if (value === undefined) return undefined;
    if (isPlainObject(value)) return new JsonObject(value, this.file, this.pathOf(key));
    throw this.wrong(key, "an object", value);
  }

  array(key: string): readonly unknown[] | undefined {
    const value = this.value(key);
    if (value === undefined || Array.isArray(value)) return value;
    throw this.wrong(key, "an array", value);
  }

  objects(key: string): readonly JsonObject[] | undefined {
    return this.array(key)?.map((element, index) => {
      if (isPlainObject(element)) return new JsonObject(element, this.file, this.pathOf(`${key}[${index}]`));
      throw this.wrong(`${key}[${index}]`, "an object", element);
    });
  }

  strings(key: string): readonly string[] | undefined {
    const value = this.array(key);
    if (value === undefined || value.every((element) => typeof element === "string")) return value as readonly string[];
    throw this.wrong(key, "an array of strings", value);
  }

  numbers(key: string): readonly number[] | undefined {
    const value = this.array(key);
    if (value === undefined || value.every((element) => typeof element === "number")) return value as readonly number[];
    throw this.wrong(key, "an array of numbers", value);
  }

  /** The object with defaults for missing keys. @param names the file's own names of some keys, for errors */
  withDefaults(extra: Readonly<Record<string, unknown>>, names: Readonly<Record<string, string>> = {}): JsonObject {
    const added = Object.entries(names).filter(([key]) => !Object.hasOwn(this.raw, key));
    return new JsonObject({ ...extra, ...this.raw }, this.file, this.path, {
      ...this.names,
      ...Object.fromEntries(added),
    });
  }

  /** How messages name a key of this object: `config.json: rope_scaling.factor`. */
  nameOf(key: string): string {
    return `${this.file}: ${this.pathOf(key)}`;
  }

  private pathOf(key: string): string {
    const name = this.names[key] ?? key;
    return this.path === "" ? name : `${this.path}.${name}`;
  }

  private wrong(key: string, expected: string, value: unknown): MillraceError {
    return configError(`expected ${this.nameOf(key)} to be ${expected}, got ${shownValue(value)}`);
  }
}

/** A value of a file as messages show it. */
export function shownValue(value: unknown): string {
  try {
    return (JSON.stringify(value) ?? "nothing").slice(0, 80);
  } catch {
    return "one nested too deeply to show";
  }
}

export function configError(message: string): MillraceError {
  return new MillraceError("model_config", message, {
    hint: "The folder's JSON files are damaged or of another format; download them again.",
  });
}
