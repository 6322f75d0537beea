/** Numbers of a GGUF file's metadata under `<architecture>.<key>`, each checked against a bound. */
import { MillraceError } from "../../core/errors.js";
import type { GgufMetadata } from "../../formats/gguf/types.js";
import { MODEL_LIMITS, seesAll } from "../description/model-description.js";
import { unservedVariant } from "../description/servable.js";

export class MetadataReader {
  constructor(
    private readonly metadata: GgufMetadata,
    private readonly architecture: string,
  ) {}

  has(key: string): boolean {
    return this.metadata.has(this.#nameOf(key));
  }

  boolean(key: string): boolean | undefined {
    return this.metadata.boolean(this.#nameOf(key));
  }

  /** An integer in [1, max], or a list in which every entry is the same one. */
  size(key: string, max: number, fallback?: number): number {
    const value = this.#uniform(key) ?? fallback;
    if (value === undefined || !isSize(value, 1, max)) throw this.#wrong(key, `an integer in [1, ${max}]`, value);
    return value;
  }

  /** Absent: 0. */
  optionalSize(key: string, max: number): number {
    const value = this.#uniform(key);
    return value === undefined || value === 0 ? 0 : this.size(key, max);
  }

  /**
   * One entry for each layer, of a list or of one number for all. An entry of a list is 0 where a layer has nothing of
   * the kind.
   */
  perLayer(key: string, numLayers: number, max: number): readonly number[] {
    const entries = this.#list(key);
    if (entries === undefined) return new Array<number>(numLayers).fill(this.size(key, max));
    if (entries.length !== numLayers) throw this.#wrong(key, `a number or a list of ${numLayers}`, entries.length);
    const values = Array.from(entries);
    const bad = values.find((value) => !isSize(value, 0, max));
    if (bad !== undefined) throw this.#wrong(key, `integers in [0, ${max}]`, bad);
    if (values.every((value) => value === 0)) throw this.#wrong(key, "above 0 in some layer", 0);
    return values;
  }

  /**
   * Whether each layer is one of those that a list of booleans or of 0 and 1 names; a number n stands for all but every
   * n-th, 0 for all. Absent: undefined.
   * @param isFromFirst the first layer counts as an n-th
   */
  layers(key: string, numLayers: number, isFromFirst = false): ((index: number) => boolean) | undefined {
    const value = this.metadata.get(this.#nameOf(key));
    if (value === undefined) return undefined;
    if (typeof value !== "object") {
      const period = this.optionalSize(key, MODEL_LIMITS.layers);
      return (index) => !seesAll(index, period, isFromFirst);
    }
    const flags: readonly unknown[] = Array.from<unknown>(value);
    if (flags.length !== numLayers) throw this.#wrong(key, `a number or a list of ${numLayers}`, flags.length);
    const bad = flags.findIndex((flag) => typeof flag === "string" || (Number(flag) !== 0 && Number(flag) !== 1));
    if (bad !== -1) throw this.#wrong(key, "a list of booleans", `another value at ${bad}`);
    return (index) => Number(flags[index]) === 1;
  }

  positive(key: string, fallback: number): number {
    const value = this.metadata.number(this.#nameOf(key)) ?? fallback;
    if (!(value > 0 && Number.isFinite(value))) throw this.#wrong(key, "a positive number", value);
    return value;
  }

  /** Absent or 0: `fallback`. */
  optionalPositive(key: string, fallback: number): number {
    return this.metadata.number(this.#nameOf(key)) === 0 ? fallback : this.positive(key, fallback);
  }

  #uniform(key: string): number | undefined {
    const entries = this.#list(key);
    if (entries === undefined) return this.metadata.number(this.#nameOf(key));
    const [first] = Array.from(entries);
    if (first !== undefined && Array.from(entries).every((entry) => entry === first)) return first;
    throw unservedVariant(`expected the same ${this.#nameOf(key)} in every layer, got several values`);
  }

  /** undefined: absent or a single value. */
  #list(key: string): ArrayLike<number> | undefined {
    const name = this.#nameOf(key);
    const value = this.metadata.get(name);
    return value === undefined || typeof value !== "object" ? undefined : this.metadata.numbers(name);
  }

  #nameOf(key: string): string {
    return `${this.architecture}.${key}`;
  }

  #wrong(key: string, expected: string, got: number | string | undefined): MillraceError {
    return new MillraceError("gguf_metadata", `expected ${this.#nameOf(key)} to be ${expected}, got ${got}`);
  }
}

const isSize = (value: number, min: number, max: number): boolean =>
  Number.isInteger(value) && value >= min && value <= max;
