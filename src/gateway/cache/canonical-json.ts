/** One text for each JSON value, without white space. Equal texts mean equal values. */

interface Canonical {
  /** Undefined if the value lacks a part of its bytes: equal texts then need not mean equal requests. */
  readonly text: string | undefined;
  /** Commas, colons and opening brackets of the value, which its bytes have too unless a member occurs twice. */
  readonly numMarks: number;
}

/** Parsed JSON nests less deeply (see MAX_JSON_DEPTH); the bound guards values from elsewhere. */
const MAX_DEPTH = 128;

/**
 * @param value parsed JSON; long lists of ids may be Int32Arrays
 * @param keepsOrder keeps the members' order, as in a schema, where it decides what a model writes first; else sorts
 * them
 * @returns no text if parsing rounded a number: an integer beyond 2⁵³, or one that became infinite
 */
export function canonicalJson(value: unknown, keepsOrder = false): Canonical {
  const writer = new Writer(keepsOrder);
  const text = writer.write(value, 0);
  return { text: writer.isExact ? text : undefined, numMarks: writer.numMarks };
}

class Writer {
  isExact = true;
  numMarks = 0;

  constructor(private readonly keepsOrder: boolean) {}

  write(value: unknown, depth: number): string {
    if (depth > MAX_DEPTH) this.isExact = false;
    if (typeof value === "number") return this.#number(value);
    if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
    if (!this.isExact) return "";
    if (value instanceof Int32Array) {
      this.numMarks += Math.max(value.length, 1);
      return `[${value.join(",")}]`;
    }
    if (Array.isArray(value)) {
      this.numMarks += Math.max(value.length, 1);
      return `[${value.map((each) => this.write(each, depth + 1)).join(",")}]`;
    }
    return this.#object(value as Readonly<Record<string, unknown>>, depth);
  }

  #number(value: number): string {
    if (!Number.isFinite(value) || (Number.isInteger(value) && !Number.isSafeInteger(value))) this.isExact = false;
    // JSON.stringify writes −0 as 0; as a bias, both are the same.
    return JSON.stringify(value);
  }

  #object(value: Readonly<Record<string, unknown>>, depth: number): string {
    const names = Object.keys(value);
    if (!this.keepsOrder) names.sort();
    const members: string[] = [];
    for (const name of names) {
      const each = value[name];
      // JSON omits undefined members.
      if (each === undefined) continue;
      members.push(`${JSON.stringify(name)}:${this.write(each, depth + 1)}`);
    }
    this.numMarks += Math.max(members.length, 1) + members.length;
    return `{${members.join(",")}}`;
  }
}
