/** Numbers of a config.json, each checked against a bound. */
import { configError, type JsonObject } from "../../formats/files/json.js";

export class ConfigReader {
  constructor(private readonly json: JsonObject) {}

  /** An integer in [1, max]. */
  size(key: string, max: number, fallback?: number): number {
    const value = this.json.number(key) ?? fallback;
    if (value === undefined || !Number.isInteger(value) || value < 1 || value > max) {
      throw configError(`expected ${this.json.nameOf(key)} to be an integer in [1, ${max}], got ${value}`);
    }
    return value;
  }

  /** Absent: `fallback`. */
  optionalSize(key: string, max: number, fallback = 0): number {
    const value = this.json.number(key) ?? fallback;
    return value === 0 ? 0 : this.size(key, max, fallback);
  }

  positive(key: string, fallback: number): number {
    const value = this.json.number(key) ?? fallback;
    if (value > 0) return value;
    throw configError(`expected ${this.json.nameOf(key)} to be a positive number, got ${value}`);
  }

  /** The first of the keys that is there; the last one where none is. */
  firstOf(keys: readonly string[]): string {
    return keys.find((key) => this.json.has(key)) ?? keys.at(-1)!;
  }
}
