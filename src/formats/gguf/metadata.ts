/** Typed access to a GGUF file's metadata entries. */
import { MillraceError } from "../../core/errors.js";
import type { GgufMetadata, GgufValue } from "./types.js";

const MISSING_HINT = "the file was written by an incompatible converter; convert the model again";

/** @example new Metadata(new Map([["llama.block_count", 2]])).number("llama.block_count") // 2 */
export class Metadata implements GgufMetadata {
  readonly #entries: ReadonlyMap<string, GgufValue>;

  constructor(entries: ReadonlyMap<string, GgufValue>) {
    this.#entries = entries;
  }

  keys(): IterableIterator<string> {
    return this.#entries.keys();
  }

  has(key: string): boolean {
    return this.#entries.has(key);
  }

  get(key: string): GgufValue | undefined {
    return this.#entries.get(key);
  }

  number(key: string): number | undefined {
    const value = this.#entries.get(key);
    if (value === undefined) return undefined;
    const asNumber = typeof value === "bigint" ? toSafeNumber(value) : value;
    if (typeof asNumber !== "number" || !Number.isFinite(asNumber)) throw wrongType(key, "a finite number", value);
    return asNumber;
  }

  string(key: string): string | undefined {
    const value = this.#entries.get(key);
    if (value === undefined || typeof value === "string") return value;
    throw wrongType(key, "a string", value);
  }

  boolean(key: string): boolean | undefined {
    const value = this.#entries.get(key);
    if (value === undefined || typeof value === "boolean") return value;
    throw wrongType(key, "a boolean", value);
  }

  strings(key: string): readonly string[] | undefined {
    const value = this.#entries.get(key);
    if (value === undefined) return undefined;
    // Arrays are homogeneous: the first element speaks for all.
    if (!Array.isArray(value) || (value.length > 0 && typeof value[0] !== "string")) {
      throw wrongType(key, "an array of strings", value);
    }
    return value as readonly string[];
  }

  numbers(key: string): ArrayLike<number> | undefined {
    const value = this.#entries.get(key);
    if (value === undefined) return undefined;
    if (value instanceof BigInt64Array || value instanceof BigUint64Array) {
      return Float64Array.from(value, (element) => {
        const asNumber = toSafeNumber(element);
        if (asNumber === undefined) throw wrongType(key, "integers below 2^53", element);
        return asNumber;
      });
    }
    if (ArrayBuffer.isView(value)) return value;
    throw wrongType(key, "an array of numbers", value);
  }
}

function toSafeNumber(value: bigint): number | undefined {
  const asNumber = Number(value);
  return Number.isSafeInteger(asNumber) ? asNumber : undefined;
}

function wrongType(key: string, expected: string, value: GgufValue): MillraceError {
  return new MillraceError(
    "gguf_metadata",
    `expected ${expected} under metadata key "${key}", got ${describe(value)}`,
    {
      hint: MISSING_HINT,
    },
  );
}

function describe(value: GgufValue): string {
  if (typeof value === "string")
    return `the string ${JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value)}`;
  if (typeof value !== "object") return `the ${typeof value} ${value}`;
  if (ArrayBuffer.isView(value)) return `a ${value.constructor.name} of ${value.length}`;
  return `an array of ${value.length} ${value.length === 0 ? "elements" : `${elementKind(value[0])}s`}`;
}

function elementKind(element: GgufValue | undefined): string {
  return typeof element === "object" ? "array" : typeof element;
}
